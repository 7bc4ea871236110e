// `/hook before|after FILTER = [ … ]`: blocks that see operations go by and may replace what goes in or
// comes out. They cannot decide; their errors are collected, never raised.
import type { Json } from '../../base/index.ts';
import {
  type Argument,
  childFrame,
  createGuardSet,
  defineGuard,
  type Frame,
  type GuardSet,
  type MaybePromise,
  type ScriptHooks,
  type Value,
} from '../../flow/index.ts';
import { toFault } from '../fault.ts';
import type { RunState } from '../run/environment.ts';
import { unwrap } from '../run/operate.ts';
import { entriesOf } from '../values/kinds.ts';
import { attempt, eachInTurn, andThen as then } from '../wait.ts';

interface HookCall {
  readonly inputs: readonly Argument[];
  readonly output: Value | undefined;
  readonly frame: Frame;
}

export type HookBody = (call: HookCall) => MaybePromise<Value | undefined>;

interface ScriptHook {
  readonly name: string;
  readonly timing: 'before' | 'after';
  readonly filter: string;
  readonly run: HookBody;
}

/** Filters are those of guards, so the guards' own index answers them. */
interface Filed {
  readonly hook: ScriptHook;
  readonly set: GuardSet;
}

interface HookState {
  readonly hooks: Filed[];
  readonly errors: Json[];
}

const states = new WeakMap<RunState, HookState>();

function file(hook: ScriptHook): Filed {
  const { name, timing, filter } = hook;
  const guard = unwrap(
    defineGuard({
      name,
      on: filter,
      timing,
      decide: () => ({ ok: true, output: { kind: 'allow' } }),
    }),
  );
  return { hook, set: createGuardSet([guard]) };
}

/** The first hook mounts the port; until then operations pay nothing. */
export function addHook(run: RunState, hook: ScriptHook): void {
  const known = states.get(run);
  const state = known ?? { hooks: [], errors: [] };
  state.hooks.push(file(hook));
  if (known) return;
  states.set(run, state);
  run.ground = childFrame(run.ground, {
    ports: { scriptHooks: portOf(state) },
    ctx: { hooks: () => ({ errors: [...state.errors] }) },
  });
}

function portOf(state: HookState): ScriptHooks {
  const ask = ({ hook }: Filed, call: HookCall): MaybePromise<Value | undefined> =>
    attempt<Value | undefined>(
      () => hook.run(call),
      (error) => {
        state.errors.push({ hook: hook.name, message: toFault(error).message });
        return undefined;
      },
    );
  return {
    before(op, inputs, frame) {
      let current = inputs;
      const replace = (at: number, value: Value) => {
        current = current.map((input, place) => (place === at ? { ...input, value } : input));
      };
      const run = eachInTurn(state.hooks, (filed) => {
        const { hook, set } = filed;
        if (hook.timing !== 'before') return false;
        // A label: once for each input that carries it. Otherwise once, for all of them.
        const marked = current.flatMap(({ value }, at) =>
          set.forMarks(value.meta.descriptor, 'before').length > 0 ? [at] : [],
        );
        const done = eachInTurn(marked, (at) =>
          then(
            ask(filed, { inputs: [current[at] as Argument], output: undefined, frame }),
            (given) => {
              if (given) replace(at, given);
              return false;
            },
          ),
        );
        if (set.forOperation(op, frame.held, 'before').length === 0) return then(done, () => false);
        return then(ask(filed, { inputs: current, output: undefined, frame }), (given) => {
          const isList = given && current.length > 1 && Array.isArray(given.data);
          const values = isList ? entriesOf(given).map(([, value]) => value) : given ? [given] : [];
          values.forEach((value, at) => replace(at, value));
          return false;
        });
      });
      return then(run, () => (current === inputs ? undefined : current.map(({ value }) => value)));
    },
    after(op, result, inputs, frame) {
      let current = result;
      const run = eachInTurn(state.hooks, (filed) => {
        const { hook, set } = filed;
        const isConcerned =
          set.forOperation(op, frame.held, 'after').length > 0 ||
          set.forMarks(current.meta.descriptor, 'after').length > 0;
        if (hook.timing !== 'after' || !isConcerned) return false;
        return then(ask(filed, { inputs, output: current, frame }), (given) => {
          if (given) current = given;
          return false;
        });
      });
      return then(run, () => (current === result ? undefined : current));
    },
  };
}
