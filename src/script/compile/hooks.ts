// `/hook before|after FILTER = [ … ]`: blocks that see operations go by and may replace what goes in or
// comes out. They cannot decide; their errors are collected, never raised.
import { type Json, ok } from '../../base/index.ts';
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
import { passedAt, unwrap } from '../run/operate.ts';
import { entriesOf } from '../values/kinds.ts';

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

interface HookState {
  /** Filters are those of guards, so the guards' own index answers them. */
  readonly hooks: { readonly hook: ScriptHook; readonly set: GuardSet }[];
  readonly errors: Json[];
}

const states = new WeakMap<RunState, HookState>();

/** The first hook mounts the port; until then operations pay nothing. */
export function addHook(run: RunState, hook: ScriptHook): void {
  const known = states.get(run);
  const state = known ?? { hooks: [], errors: [] };
  const { name, timing, filter } = hook;
  const decide = () => ok({ kind: 'allow' } as const);
  const guard = unwrap(defineGuard({ name, on: filter, timing, decide }));
  state.hooks.push({ hook, set: createGuardSet([guard]) });
  if (known) return;
  states.set(run, state);
  run.ground = childFrame(run.ground, {
    ports: { scriptHooks: portOf(state) },
    ctx: { hooks: () => ({ errors: [...state.errors] }) },
  });
}

function portOf(state: HookState): ScriptHooks {
  const ask = async (hook: ScriptHook, call: HookCall): Promise<Value | undefined> => {
    try {
      return await hook.run(call);
    } catch (error) {
      state.errors.push({ hook: hook.name, message: toFault(error).message });
      return undefined;
    }
  };
  return {
    async before(op, inputs, frame) {
      const current = inputs.map(({ value }) => value);
      let isChanged = false;
      const replace = (at: number, value: Value | undefined) => {
        if (!value || at >= current.length) return;
        current[at] = value;
        isChanged = true;
      };
      const shown = () => inputs.map((input, at) => ({ ...input, value: passedAt(current, at) }));
      for (const { hook, set } of state.hooks) {
        if (hook.timing !== 'before') continue;
        // A label: once for each input that carries it. Otherwise once, for all of them.
        for (const [at, input] of shown().entries()) {
          if (set.forMarks(input.value.meta.descriptor, 'before').length > 0)
            replace(at, await ask(hook, { inputs: [input], output: undefined, frame }));
        }
        if (set.forOperation(op, frame.held, 'before').length === 0) continue;
        const given = await ask(hook, { inputs: shown(), output: undefined, frame });
        const isList = given && current.length > 1 && Array.isArray(given.data);
        const values = isList ? entriesOf(given).map(([, value]) => value) : [given];
        for (const [at, value] of values.entries()) replace(at, value);
      }
      return isChanged ? current : undefined;
    },
    async after(op, result, inputs, frame) {
      let current = result;
      for (const { hook, set } of state.hooks) {
        const isConcerned =
          set.forOperation(op, frame.held, 'after').length > 0 ||
          set.forMarks(current.meta.descriptor, 'after').length > 0;
        if (hook.timing !== 'after' || !isConcerned) continue;
        current = (await ask(hook, { inputs, output: current, frame })) ?? current;
      }
      return current === result ? undefined : current;
    },
  };
}
