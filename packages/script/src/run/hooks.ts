// Implements `/hook before|after FILTER = [ … ]`: blocks that observe operations and rounds of loops and
// may replace inputs or results. A hook cannot decide. Its errors are collected and never raised.
import type { Json } from '@kernmantle/core/base';
import {
  type Argument,
  addMarks,
  childFrame,
  type Frame,
  type GuardSet,
  labelsOfOperation,
  type MaybePromise,
  type Operation,
  type ScriptHooks,
  type Value,
} from '@kernmantle/core/flow';
import { toFault } from '../fault.ts';
import { locationOf } from '../problem.ts';
import { entriesOf } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { leave, leaveOf } from './control-values.ts';
import type { Environment, RunState } from './environment.ts';

/** Kinds of rounds. A round is not an operation, but a hook can observe it. */
type RoundKind = 'iteration' | 'batch' | 'round';

/** The input that matched the label of the filter, or all inputs. */
type Subject = { readonly one: Value } | { readonly all: readonly Argument[] };

export interface ScriptHook {
  readonly name: string;
  readonly timing: 'before' | 'after';
  /** The filter as a guard set, because hooks and guards have the same filters. */
  readonly filter: GuardSet;
  /** Prefix that the text of the first argument must have. */
  readonly prefix: string | undefined;
  /** Kind of round that the hook observes; absent for a hook on operations. */
  readonly round: RoundKind | undefined;
  /** Runs the hook. Returns the replacement; `undefined` if it replaces nothing. */
  run(subject: Subject, output: Value | undefined, frame: Frame): MaybePromise<Value | undefined>;
}

interface HookState {
  readonly hooks: ScriptHook[];
  readonly errors: Json[];
}

const ROUNDS: Readonly<Record<string, RoundKind>> = {
  'op:for:iteration': 'iteration',
  'op:for:batch': 'batch',
  'op:loop': 'round',
};

export const roundOf = (filter: string): RoundKind | undefined =>
  Object.hasOwn(ROUNDS, filter.toLowerCase()) ? ROUNDS[filter.toLowerCase()] : undefined;

const states = new WeakMap<RunState, HookState>();

/** Adds a hook. The first hook mounts the port, so operations of a script without hooks cost nothing more. */
export function addHook(run: RunState, hook: ScriptHook): void {
  const existing = states.get(run);
  if (existing) {
    existing.hooks.push(hook);
    return;
  }
  const state: HookState = { hooks: [hook], errors: [] };
  states.set(run, state);
  run.ground = childFrame(run.ground, {
    ports: { scriptHooks: portOf(state) },
    ctx: { hooks: () => ({ errors: [...state.errors] }) },
  });
}

async function runHook(
  { errors }: HookState,
  hook: ScriptHook,
  ...call: Parameters<ScriptHook['run']>
): Promise<Value | undefined> {
  try {
    return await hook.run(...call);
  } catch (error) {
    errors.push({ hook: hook.name, message: toFault(error).message });
    return undefined;
  }
}

/** Replaces inputs by position with a list, or the first input with another value. Labels of old values stay. */
function replaceInputs(
  inputs: readonly Argument[],
  replacement: Value | undefined,
): readonly Argument[] {
  if (!replacement) return inputs;
  const values = Array.isArray(replacement.data)
    ? entriesOf(replacement).map(([, value]) => value)
    : [replacement];
  return inputs.map((input, at) => {
    const value = values[at];
    return value ? { ...input, value: addMarks(value, input.value.meta.descriptor) } : input;
  });
}

function isConcerned(
  { filter, prefix, round, timing }: ScriptHook,
  op: Operation,
  inputs: readonly Argument[],
  { held }: Frame,
): boolean {
  if (round !== undefined || filter.forOperation(op, held, timing).length === 0) return false;
  const [first] = inputs;
  return prefix === undefined || (first !== undefined && textOf(first.value).startsWith(prefix));
}

