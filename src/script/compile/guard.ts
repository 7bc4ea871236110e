// Guards, hooks, policies and profiles: statements that change how later ones are judged.

import { isObject, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import {
  type Argument,
  childFrame,
  createGuardSet,
  defineGuard,
  type GuardView,
  type LabelChange,
  makeContainer,
  makeValue,
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
  newPath,
} from '../run/environment.ts';
import { unwrap } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { LabelEdit, Node } from '../syntax/ast.ts';
import { lineOf, shownPlace } from '../syntax/problem.ts';
import { absent, isAbsent } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { compileBlock, compileWhen } from './control-flow.ts';
import { guardInputs } from './guard-input.ts';
import { addHook, type HookBody } from './hooks.ts';
import { applyPolicy, missingNeeds, profileOf } from './policy.ts';
import { compileArguments } from './reference.ts';

/** What a guard or hook sees besides its file's names. */
function ruleEnv(
  env: Environment,
  frame: Environment['frame'],
  names: ReadonlyMap<string, Value>,
): Environment {
  const scope = new VariableScope('function', env.unit.scope);
  for (const [name, value] of names) scope.bind(name, 'parameter', value);
  return {
    ...env,
    scope,
    frame,
    path: newPath(),
    note: undefined,
    isDefining: false,
    pipe: undefined,
  };
}

const inputOf = (input: Argument | undefined, inputs: readonly Argument[]): Value =>
  input ? input.value : guardInputs(inputs);

export function compileGuard(c: Compiler, node: Node<'guard'>): Eval {
  const inner = c.forFunction();
  const rules = compileWhen(inner, node.rules);
  return (env) => {
    if (node.privileged && !env.run.mayBePrivileged(c.unit)) {
      return raise(
        'permission_denied',
        'a privileged guard is accepted only in the script you start, its project modules, signed items and policy files',
      );
    }
    const decide = async (view: GuardView): Promise<Outcome<Verdict>> => {
      try {
        const names = new Map([
          ['input', inputOf(view.input, view.inputs)],
          ['output', view.output ?? makeValue(null)],
        ]);
        const inside = { ...ruleEnv(env, view.frame, names), chain: undefined };
        return ok(verdict(await rules(inside)));
      } catch (error) {
        return { ok: false, error: toFault(error).fault };
      }
    };
    const guard = unwrap(
      defineGuard({
        ...(node.name ? { name: node.name } : {}),
        on: node.filter,
        timing: node.timing,
        privileged: node.privileged,
        place: `guard at ${shownPlace(c.unit, node.at)}`,
        decide,
      }),
    );
    if (node.name) c.unit.guards.add(node.name);
    env.run.ground = childFrame(env.run.ground, { guards: createGuardSet([guard]) });
    return absent();
  };
}

/** No arm matched: allow. */
function verdict(value: Value): Verdict {
  const left = leaveOf(value);
  const given = verdictOf(left ? left.value : value);
  if (given) return given;
  if (left?.word === 'retry')
    return { kind: 'retry', text: isAbsent(left.value) ? 'try again' : left.value.text };
  if (left || value.data === null) return { kind: 'allow' };
  return raise('invalid_input', 'an arm of a guard must allow, deny, retry or ask');
}

export function compileHook(c: Compiler, node: Node<'hook'>): Eval {
  const block = compileBlock(c.forFunction(), node.body);
  return (env) => {
    const run: HookBody = async ({ inputs, output, frame }) => {
      const names = new Map([
        [
          'input',
          inputs.length === 1
            ? (inputs[0] as Argument).value
            : makeContainer(inputs.map(({ value }) => value)),
        ],
        ['output', output ?? makeValue(null)],
      ]);
      const left = leaveOf(await block(ruleEnv(env, frame, names)));
      return left?.word === 'return' && !isAbsent(left.value) ? left.value : undefined;
    };
    addHook(env.run, {
      name: node.name ?? `hook at line ${lineOf(c.unit, node.at)}`,
      timing: node.timing,
      filter: node.filter,
      run,
    });
    return absent();
  };
}

export function compilePolicy(c: Compiler, node: Node<'policy'>): Eval {
  const members = compileArguments(c, node.members);
  return async (env) => {
    const found = await evaluateAll(members, env);
    for (const value of found) applyPolicy(env.run, value);
    const [first] = found;
    const all =
      first && found.length === 1
        ? first
        : makeValue(Object.assign({}, ...found.map(({ data }) => data)));
    c.unit.scope.define(node.name, 'var', all, shownPlace(c.unit, node.at));
    return absent();
  };
}

const objectOf = (value: Value): JsonObject => (isObject(value.data) ? value.data : {});

export function compileProfiles(c: Compiler, node: Node<'profiles'>): Eval {
  const evaluate = c.expression(node.value, 'value');
  return async (env) => {
    const profile = profileOf(env.run, objectOf(await evaluate(env)));
    env.run.ground = childFrame(env.run.ground, { ctx: { profile } });
    return absent();
  };
}

export function compileNeeds(c: Compiler, node: Node<'needs'>): Eval {
  const evaluate = c.expression(node.value, 'value');
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

export function compileVerdict(c: Compiler, node: Node<'verdict'>): Eval {
  const evaluate = node.value && c.expression(node.value, 'value');
  const { decision, options } = node;
  const edit = node.labels;
  const [add, remove] = ['addLabels', 'removeLabels'].map((name) => {
    const entry = options?.entries.get(name);
    return entry && c.expression(entry, 'value');
  });
  return async (env) => {
    const value = await evaluate?.(env);
    if (decision !== 'allow')
      return ruling({ kind: decision, text: value ? textOf(value) : DEFAULT_TEXT[decision] });
    const change = merged(edit, list(await add?.(env)), list(await remove?.(env)));
    return ruling(allowed(value, change));
  };
}

function merged(
  edit: LabelEdit | undefined,
  add: readonly string[],
  remove: readonly string[],
): LabelChange | undefined {
  if (!edit && add.length === 0 && remove.length === 0) return undefined;
  return {
    clear: edit?.clear ?? false,
    add: [...(edit?.add ?? []), ...add],
    remove: [...(edit?.remove ?? []), ...remove],
  };
}

const allowed = (value: Value | undefined, labels: LabelChange | undefined): Verdict => ({
  ...(value ? { kind: 'allow_value' as const, value } : { kind: 'allow' as const }),
  ...(labels ? { labels } : {}),
});
