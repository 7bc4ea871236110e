// Finding what a name stands for: the scopes first, then what the language itself provides.
import type { Json } from '../../base/index.ts';
import {
  childFrame,
  contextMember,
  contextOf,
  type Descriptor,
  EMPTY,
  makeContainer,
  makeValue,
  mergeAll,
  type Value,
  withLabels,
} from '../../flow/index.ts';
import { raise } from '../fault.ts';
import { withOrigin } from '../values/kinds.ts';
import { marksOf } from './control-values.ts';
import type { Env, Pipe } from './environment.ts';

export interface Found {
  readonly value: Value;
  readonly isMissing: boolean;
}

export function findName(env: Env, name: string): Found | undefined {
  const cell = env.scope.find(name);
  if (cell) return cell;
  const value = ambient(env, name);
  return value && { value, isMissing: false };
}

function ambient(env: Env, name: string): Value | undefined {
  switch (name) {
    case 'mx':
    case 'ctx':
      return makeValue(JSON.parse(JSON.stringify(contextOf(env.frame))) as Json, {
        descriptor: marksOfContext(env, 'input'),
      });
    case 'p':
    case 'pipeline':
      return env.pipe ? pipeView(env.pipe) : undefined;
    case 'input':
      return env.pipe ? env.pipe.input : inputOf(env);
    case 'fm':
      return env.unit.frontMatter;
    default:
      return env.run.ambient(name, env);
  }
}

/** What came in on stdin; a policy may label what carries no label. */
function inputOf({ run, frame }: Env): Value {
  const isLabelled = run.input.meta.descriptor.labels.length > 0;
  return isLabelled ? run.input : withLabels(run.input, frame.policy.unlabelled);
}

export const isContextName = (name: string): boolean => name === 'mx' || name === 'ctx';

/** One member of `@mx`, or of `@mx.op`; the others are not even made. */
export function contextValue(env: Env, name: string, inner?: string): Value {
  const found = contextMember(env.frame, name, inner);
  if (found === undefined) return makeValue(null);
  return makeValue(structuredCopy(found), { descriptor: marksOfContext(env, name) });
}

/** Views compute when read; a value holds plain data. */
const structuredCopy = (data: Json): Json =>
  typeof data === 'object' && data !== null ? (JSON.parse(JSON.stringify(data)) as Json) : data;

const OF_PIPE = new Set(['pipe', 'input', 'lastOutput', 'hint', 'tries']);
const OF_DATA = new Set(['guard', 'args', 'hooks']);

function marksOfContext(env: Env, name: string): Descriptor {
  const { frame, pipe } = env;
  if (OF_PIPE.has(name) && pipe) {
    return mergeAll([marksOf(pipe.hint), ...pipe.outputs.map(marksOf), marksOf(pipe.input)]);
  }
  if (name === 'errors') return frame.facts.errorMarks ?? EMPTY;
  if (!OF_DATA.has(name)) return EMPTY;
  return frame.facts.descriptor ?? mergeAll(frame.inputs.map(({ value }) => marksOf(value)));
}

/** `@p`: outputs by number from both ends, and the counters. */
function pipeView(pipe: Pipe): Value {
  const made = pipe.outputs.slice(1);
  const members = new Map<string, Value>();
  pipe.outputs.forEach((value, at) => members.set(String(at), value));
  made.forEach((value, at) => members.set(String(at - made.length), value));
  const history = makeContainer(pipe.history.map((outputs) => makeContainer(outputs)));
  members.set('stage', makeValue(pipe.stage));
  members.set('length', makeValue(made.length));
  members.set('try', makeValue(pipe.attempt));
  members.set('tries', history);
  members.set('retries', makeContainer(new Map([['all', history]])));
  members.set('guards', makeValue([...pipe.guards]));
  members.set('input', pipe.input);
  members.set('hint', pipe.hint ?? makeValue(null));
  return withOrigin(makeContainer(members), { pipe: true });
}

