// Checks which files a script may access. In the project the rights of the caller apply. A person at the
// command line may also read other files.
import { isAbsolute, relative, resolve, sep } from 'node:path';
import {
  type Clock,
  type Failure,
  fail,
  isInside,
  type JsonObject,
  type Outcome,
  ok,
} from '@kernmantle/core/base';
import type { Frame, LabelRecords, Operation } from '@kernmantle/core/flow';
import {
  type Authority,
  type Caller,
  isClosed,
  isKeptPlace,
  type Kernel,
  type Primitive,
  resolveProjectPath,
} from '@kernmantle/core/kernel';
import type { ScriptWorld } from '../world.ts';

export interface WorldPorts {
  readonly root: string;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly personsHome: string;
  /** Returns the patterns of dangerous operations. */
  dangers(): readonly string[];
  readonly signal: AbortSignal;
  /** Folders that no script may read, such as the folder of the user's keys. */
  readonly closed: readonly string[];
  /** True for a person at the command line; never true inside of a thread. */
  readonly readsAnywhere: boolean;
  readonly labels: LabelRecords;
  authority(): Outcome<Authority>;
  subprocess(): Primitive;
  readonly kernel: Kernel;
  /** Returns the caller of kernel requests in this frame. */
  caller(frame: Frame): Caller;
  /** Returns the kind of an item; `undefined` if no item has the id. */
  kindOf(id: string): string | undefined;
  /** Returns how a tool reads untrusted data. */
  readsOf(id: string): Operation['reads'];
  readonly previewTool: NonNullable<ScriptWorld['previewTool']>;
  readonly connector: NonNullable<ScriptWorld['connector']>;
  readonly model: ScriptWorld['model'];
  /** Returns a random name that cannot be guessed. */
  unguessable(): string;
  audit(operation: string, failure: Failure | undefined): Outcome<null>;
}

export interface ResolvedFile {
  readonly absolute: string;
  /** Path relative to the project, with `/`; absolute for a file outside. */
  readonly relative: string;
  readonly isInside: boolean;
}

const asScope = (path: string): string => path.split(sep).join('/');

export function createAccess(ports: WorldPorts) {
  const { root } = ports;

  const check = (capability: string, path: string): Outcome<null> => {
    const authority = ports.authority();
    return authority.ok ? authority.output.check({ capability, scope: { path } }) : authority;
  };

  /** Allows a read outside of the project if the right covers all files. */
  function outside(real: string, path: string): Outcome<ResolvedFile> {
    const refusal = (why: string, about: JsonObject = { missing: '', rule: 'closed_place' }) =>
      fail('permission_denied', `\`${path}\` ${why}`, { ...about, attempted: path });
    if (ports.closed.some((folder) => isInside(real, folder))) {
      return refusal('is in the folder with your keys');
    }
    if (isKeptPlace(real)) return refusal('is in the folder with the records of a project');
    const name = ports.unguessable();
    if (!ports.readsAnywhere || !check('fs.read', `${name}/${name}`).ok) {
      return refusal('leads out of the project', { missing: 'fs.absolute' });
    }
    return ok({ absolute: real, relative: real, isInside: false });
  }

  /** Checks a read. `real` must have no links. */
  function mayReadReal(real: string, label: string): Outcome<ResolvedFile> {
    const way = relative(root, real);
    if (way.startsWith('..') || isAbsolute(way)) return outside(real, label);
    const inside = way === '' ? '.' : asScope(way);
    const right = check('fs.read', inside);
    return right.ok ? ok({ absolute: real, relative: inside, isInside: true }) : right;
  }

  return {
    mayReadReal,
    /** True if the names in this folder may be read. */
    mayListReal: (real: string): boolean => !isClosed(mayReadReal(real, real)),
    mayWrite(path: string): Outcome<ResolvedFile> {
      const place = resolveProjectPath(root, resolve(root, path));
      if (!place.ok) return place;
      const writeRight = check('fs.write', place.output.relative);
      return writeRight.ok ? ok({ ...place.output, isInside: true }) : writeRight;
    },
  };
}

export type Access = ReturnType<typeof createAccess>;
