// What a script may touch: the project through the authority that speaks for it, and, for a person at
// the command line, files elsewhere for reading.
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

/** What a script's world is made from. */
export interface WorldPorts {
  /** Real path of the project. */
  readonly root: string;
  readonly clock: Clock;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The person's own folder. */
  readonly personsHome: string;
  /** Patterns of what is dangerous. */
  dangers(): readonly string[];
  readonly signal: AbortSignal;
  /** Folders no script reads: the user's keys. */
  readonly closed: readonly string[];
  /** True for a person at the command line, never inside a thread. */
  readonly readsAnywhere: boolean;
  readonly labels: LabelRecords;
  authority(): Outcome<Authority>;
  subprocess(): Primitive;
  readonly kernel: Kernel;
  /** Who speaks to the kernel for what is done in this frame. */
  caller(frame: Frame): Caller;
  /** The kind of an item, when there is one of that id. */
  kindOf(id: string): string | undefined;
  /** How the tool of this id reads what strangers wrote. */
  readsOf(id: string): Operation['reads'];
  readonly previewTool: NonNullable<ScriptWorld['previewTool']>;
  readonly connector: NonNullable<ScriptWorld['connector']>;
  readonly model: ScriptWorld['model'];
  /** A fresh name nobody can guess. */
  unguessable(): string;
  audit(operation: string, failure: Failure | undefined): Outcome<null>;
}

export interface FilePlace {
  /** Real path. */
  readonly absolute: string;
  /** From the project, with `/`; absolute when outside. */
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

  /** A right to all files is a right to those elsewhere; one to some files is not. */
  function outside(real: string, path: string): Outcome<FilePlace> {
    const refusal = (why: string, about: JsonObject = { missing: '', rule: 'closed_place' }) =>
      fail('permission_denied', `\`${path}\` ${why}`, { ...about, attempted: path });
    if (ports.closed.some((folder) => isInside(real, folder))) {
      return refusal('is in the folder that holds your keys');
    }
    if (isKeptPlace(real)) return refusal('is where a project keeps its records');
    const name = ports.unguessable();
    if (!ports.readsAnywhere || !check('fs.read', `${name}/${name}`).ok) {
      return refusal('leads out of the project', { missing: 'fs.absolute' });
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
    /** May the names in this folder be looked at, as far as the place itself is concerned? */
    mayListReal: (real: string): boolean => !isClosed(mayReadReal(real, real)),
    mayWrite(path: string): Outcome<FilePlace> {
      const place = resolveProjectPath(root, resolve(root, path));
      if (!place.ok) return place;
      const held = check('fs.write', place.output.relative);
      return held.ok ? ok({ ...place.output, isInside: true }) : held;
    },
  };
}

export type Access = ReturnType<typeof createAccess>;
