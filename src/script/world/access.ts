// What a script may touch: the project through the authority that speaks for it, and, for a person at
// the command line, files elsewhere for reading.
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { fail, isInside, type Outcome, ok } from '../../base/index.ts';
import { type Authority, resolveProjectPath } from '../../kernel/index.ts';

interface AccessPorts {
  /** Real path of the project. */
  readonly root: string;
  /** Folders no script reads, whatever it is allowed: the user's keys. */
  readonly closed: readonly string[];
  /** May files outside the project be read at all? Never inside a thread. */
  readonly readsAnywhere: boolean;
  /** Asked for every act: a policy may have changed meanwhile. */
  authority(): Outcome<Authority>;
  /** A name nobody can have granted. */
  unguessable(): string;
}

export interface FilePlace {
  /** Real path. */
  readonly absolute: string;
  /** From the project, with `/`; absolute when outside. */
  readonly relative: string;
  readonly isInside: boolean;
}

const asScope = (path: string): string => path.split(sep).join('/');

export function createAccess(ports: AccessPorts) {
  const { root } = ports;

  const check = (capability: string, path: string): Outcome<null> => {
    const authority = ports.authority();
    return authority.ok ? authority.output.check({ capability, scope: { path } }) : authority;
  };

  /** A right to all files is a right to those elsewhere; one to some files is not. */
  function outside(real: string, path: string): Outcome<FilePlace> {
    const refusal = (why: string) =>
      fail('permission_denied', `\`${path}\` ${why}`, { missing: 'fs.absolute', attempted: path });
    if (ports.closed.some((folder) => isInside(real, folder))) {
      return refusal('is in the folder that holds your keys');
    }
    const name = ports.unguessable();
    if (!ports.readsAnywhere || !check('fs.read', `${name}/${name}`).ok) {
      return refusal('leads out of the project');
    }
    return ok({ absolute: real, relative: real, isInside: false });
  }

  /** `real` is free of links. */
  function mayReadReal(real: string, shown: string): Outcome<FilePlace> {
    const way = relative(root, real);
    if (way.startsWith('..') || isAbsolute(way)) return outside(real, shown);
    const inside = way === '' ? '.' : asScope(way);
    const held = check('fs.read', inside);
    return held.ok ? ok({ absolute: real, relative: inside, isInside: true }) : held;
  }

  return {
    mayReadReal,
    mayWrite(path: string): Outcome<FilePlace> {
      const place = resolveProjectPath(root, resolve(root, path));
      if (!place.ok) return place;
      const held = check('fs.write', place.output.relative);
      return held.ok ? ok({ ...place.output, isInside: true }) : held;
    },
  };
}

export type Access = ReturnType<typeof createAccess>;
