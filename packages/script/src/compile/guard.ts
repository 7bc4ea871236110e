// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles guards, hooks, policies, profiles and needs: statements that change how later statements are
// judged.
import {
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  whenReady,
} from '@kernmantle/core/base';
import {
  addMarks,
  childFrame,
  createGuardSet,
  type Descriptor,
  defineGuard,
  folderLabel,
  type GuardView,
  isValue,
  type MaybePromise,
  makeValue,
  type Value,
  type Verdict,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { lineOf, locationText } from '../problem.ts';
import { leaveOf, ruling, verdictOf } from '../run/control-values.ts';
import {
  type Compiler,
  constant,
  type Environment,
  type Eval,
  evaluateAll,
  newPath,
} from '../run/environment.ts';
import { addHook, roundOf, type ScriptHook } from '../run/hooks.ts';
import { caught, unwrap } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { NodeOf } from '../syntax/ast.ts';
import { absent, isAbsent } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { compileBlock, compileWhen } from './control-flow.ts';
import { guardInputs } from './guard-input.ts';
import { applyPolicy, declarePolicy, missingNeeds, profileOf } from './policy.ts';
import { compileArguments } from './reference.ts';
import { compileOption } from './with-options.ts';

/** Returns the environment of a guard or hook: the names of its file, `@input` and `@output`. */
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
        'a privileged guard is allowed only in the script you start, its project modules, signed items and policy files',
      );
    }
    const decide = (view: GuardView): MaybePromise<Outcome<Verdict>> =>
      caught(() => {
        const input = view.input ? view.input.value : guardInputs(view.inputs);
        const inside = ruleEnv(env, view.frame, input, view.output);
        return whenReady(rules({ ...inside, chain: undefined }), verdict);
      });
    const place = `guard at ${locationText(c.unit, node.at)}`;
    const named = name ? { name } : {};
    const on = folderLabel(env.run.world.root, filter);
    const { mayLift } = env.run;
    const guard = unwrap(defineGuard({ ...named, on, timing, privileged, mayLift, place, decide }));
    if (name) c.unit.guards.add(name);
    env.run.ground = childFrame(env.run.ground, { guards: createGuardSet([guard]) });
    return absent();
  };
}

/** Adds the marks of the conditions to a decision and to its text or value. */
function withMarks(decision: Verdict, marks: Descriptor): Verdict {
  if (decision.kind === 'allow') return { ...decision, isSaid: true };
  if (decision.kind !== 'allow_value') return { ...decision, marks };
  const { value } = decision;
  return {
    ...decision,
    value: addMarks(isValue(value) ? value : makeValue(value), marks),
    isSaid: true,
  };
}

/** Returns the decision of a guard. If no arm matched, it is `allow`. */
function verdict(value: Value): Verdict {
  const leaving = leaveOf(value);
  const result = leaving ? leaving.value : value;
  const decision = verdictOf(result);
  const { descriptor: marks } = result.meta;
  if (decision) return withMarks(decision, marks);
  if (leaving?.word === 'retry')
    return {
      kind: 'retry',
      text: isAbsent(leaving.value) ? 'try again' : leaving.value.text,
      marks,
    };
  if (leaving || value.data === null) return { kind: 'allow' };
  return raise('invalid_input', 'an arm of a guard must allow, deny, retry or ask');
}

export function compileHook(c: Compiler, node: NodeOf<'hook'>): Eval {
  const block = compileBlock(c.forFunction(), node.body);
  const { timing, prefix } = node;
  return (env) => {
    const on = folderLabel(env.run.world.root, node.filter);
    const name = node.name ?? `hook at line ${lineOf(c.unit, node.at)}`;
    const decide = () => ok({ kind: 'allow' } as const);
    const filter = createGuardSet([unwrap(defineGuard({ name, on, timing, decide }))]);
    const run: ScriptHook['run'] = async (subject, output, frame) => {
      const input = 'one' in subject ? subject.one : guardInputs(subject.all);
      const leaving = leaveOf(await block(ruleEnv(env, frame, input, output)));
      return leaving?.word === 'return' && !isAbsent(leaving.value) ? leaving.value : undefined;
    };
    addHook(env.run, { name, timing, filter, prefix, round: roundOf(on), run });
    return absent();
  };
}

export function compilePolicy(c: Compiler, node: NodeOf<'policy'>): Eval {
  const members = compileArguments(c, node.members);
  return async (env) => {
    const values = await evaluateAll(members, env);
    for (const value of values) applyPolicy(env.run, value);
    const [first] = values;
    const isOne = first && values.length === 1;
    const all = isOne ? first : makeValue(Object.assign({}, ...values.map(({ data }) => data)));
    declarePolicy(all, values);
    c.unit.scope.define(node.name, 'var', all, locationText(c.unit, node.at));
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
  // A bare `allow` is the most common decision and is always the same.
  if (decision === 'allow' && !evaluate && !edit && !options)
    return constant(ruling({ kind: 'allow' }));
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