function portOf(state: HookState): ScriptHooks {
  return {
    async before(op, original, frame) {
      let inputs = original;
      for (const hook of state.hooks) {
        if (hook.timing !== 'before') continue;
        // A label filter runs the hook for each input with the label, or else once if the operation has it.
        // Other filters run the hook once for all inputs.
        let isOfOperation = inputs.length > 0;
        for (const [at, { value }] of inputs.entries()) {
          if (hook.filter.forMarks(value.meta.descriptor, 'before').length === 0) continue;
          isOfOperation = false;
          const now = await runHook(state, hook, { one: value }, undefined, frame);
          inputs = inputs.map((input, index) =>
            now && index === at ? { ...input, value: addMarks(now, value.meta.descriptor) } : input,
          );
        }
        const labels = isOfOperation ? labelsOfOperation(op, frame) : [];
        if (isConcerned(hook, op, inputs, frame) || hook.filter.forLabels(labels).length > 0)
          inputs = replaceInputs(
            inputs,
            await runHook(state, hook, { all: inputs }, undefined, frame),
          );
      }
      return inputs === original ? undefined : inputs.map(({ value }) => value);
    },
    async after(op, result, inputs, frame) {
      let current = result;
      for (const hook of state.hooks) {
        if (hook.timing !== 'after') continue;
        const isMarked = hook.filter.forResult(op, current.meta.descriptor).length > 0;
        if (!isMarked && !isConcerned(hook, op, inputs, frame)) continue;
        current = (await runHook(state, hook, { all: inputs }, current, frame)) ?? current;
      }
      return current === result ? undefined : current;
    },
  };
}

export interface RoundHooks {
  before(values: readonly Value[], env: Environment): Promise<readonly Value[]>;
  after(result: Value, values: readonly Value[], env: Environment): Promise<Value>;
}

/** Runs one round with its hooks. `bind` receives the replaced input. */
export async function hookedRound(
  hooks: RoundHooks,
  env: Environment,
  value: Value,
  bind: (value: Value) => void,
  body: () => MaybePromise<Value>,
): Promise<Value> {
  const [replacement = value] = await hooks.before([value], env);
  if (replacement !== value) bind(replacement);
  const result = await body();
  const leaving = leaveOf(result);
  const output = leaving ? leaving.value : result;
  const now = await hooks.after(output, [replacement], env);
  if (now === output || leaving?.word === 'skip' || leaving?.word === 'retry') return result;
  return leaving ? leave(leaving.word, now) : now;
}

/** Returns the hooks on these rounds; `undefined` if there are none, and inside of a hook or guard. */
export function roundHooks(
  { run, frame, unit }: Environment,
  kind: RoundKind,
  at: number,
): RoundHooks | undefined {
  const state = states.get(run);
  if (!state || frame.isHooking || frame.isJudging) return undefined;
  const hooks = state.hooks.filter(({ round }) => round === kind);
  if (hooks.length === 0) return undefined;
  const what =
    kind === 'round' ? { type: 'loop' as const } : { type: 'for' as const, subtype: kind };
  const op: Operation = { ...what, name: '', opLabels: [], location: locationOf(unit, at) };
  const named = (values: readonly Value[]): readonly Argument[] =>
    values.map((value) => ({ name: 'item', role: undefined, value }));
  const frameOf = (inner: Frame): Frame => ({
    ...inner,
    parent: inner,
    isHooking: true,
    facts: { ...inner.facts, op },
  });
  return {
    async before(values, env) {
      let inputs = named(values);
      for (const hook of hooks) {
        if (hook.timing === 'after') continue;
        const replacement = await runHook(
          state,
          hook,
          { all: inputs },
          undefined,
          frameOf(env.frame),
        );
        inputs = replaceInputs(inputs, replacement);
      }
      return inputs.map(({ value }) => value);
    },
    async after(result, values, env) {
      let current = result;
      for (const hook of hooks) {
        if (hook.timing === 'before') continue;
        const all = { all: named(values) };
        const changed = await runHook(state, hook, all, current, frameOf(env.frame));
        if (changed) current = addMarks(changed, current.meta.descriptor);
      }
      return current;
    },
  };
}
