// Places that no right over files reaches, whoever holds it and however the path is written: the
// user's own folder with its keys (a project may be the home folder), and the project's items, also
// where `.ai` is a link to a folder with another name.
import { join, relative, resolve } from 'node:path';
import { type Clock, createLooks, fail, isInside } from '../../base/index.ts';
import type { Authority } from '../call.ts';
import type { PlannedNeed } from '../primitive.ts';
import { realOf } from './project-path.ts';

interface ClosedPlaces {
  /** Real path of the project. */
  project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  home: string;
}

/**
 * Takes the closed places out of every right over files. Where they are is looked at every 20 ms at
 * most: searching a project asks about thousands of files. The same authority gives the same answer.
 */
export function createKeepOut(
  { project, home }: ClosedPlaces,
  clock: Clock,
): (authority: Authority) => Authority {
  const looks = createLooks(clock);
  const listed = { home, items: join(project, '.ai') };
  const real = { ...listed };
  const known = new WeakMap<Authority, Authority>();

  function places() {
    if (looks.isRecent()) return real;
    looks.begin();
    // What is not there yet has no link that leads to it either.
    real.home = realOf(listed.home) ?? listed.home;
    real.items = realOf(listed.items) ?? listed.items;
    return real;
  }
  function refusal({ capability, scope }: PlannedNeed): string | undefined {
    if (scope?.path === undefined || !capability.startsWith('fs.')) return undefined;
    const { home: own, items } = places();
    // Scopes of files are relative to the project and already free of links.
    const place = resolve(project, scope.path);
    if (isInside(place, own)) return 'is in the folder that holds your keys';
    return capability === 'fs.write' && isInside(place, items)
      ? 'is where the items of the project are; they change through `execute`'
      : undefined;
  }
  const closed = (): string[] => {
    const { home: own, items } = places();
    return [own, items]
      .filter((place) => isInside(project, place))
      .map((place) => `${relative(project, place)}/**`);
  };
  return (authority) => {
    const before = known.get(authority);
    if (before) return before;
    const { globs } = authority;
    const made: Authority = {
      ...authority,
      check(need) {
        const allowed = authority.check(need);
        const reason = allowed.ok ? refusal(need) : undefined;
        if (reason === undefined) return allowed;
        const path = need.scope?.path ?? '';
        return fail('permission_denied', `\`${path}\` ${reason}`, {
          missing: need.capability,
          attempted: path,
        });
      },
      ...(globs && { globs: () => [...globs(), ...closed()] }),
    };
    known.set(authority, made);
    return made;
  };
}
