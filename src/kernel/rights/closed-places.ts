// Places that no right over files reaches, whoever holds it and however the path is written: the
// user's own folder with its keys (a project may be the home folder), and the project's items, also
// where `.ai` is a link to a folder with another name.
import { realpathSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fail, isInside, type Outcome } from '../../base/index.ts';
import type { Authority } from '../call.ts';
import type { PlannedNeed } from '../primitive.ts';

export interface ClosedPlaces {
  /** Real path of the project. */
  project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  home: string;
}

function realOf(path: string): string {
  try {
    return realpathSync.native(path);
  } catch {
    return path; // not there yet: then nothing leads to it through a link either
  }
}

interface RealPlaces {
  project: string;
  home: string;
  items: string;
}

function refusal({ capability, scope }: PlannedNeed, places: () => RealPlaces): string | undefined {
  if (scope?.path === undefined || !capability.startsWith('fs.')) return undefined;
  const { project, home, items } = places();
  // Scopes of files are relative to the project and already free of links.
  const place = resolve(project, scope.path);
  if (isInside(place, home)) return 'is in the folder that holds your keys';
  return capability === 'fs.write' && isInside(place, items)
    ? 'is where the items of the project are; they change through `execute`'
    : undefined;
}

/** The same authority, with the closed places taken out of every right over files. */
export function keepOut(authority: Authority, { project, home }: ClosedPlaces): Authority {
  let real: RealPlaces | undefined;
  // Once for a call: searching a project asks about thousands of files.
  const places = (): RealPlaces =>
    (real ??= { project, home: realOf(home), items: realOf(join(project, '.ai')) });
  const check = (need: PlannedNeed): Outcome<null> => {
    const allowed = authority.check(need);
    const reason = allowed.ok ? refusal(need, places) : undefined;
    if (reason === undefined) return allowed;
    const path = need.scope?.path ?? '';
    return fail('permission_denied', `\`${path}\` ${reason}`, {
      missing: need.capability,
      attempted: path,
    });
  };
  const { globs } = authority;
  if (!globs) return { ...authority, check };
  const closed = (): string[] => {
    const { home: own, items } = places();
    return [own, items]
      .filter((place) => isInside(project, place))
      .map((place) => `${relative(project, place)}/**`);
  };
  return { ...authority, check, globs: () => [...globs(), ...closed()] };
}
