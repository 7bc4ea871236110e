// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles `when`, `if` and blocks. The marks of a condition apply to everything that its branch does, and
// to all later lines if a branch could leave the block.
import { inTurn, whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  type Descriptor,
  EMPTY,
  type MaybePromise,
  makeValue,
  mergeDescriptors,
  type Value,
} from '@kernmantle/core/flow';
import { leaveOf } from '../run/control-values.ts';
import {
  addPathMarks,
  type Compiler,
  constant,
  type Environment,
  type Eval,
  under,
  withPathMarks,
} from '../run/environment.ts';
import { type ScopeKind, VariableScope } from '../run/scope.ts';
import {
  type ActionExpression,
  augmentedNames,
  type Condition,
  givesValue,
  mayLeave,
  type NodeOf,
} from '../syntax/ast.ts';
import { absent, isTruthy } from '../values/kinds.ts';
import { equals, negate, operatorFunction } from '../values/operators.ts';

/** Compiles a block with its own scope. Its value is a `Leave`, or the value of its last line. */
export function compileBlock(c: Compiler, node: NodeOf<'block'>, kind: ScopeKind = 'block'): Eval {
  const lines = c.lines(node.body);
  return (env) => lines({ ...env, scope: new VariableScope(kind, env.scope) });
}

/** Runs lines in order until one leaves. Each line has the marks of earlier conditions. */
export function runLines(lines: readonly Eval[]): Eval {
  return (env) => {
    let last = absent();
    const leaving = inTurn(lines, (line) => {
      const here = withPathMarks(env);
      return whenReady(line(here), (value) => {
        last = addMarks(value, here.frame.influence);
        return leaveOf(value);
      });
    });
    return whenReady(leaving, () => last);
  };
}

type Test = (env: Environment, subject: Value | undefined) => MaybePromise<Value>;

function compileCondition(c: Compiler, condition: Condition): Test {
  if ('pattern' in condition) {
    const test = compileCondition(c, condition.pattern);
    return (env, subject) => whenReady(test(env, subject), negate);
  }
  if ('left' in condition) return compileBoth(c, condition);
  if (!('value' in condition)) return constant(makeValue(condition.kind !== 'denied'));
  const evaluate = c.expression(condition.value, 'condition');
  if (condition.kind === 'compare') {
    const compare = operatorFunction(condition.operator);
    return (env, subject) =>
      whenReady(evaluate(env), (value) => compare(subject ?? absent(), value));
  }
  const isWildcard = condition.value.kind === 'literal' && condition.value.isWildcard === true;
  return (env, subject) =>
    whenReady(evaluate(env), (value) => (!subject || isWildcard ? value : equals(subject, value)));
}

/** Compiles `P && Q` or `P || Q`. The second pattern is tested only if the first does not decide. */
function compileBoth(c: Compiler, node: Extract<Condition, { kind: 'and' | 'or' }>): Test {
  const [left, right] = [compileCondition(c, node.left), compileCondition(c, node.right)];
  const decides = node.kind === 'or';
  return (env, subject) =>
    whenReady(left(env, subject), (first) => {
      if (isTruthy(first) === decides) return first;
      const { descriptor } = first.meta;
      return whenReady(right(under(env, descriptor), subject), (answer) =>
        addMarks(answer, descriptor),
      );
    });
}

/** Names and exits of branches. Their variables get the marks of the condition even if the branch did not run. */
export interface Branches {
  readonly names: readonly string[];
  readonly mayLeave: boolean;
}

export const branchesOf = (c: Compiler, actions: readonly ActionExpression[]): Branches => ({
  names: actions.flatMap(augmentedNames),
  mayLeave: actions.some((action) => mayLeave(action, c.isFunction)),
});

export function applyConditionMarks(env: Environment, marks: Descriptor, branches: Branches): void {
  if (marks === EMPTY) return;
  if (branches.mayLeave) addPathMarks(env.path, marks);
  for (const name of branches.names) {
    const cell = env.scope.find(name);
    if (cell) cell.value = addMarks(cell.value, marks);
  }
}

type ArmItem = { readonly test: Test; readonly action: Eval } | { readonly line: Eval };

/** Result of a `when` without a matching arm. It gets the marks of all conditions, because they decided it. */
const NO_MATCH = makeValue(null, { origin: { unmatched: true } });

/** Compiles a `when`. With `isReturning` the value of an arm ends the function or block around it. */
export function compileWhen(
  c: Compiler,
  node: NodeOf<'when'>,
  compileOne: (arm: NodeOf<'arm'>) => Eval = (arm) => compileArm(c, arm),
  isReturning = false,
  otherwise: Value = NO_MATCH,
): Eval {
  const subject = node.subject && c.expression(node.subject, 'condition');
  const items = node.items.map(
    (item): ArmItem =>
      item.kind === 'arm'
        ? { test: compileCondition(c, item.condition), action: compileOne(item) }
        : { line: c.action(item) },
  );
  const actions = node.items.flatMap((item) => ('action' in item ? [item.action] : []));
  const own = branchesOf(c, actions);
  const branches = isReturning && actions.some(givesValue) ? { ...own, mayLeave: true } : own;
  const hasLines = items.some((item) => 'line' in item);
  return (outer) => {
    const env = hasLines ? { ...outer, scope: new VariableScope('arm', outer.scope) } : outer;
    return whenReady(subject?.(env), (about) =>
      whenReady(chooseArm(env, items, about), ({ action, marks }) => {
        applyConditionMarks(outer, marks, branches);
        const done = action ? action(under(env, marks)) : otherwise;
        return whenReady(done, (value) => addMarks(value, marks));
      }),
    );
  };
}

/** Returns the action of the first arm that matches, and the marks of every tested condition. */
function chooseArm(
  env: Environment,
  items: readonly ArmItem[],
  subject: Value | undefined,
): MaybePromise<{ action: Eval | undefined; marks: Descriptor }> {
  let marks = subject?.meta.descriptor ?? EMPTY;
  const chosen = inTurn(items, (item) => {
    if ('line' in item) return whenReady(item.line(env), () => undefined);
    return whenReady(item.test(env, subject), (answer) => {
      marks = mergeDescriptors(marks, answer.meta.descriptor);
      return isTruthy(answer) ? item.action : undefined;
    });
  });
  return whenReady(chosen, (action) => ({ action, marks }));
}

export const compileArm = (c: Compiler, { action }: NodeOf<'arm'>): Eval =>
  action.kind === 'block' ? compileArmBlock(c, action) : c.action(action);

/** Compiles the block of an arm. Without `=>` it has no value. */
export function compileArmBlock(c: Compiler, node: NodeOf<'block'>, kind: ScopeKind = 'arm'): Eval {
  const block = compileBlock(c, node, kind);
  return (env) =>
    whenReady(block(env), (value) => (leaveOf(value) ? value : absent(value.meta.descriptor)));
}

export function compileIf(c: Compiler, node: NodeOf<'if'>): Eval {
  const condition = c.expression(node.condition, 'condition');
  const first = compileBlock(c, node.then);
  const other = node.else;
  const second = other && (other.kind === 'if' ? compileIf(c, other) : compileBlock(c, other));
  const branches = branchesOf(c, other ? [node.then, other] : [node.then]);
  return (env) =>
    whenReady(condition(env), (chosen) => {
      const branch = isTruthy(chosen) ? first : second;
      const { descriptor } = chosen.meta;
      applyConditionMarks(env, descriptor, branches);
      if (!branch) return absent(descriptor);
      return whenReady(branch(under(env, descriptor)), (value) => addMarks(value, descriptor));
    });
}
