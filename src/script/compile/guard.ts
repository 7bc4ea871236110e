// Guards, hooks, policies and profiles: statements that change how later ones are judged.

import {
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  whenReady,
} from '../../base/index.ts';
import {
  type Argument,
  addMarks,
  childFrame,
  createGuardSet,
  type Descriptor,
  defineGuard,
  type Frame,
  folderLabel,
  type GuardSet,
  type GuardView,
  isValue,
  labelsOfOperation,
  type MaybePromise,
  makeContainer,
  makeValue,
  type ScriptHooks,
  type Value,
  type Verdict,
} from '../../flow/index.ts';
import { raise, toFault } from '../fault.ts';
import { leaveOf, ruling, verdictOf } from '../run/control-values.ts';
import {
  type Compiler,
  type Environment,
  type Eval,
  evaluateAll,
  given,
  newPath,
  type RunState,
} from '../run/environment.ts';
import { caught, unwrap, valueAt } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { NodeOf } from '../syntax/ast.ts';
import { lineOf, shownPlace } from '../syntax/problem.ts';
import { absent, entriesOf, isAbsent } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { compileBlock, compileWhen } from './control-flow.ts';
import { guardInputs } from './guard-input.ts';
import { applyPolicy, missingNeeds, profileOf } from './policy.ts';
import { compileArguments } from './reference.ts';
import { compileOption } from './with-options.ts';

/** What a guard or hook sees besides its file's names. */
function ruleEnv(
  env: Environment,
  frame: Environment['frame'],
  input: Value,
  output: Value | undefined,
): Environment {
  const scope = new VariableScope('function', env.unit.scope);
  scope.bind('input', 'parameter', input);
  scope.bind('output', 'parameter', output ?? makeValue(null));
  const own = { path: newPath(), note: undefined, isDefining: false, pipe: undefined };
  return { ...env, scope, frame, ...own };
}

export function compileGuard(c: Compiler, node: NodeOf<'guard'>): Eval {
  const rules = compileWhen(c.forFunction(), node.rules);
  const { name, filter, timing, privileged } = node;
  return (env) => {
    if (privileged && !env.run.mayBePrivileged(c.unit)) {
      return raise(
        'permission_denied',
        'a privileged guard is accepted only in the script you start, its project modules, signed items and policy files',
      );
    }
    const decide = (view: GuardView): MaybePromise<Outcome<Verdict>> =>
      caught(() => {
        const input = view.input ? view.input.value : guardInputs(view.inputs);
        const inside = ruleEnv(env, view.frame, input, view.output);
        return whenReady(rules({ ...inside, chain: undefined }), verdict);
      });
    const place = `guard at ${shownPlace(c.unit, node.at)}`;
    const named = name ? { name } : {};
    const on = folderLabel(env.run.world.root, filter);
    const { mayLift } = env.run;
    const guard = unwrap(defineGuard({ ...named, on, timing, privileged, mayLift, place, decide }));
    if (name) c.unit.guards.add(name);
    env.run.ground = childFrame(env.run.ground, { guards: createGuardSet([guard]) });
    return absent();
  };
}

/** What it says, or puts in the place of a value, was chosen by its conditions. */
function marked(given: Verdict, marks: Descriptor): Verdict {
  if (given.kind === 'allow') return { ...given, isSaid: true };
  if (given.kind !== 'allow_value') return { ...given, marks };
  const { value } = given;
  return {
    ...given,
    value: addMarks(isValue(value) ? value : makeValue(value), marks),
    isSaid: true,
  };
}

/** No arm matched: allow. */
function verdict(value: Value): Verdict {
  const left = leaveOf(value);
  const said = left ? left.value : value;
  const given = verdictOf(said);
  const { descriptor: marks } = said.meta;
  if (given) return marked(given, marks);
  if (left?.word === 'retry')
    return { kind: 'retry', text: isAbsent(left.value) ? 'try again' : left.value.text, marks };
  if (left || value.data === null) return { kind: 'allow' };
  return raise('invalid_input', 'an arm of a guard must allow, deny, retry or ask');
}

// `/hook before|after FILTER = [ … ]`: blocks that see operations go by and may replace what goes in or
// comes out. They cannot decide; their errors are collected, never raised.

interface ScriptHook {
  readonly name: string;
  readonly timing: 'before' | 'after';
  /** Filters are those of guards, so the guards' own index answers them. */
  readonly filter: GuardSet;
  run(
    inputs: readonly Argument[],
    output: Value | undefined,
    frame: Frame,
  ): MaybePromise<Value | undefined>;
}

interface HookState {
  readonly hooks: ScriptHook[];
  readonly errors: Json[];
}

const states = new WeakMap<RunState, HookState>();

/** The first hook mounts the port; until then operations pay nothing. */
function hookState(run: RunState): HookState {
  const known = states.get(run);
  if (known) return known;
  const state: HookState = { hooks: [], errors: [] };
  states.set(run, state);
  run.ground = childFrame(run.ground, {
    ports: { scriptHooks: portOf(state) },
    ctx: { hooks: () => ({ errors: [...state.errors] }) },
  });
  return state;
}