/** A member of `@p` that is not there prints as nothing. */
export const isPipeView = ({ meta }: Value): boolean => meta.origin['pipe'] === true;

/** The same frame with facts for `@mx`. */
export const withFacts = (env: Env, ctx: Parameters<typeof childFrame>[1]['ctx']): Env => ({
  ...env,
  frame: childFrame(env.frame, ctx ? { ctx } : {}),
});

// Names. A scope is a map with a parent; a cell is rebound only by `+=` and by a repeated `let`.

export type BindingKind = 'var' | 'exe' | 'let' | 'parameter' | 'loop' | 'import' | 'ambient';

export interface Cell {
  value: Value;
  readonly kind: BindingKind;
  /** A parameter nobody gave: stays as written in text, undefined elsewhere. */
  readonly isMissing: boolean;
  /** Where it was bound, as `file:line`, for errors that name both places. */
  readonly place: string;
}

/** `file`: a file's names. `arm`: the block of a `when` arm, where `let` may shadow. */
export type ScopeKind = 'file' | 'function' | 'block' | 'arm' | 'branch';

export class Scope {
  readonly kind: ScopeKind;
  readonly parent: Scope | undefined;
  readonly #cells = new Map<string, Cell>();

  constructor(kind: ScopeKind, parent: Scope | undefined) {
    this.kind = kind;
    this.parent = parent;
  }

  find(name: string): Cell | undefined {
    const own = this.#cells.get(name);
    if (own) return own;
    for (let scope = this.parent; scope; scope = scope.parent) {
      const cell = scope.#cells.get(name);
      if (cell) return cell;
    }
    return undefined;
  }

  own(name: string): Cell | undefined {
    return this.#cells.get(name);
  }

  names(): string[] {
    return [...this.#cells.keys()];
  }

  bind(name: string, kind: BindingKind, value: Value, place = '', isMissing = false): void {
    this.#cells.set(name, { value, kind, isMissing, place });
  }

  /** `var`, `exe` and imports: once per file. */
  define(name: string, kind: BindingKind, value: Value, place: string): void {
    const taken = this.#cells.get(name);
    if (taken) {
      raise('invalid_input', `\`@${name}\` is already defined at ${taken.place}`, {
        name,
        hint: 'names are bound once; use another name, or `+=` to add to it',
      });
    }
    this.bind(name, kind, value, place);
  }

  /** `let`: again in its own block; elsewhere only where nothing of this file holds the name. */
  let(name: string, value: Value, place: string): void {
    const own = this.#cells.get(name);
    if (!own && this.kind !== 'arm') this.#refuseShadow(name);
    this.bind(name, 'let', value, place);
  }

  #refuseShadow(name: string): void {
    const outer = this.parent?.find(name);
    if (outer && outer.kind !== 'import' && outer.kind !== 'ambient' && outer.kind !== 'loop') {
      raise('invalid_input', `\`let @${name}\` would hide the \`@${name}\` of ${outer.place}`, {
        name,
        hint: 'choose another name',
      });
    }
  }

  /** The cell `+=` rebinds; leaving a parallel branch for it is an error. */
  rebindable(name: string): Cell {
    const own = this.#cells.get(name);
    if (own) return own;
    let isBeyondBranch = this.kind === 'branch';
    for (let scope = this.parent; scope; scope = scope.parent) {
      const cell = scope.#cells.get(name);
      if (cell) return isBeyondBranch ? refuseShared(name) : cell;
      isBeyondBranch ||= scope.kind === 'branch';
    }
    return raise('not_found', `\`@${name}\` is not defined, so nothing can be added to it`, {
      name,
    });
  }
}

const refuseShared = (name: string): never =>
  raise('invalid_input', `\`@${name}\` is shared by parallel branches and cannot be changed here`, {
    name,
    hint: 'let the branch return its part and combine the results',
  });