function portOf(state: HookState): ScriptHooks {
  const ask = async (
    hook: ScriptHook,
    ...call: Parameters<ScriptHook['run']>
  ): Promise<Value | undefined> => {
    try {
      return await hook.run(...call);
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
      const shown = () => inputs.map((input, at) => ({ ...input, value: valueAt(current, at) }));
      for (const hook of state.hooks) {
        if (hook.timing !== 'before') continue;
        // A label: once for each input that carries it, else once where the operation has it. Otherwise
        // once, for all of them.
        let isOfInput = current.length === 0;
        for (const [at, input] of shown().entries()) {
          if (hook.filter.forMarks(input.value.meta.descriptor, 'before').length === 0) continue;
          isOfInput = true;
          replace(at, await ask(hook, [input], undefined, frame));
        }
        const labels = isOfInput ? [] : labelsOfOperation(op, frame);
        const concerned =
          hook.filter.forOperation(op, frame.held, 'before').length +
          hook.filter.forLabels(labels).length;
        if (concerned === 0) continue;
        const given = await ask(hook, shown(), undefined, frame);
        const isList = given && current.length > 1 && Array.isArray(given.data);
        const values = isList ? entriesOf(given).map(([, value]) => value) : [given];
        for (const [at, value] of values.entries()) replace(at, value);
      }
      return isChanged ? current : undefined;
    },
    async after(op, result, inputs, frame) {
      let current = result;
      for (const hook of state.hooks) {
        const isConcerned =
          hook.filter.forOperation(op, frame.held, 'after').length > 0 ||
          hook.filter.forResult(op, current.meta.descriptor).length > 0;
        if (hook.timing !== 'after' || !isConcerned) continue;
        current = (await ask(hook, inputs, current, frame)) ?? current;
      }
      return current === result ? undefined : current;
    },
  };
}

export function compileHook(c: Compiler, node: NodeOf<'hook'>): Eval {
  const block = compileBlock(c.forFunction(), node.body);
  const { timing } = node;
  return (env) => {
    const on = folderLabel(env.run.world.root, node.filter);
    const name = node.name ?? `hook at line ${lineOf(c.unit, node.at)}`;
    const decide = () => ok({ kind: 'allow' } as const);
    const filter = createGuardSet([unwrap(defineGuard({ name, on, timing, decide }))]);
    const run: ScriptHook['run'] = async (inputs, output, frame) => {
      const values = inputs.map(({ value }) => value);
      const [first] = values;
      const input = first && values.length === 1 ? first : makeContainer(values);
      const left = leaveOf(await block(ruleEnv(env, frame, input, output)));
      return left?.word === 'return' && !isAbsent(left.value) ? left.value : undefined;
    };
    hookState(env.run).hooks.push({ name, timing, filter, run });
    return absent();
  };
}

export function compilePolicy(c: Compiler, node: NodeOf<'policy'>): Eval {
  const members = compileArguments(c, node.members);
  return async (env) => {
    const found = await evaluateAll(members, env);
    for (const value of found) applyPolicy(env.run, value);
    const [first] = found;
    const isOne = first && found.length === 1;
    const all = isOne ? first : makeValue(Object.assign({}, ...found.map(({ data }) => data)));
    c.unit.scope.define(node.name, 'var', all, shownPlace(c.unit, node.at));
    return absent();
  };
}

const objectOf = (value: Value): JsonObject => (isObject(value.data) ? value.data : {});

export function compileProfiles(c: Compiler, node: NodeOf<'profiles'>): Eval {
  const evaluate = c.expression(node.value);
  return async (env) => {
    const profile = profileOf(env.run, objectOf(await evaluate(env)));
    env.run.ground = childFrame(env.run.ground, { ctx: { profile } });
    return absent();
  };
}

export function compileNeeds(c: Compiler, node: NodeOf<'needs'>): Eval {
  const evaluate = c.expression(node.value);
  return async (env) => {
    const missing = await missingNeeds(env, objectOf(await evaluate(env)));
    if (missing.length === 0) return absent();
    const names = missing.map((name) => `\`${name}\``).join(', ');
    return raise('dependency_missing', `this script needs ${names}`, { missing });
  };
}

// `allow`, `allow VALUE`, `deny "…"`, `retry "…"`, `ask "…"` in the arms of a guard.

const DEFAULT_TEXT = { deny: 'denied', retry: 'try again', ask: 'may this be done?' } as const;

const list = (value: Value | undefined): readonly string[] => {
  if (!value) return [];
  return Array.isArray(value.data) ? value.data.map(plainText) : [plainText(value.data)];
};

export function compileVerdict(c: Compiler, node: NodeOf<'verdict'>): Eval {
  const evaluate = node.value && c.expression(node.value);
  const { decision, options } = node;
  const edit = node.labels;
  const add = compileOption(c, options, 'addLabels');
  const remove = compileOption(c, options, 'removeLabels');
  // A bare `allow`, which most arms are, is always the same.
  if (decision === 'allow' && !evaluate && !edit && !options)
    return given(ruling({ kind: 'allow' }));
  return async (env) => {
    const value = await evaluate?.(env);
    if (decision !== 'allow')
      return ruling(
        { kind: decision, text: value ? textOf(value) : DEFAULT_TEXT[decision] },
        value?.meta.descriptor,
      );
    const labels = {
      clear: edit?.clear ?? false,
      add: [...(edit?.add ?? []), ...list(await add?.(env))],
      remove: [...(edit?.remove ?? []), ...list(await remove?.(env))],
    };
    const isChanged = edit || labels.add.length > 0 || labels.remove.length > 0;
    const change = isChanged ? { labels } : {};
    const passed = value && addMarks(value, c.unit.marks);
    return ruling(
      passed ? { kind: 'allow_value', value: passed, ...change } : { kind: 'allow', ...change },
    );
  };
}
