// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles statements and actions, and decides what they print.
import { whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  type MaybePromise,
  type Operation,
  type Value,
  withLabels,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { lineOf, locationOf, locationText } from '../problem.ts';
import { leave, leaveOf, refuseLeave, takeReturn } from '../run/control-values.ts';
import {
  type Compiler,
  type Environment,
  type Eval,
  executableOf,
  withPathMarks,
} from '../run/environment.ts';
import { isText } from '../run/existence.ts';
import { addHelper } from '../run/helpers.ts';
import { wasPrinted } from '../run/live.ts';
import { lazyInput, located, operate } from '../run/operate.ts';
import {
  type ActionExpression,
  type Expression,
  givesValue,
  type NodeOf,
  type Statement,
} from '../syntax/ast.ts';
import { absent, isAbsent, makeFunction } from '../values/kinds.ts';
import { LIST_METHODS, TEXT_METHODS } from '../values/methods.ts';
import { augment } from '../values/operators.ts';
import { runText, showText, textOf } from '../values/text.ts';
import { TRANSFORMERS } from '../values/transforms.ts';
import { compileArm, compileArmBlock, compileIf, compileWhen } from './control-flow.ts';
import { compileEffect } from './effect.ts';
import { compileFunction } from './function.ts';
import {
  compileGuard,
  compileHook,
  compileNeeds,
  compilePolicy,
  compileProfiles,
} from './guard.ts';
import { compileFor, compileLoop, compileSifted } from './loop.ts';
import { compileExport, compileImport } from './module.ts';
import { invoke } from './reference.ts';
import { resolveOpen } from './text.ts';
import { compileWith, withGuards, withPolicy } from './with-options.ts';

function compileVar(c: Compiler, node: NodeOf<'var'>): Eval {
  const evaluate = c.expression(node.value);
  const { name, labels } = node;
  const location = locationOf(c.unit, node.at);
  const op = { type: 'var' as const, name, labels, opLabels: [], retryOwner: true, location };
  const place = locationText(c.unit, node.at);
  const labelled = (result: Value): Value => withLabels(refuseLeave(result), labels);
  return (env) => {
    const input = lazyInput(env, name, evaluate, labelled);
    return whenReady(
      operate(env, op, [input], ([result]) => result),
      (value) => {
        // `var` and `exe` bind at the level of the file.
        env.unit.scope.define(name, 'var', value, place);
        return absent();
      },
    );
  };
}

function compileExe(c: Compiler, node: NodeOf<'exe'>): Eval {
  const make = compileFunction(c.forFunction(), node);
  return (env) => {
    const { scope } = env.unit;
    const value = makeFunction(make({ ...env, scope }));
    scope.define(node.name, 'exe', value, locationText(c.unit, node.at));
    return absent();
  };
}

function compileHelpers(_c: Compiler, node: NodeOf<'helpers'>): Eval {
  return (env) => {
    for (const name of node.names) addHelper(env, node.language, name);
    return absent();
  };
}

function compileLet(c: Compiler, node: NodeOf<'let'>): Eval {
  const evaluate = c.expression(node.value);
  const place = locationText(c.unit, node.at);
  return (env) =>
    whenReady(evaluate(env), (result) => {
      const value = withLabels(refuseLeave(result), node.labels);
      env.scope.let(node.name, addMarks(value, env.frame.influence), place);
      return absent();
    });
}

function compileAugment(c: Compiler, node: NodeOf<'augment'>): Eval {
  const evaluate = c.expression(node.value);
  return (env) => {
    const cell = env.scope.rebindable(node.name);
    return whenReady(evaluate(env), (right) => {
      const value = augment(cell.value, refuseLeave(right));
      cell.value = addMarks(value, env.frame.influence);
      return absent();
    });
  };
}

function compileReturn(c: Compiler, node: NodeOf<'return'>): Eval {
  const evaluate = node.value && c.expression(node.value);
  if (node.labels && (node.labels.remove.length > 0 || node.labels.clear)) {
    return () => raise('permission_denied', 'only a privileged guard may remove labels');
  }
  return (env) =>
    whenReady(evaluate?.(env), (value = absent()) => {
      if (leaveOf(value)) return value;
      const marked = withLabels(value, node.labels?.add ?? []);
      if (node.isOutputs) env.run.outputs = marked;
      return leave('return', marked);
    });
}

/** Prints a result as text, like `run`. For null it prints nothing. */
function print(env: Environment, result: Value, at: number, text = runText(result)): void {
  if (text === undefined || wasPrinted(env.printing, text)) return;
  const { emit, ports, influence } = env.frame;
  const value = addMarks(result, influence);
  const effect = { kind: 'run', value, text, line: lineOf(env.unit, at) };
  if (emit) emit(effect);
  else ports.effects?.(effect);
}

const PIPED = new Set<ActionExpression['kind']>(['pipeline', 'for', 'foreach']);

/** True if no operation judged the values of this action. Texts, transformers and methods are not operations. */
function isUnjudged(node: ActionExpression): boolean {
  if (node.kind === 'with') return isUnjudged(node.value) || node.options.pipeline !== undefined;
  if (node.kind === 'run-value') return isUnjudged(node.action);
  if (node.kind !== 'reference') return isText(node) || PIPED.has(node.kind);
  const called = node.steps.at(-2);
  const isMethod =
    called?.kind === 'field' && (LIST_METHODS.has(called.name) || TEXT_METHODS.has(called.name));
  return isMethod || TRANSFORMERS.has(node.name.toLowerCase());
}

const showAt = (location: NonNullable<Operation['location']>): Operation => ({
  type: 'show',
  name: 'show',
  opLabels: [],
  retryOwner: false,
  location,
});

/** Prints a value through the operation `show`, so that guards judge it. Returns the value unchanged. */
function printShown(
  env: Environment,
  value: Value,
  at: number,
  text: (value: Value) => string | undefined,
): MaybePromise<Value> {
  if (text(value) === undefined) return value;
  const op = showAt(locationOf(env.unit, at));
  const done = operate(env, op, [{ name: 'value', value }], ([passed], inner) => {
    print(inner, passed, at, text(passed));
    return passed;
  });
  return whenReady(done, () => value);
}

/** Prints the result of an action. If no operation has judged it, it is printed through `show`. */
function printResult(
  env: Environment,
  value: Value,
  node: ActionExpression,
  at = node.at,
): MaybePromise<Value> {
  if (isUnjudged(node)) return printShown(env, value, at, runText);
  print(env, value, at);
  return value;
}

/** Compiles the action of `run`. `run @f` means `run @f()`. Fails at run time if `@f` is not a function. */
function compileRunnable(c: Compiler, action: Expression): Eval {
  const ran = runTargetOf(action);
  if (ran && action.kind === 'with') {
    // `stream @x` prints the value if it is not a function.
    const isShown = action.options.entries.has('stream');
    const run = compileRunnable(c, ran);
    const value = c.expression(ran);
    const location = locationOf(c.unit, action.at);
    const op = showAt(location);
    const either: Eval = (env) =>
      whenReady(value(env), (target) =>
        executableOf(target)
          ? run(env)
          : operate(env, op, [{ name: 'value', value: target }], ([passed]) => passed),
      );
    return compileWith(c, action, isShown && !isCall(ran) ? either : run);
  }
  const evaluate = c.expression(action);
  if (action.kind !== 'reference') return evaluate;
  const isCalled = isCall(action);
  return (env) =>
    whenReady(evaluate(env), (value) =>
      isCalled && !executableOf(value) ? value : invoke(value, action.name, [], env, action.at),
    );
}

/** Returns the function of `run @f(…) with { … }`, unless the options add stages or a format. */
function runTargetOf(action: Expression): NodeOf<'reference'> | undefined {
  if (action.kind !== 'with') return undefined;
  const { value, options } = action;
  const isPlain = options.pipeline === undefined && !options.entries.has('format');
  return isPlain && value.kind === 'reference' ? value : undefined;
}

/** Returns the name of the function that runs, also at the start of a pipeline. Commands and code have none. */
function runTargetName(action: Expression | undefined): string | undefined {
  if (action?.kind === 'reference') return action.name;
  if (action?.kind === 'with') return runTargetName(action.value);
  return action?.kind === 'pipeline' ? runTargetName(action.source) : undefined;
}

/** Compiles a `run` of a function as an operation that contains the call. Commands and code need none. */
export function compileRunning(c: Compiler, action: Expression, at: number): Eval {
  const evaluate = compileRunnable(c, action);
  const name = runTargetName(action);
  if (name === undefined) return evaluate;
  const location = locationOf(c.unit, at);
  const op: Operation = { type: 'run', name, opLabels: [], retryOwner: true, location };
  return (env) => operate(env, op, [], (_inputs, inner) => evaluate(inner));
}

function compileRun(c: Compiler, { action, at }: NodeOf<'run'>): Eval {
  const evaluate = compileRunning(c, action, at);
  return (env) => {
    if (env.isDefining) return absent();
    return whenReady(evaluate(env), (result) => {
      const value = resolveOpen(refuseLeave(result), env);
      return printResult(env, value, action, at);
    });
  };
}

const isCall = (node: ActionExpression): boolean =>
  node.kind === 'reference' && node.steps.at(-1)?.kind === 'call';

const PRINTED = new Set<ActionExpression['kind']>(['run-value', 'command', 'code']);

/** True if the result of this action is printed, like that of `run`. */
function isPrinted(node: ActionExpression, isWhen: boolean): boolean {
  if (node.kind === 'with') return isPrinted(node.value, isWhen) && !endsInEffect(node);
  if (node.kind === 'pipeline') return !endsInEffect(node);
  return isCall(node) || PRINTED.has(node.kind) || (isWhen && isText(node));
}

/** True if the last stage is an effect, which has already printed the result. */
function endsInEffect(node: ActionExpression): boolean {
  if (node.kind === 'pipeline') return node.stages.at(-1)?.kind === 'effect-stage';
  if (node.kind === 'for' || node.kind === 'foreach')
    return node.batch?.at(-1)?.kind === 'effect-stage';
  if (node.kind !== 'with') return false;
  const stages = node.options.pipeline;
  return stages ? stages.at(-1)?.kind === 'effect-stage' : endsInEffect(node.value);
}

/** Compiles the action of a `for … =>` or `when … =>` statement. Only `when` also prints texts. */
function compilePrinted(c: Compiler, node: ActionExpression, isWhen: boolean): Eval {
  if (node.kind === 'block') return isWhen ? compileArmBlock(c, node) : c.action(node);
  if (c.isFunction) return c.action(node);
  // The chosen arm prints the result.
  if (node.kind === 'when') {
    const choose = compileWhen(c, node, (arm) => compilePrinted(c, arm.action, isWhen));
    return (env) => whenReady(choose(env), takeReturn);
  }
  if (node.kind === 'for')
    return node.batch ? compileBatch(c, node) : compilePrintedFor(c, node, true);
  const act = c.action(node);
  if (isStatement(node)) return act;
  const prints = isPrinted(node, isWhen);
  return (env) => {
    // An unused value of a module is not computed.
    if (env.isDefining) return absent();
    return whenReady(act(env), (value) =>
      prints && !leaveOf(value) ? printResult(env, value, node) : value,
    );
  };
}

function compilePrintedFor(c: Compiler, node: NodeOf<'for'>, isCollecting: boolean): Eval {
  const { body, isSifted } = node;
  const round =
    isSifted && body.kind === 'when'
      ? compileSifted(c, body, (arm) => compilePrinted(c, arm.action, false))
      : compilePrinted(c, body, false);
  return compileFor(c, node, round, isCollecting);
}

/** Compiles an arm in a function. A value in a matching arm is returned; an effect is not. */
function compileReturningArm(c: Compiler, arm: NodeOf<'arm'>): Eval {
  const act = compileArm(c, arm);
  if (!givesValue(arm.action)) return act;
  return (env) => whenReady(act(env), (value) => (leaveOf(value) ? value : leave('return', value)));
}

function compileFlow(c: Compiler, { value }: NodeOf<'flow'>): Eval {
  switch (value.kind) {
    case 'when':
      return c.isFunction
        ? compileWhen(c, value, (arm) => compileReturningArm(c, arm), true)
        : compileWhen(c, value, (arm) => compilePrinted(c, arm.action, true));
    case 'if':
      return compileIf(c, value);
    case 'for':
      return value.batch ? compileBatch(c, value) : compilePrintedFor(c, value, false);
    case 'loop':
      return compileLoop(c, value);
    case 'foreach':
      return compileBatch(c, value);
  }
}

/** Compiles a collecting loop. The result of its last stage is printed, unless that stage is an effect. */
function compileBatch(c: Compiler, node: NodeOf<'for' | 'foreach'>): Eval {
  const evaluate = c.expression(node);
  const run = endsInEffect(node) ? evaluate : printedUnlessModule(c, evaluate, node);
  return (env) => (env.isDefining && !c.isFunction ? absent() : run(env));
}

/** Prints the result of an action, except in functions and modules. */
function printedUnlessModule(c: Compiler, evaluate: Eval, node: ActionExpression): Eval {
  return (env) =>
    whenReady(evaluate(env), (value) =>
      c.isFunction || env.isDefining || leaveOf(value) ? value : printResult(env, value, node),
    );
}

function compileCall(c: Compiler, node: NodeOf<'call'>): Eval {
  const evaluate = c.expression(node.value);
  const refused: Eval = (env) => whenReady(evaluate(env), refuseLeave);
  const run = endsInEffect(node.value) ? refused : printedUnlessModule(c, refused, node.value);
  return (env) => (env.isDefining ? absent() : run(env));
}

/** Compiles a call or pipeline in a block, which prints like a statement of the script. */
export function compileBare(c: Compiler, node: Expression, act: Eval): Eval {
  if (!isPrinted(node, false)) return act;
  return (env) => printedUnlessModule(c, act, node)({ ...env, printing: {} });
}

function compileBail(c: Compiler, node: NodeOf<'bail'>): Eval {
  const evaluate = node.value && c.expression(node.value);
  return async (env) => {
    if (env.isDefining) return absent();
    const value = await evaluate?.(env);
    return raise('bail', value ? textOf(value) : 'the script called `bail`', { is_bail: true });
  };
}

/** Returns an option such as `guards` or `policy`, which applies to the whole statement. */
function optionOf(node: Statement, name: string): Expression | undefined {
  const value = node.kind === 'run' ? node.action : 'value' in node ? node.value : undefined;
  return value?.kind === 'with' ? value.options.entries.get(name) : undefined;
}

export function compileStatement(c: Compiler, node: Statement): Eval {
  const guards = optionOf(node, 'guards');
  const policy = optionOf(node, 'policy');
  const compile = STATEMENTS[node.kind] as Compile<Statement['kind']>;
  const statement = compile(c, node);
  const judged = guards ? withGuards(c, guards, statement, true) : statement;
  const run = policy ? withPolicy(c, policy, judged) : judged;
  if (!PRINTING.has(node.kind)) return (env) => located(env, node.at, () => run(env));
  return (env) => located(env, node.at, () => run({ ...env, printing: {} }));
}

const PRINTING: ReadonlySet<Statement['kind']> = new Set(['run', 'call', 'flow', 'effect']);

type Compile<K extends Statement['kind']> = (c: Compiler, node: NodeOf<K>) => Eval;

const STATEMENTS: { readonly [K in Statement['kind']]: Compile<K> } = {
  var: compileVar,
  let: compileLet,
  augment: compileAugment,
  exe: compileExe,
  helpers: compileHelpers,
  effect: compileEffect,
  run: compileRun,
  call: compileCall,
  flow: compileFlow,
  import: compileImport,
  export: compileExport,
  guard: compileGuard,
  hook: compileHook,
  policy: compilePolicy,
  profiles: compileProfiles,
  needs: compileNeeds,
  return: compileReturn,
  bail: compileBail,
  leave(c, node) {
    const evaluate = node.value && c.expression(node.value);
    return (env) => whenReady(evaluate?.(env), (value) => leave(node.word, value));
  },
  fence: (c, node) => c.lines(node.body),
};

export const isStatement = (node: ActionExpression): node is Statement =>
  Object.hasOwn(STATEMENTS, node.kind);

/** Compiles a statement of the file. Guards and policies of earlier statements apply to it. */
export function compileTop(c: Compiler, node: Statement): Eval {
  const run = compileStatement(c, node);
  return (env) => {
    const here = withPathMarks({ ...env, frame: env.run.ground });
    return whenReady(run(here), (value) =>
      whenReady(env.run.written(), () => addMarks(value, here.frame.influence)),
    );
  };
}

/** Prints the value of `=> v` at the top level like `show`. */
export function printReturn(env: Environment, value: Value, at: number): MaybePromise<Value> {
  const ready = resolveOpen(value, env);
  if (isAbsent(ready)) return ready;
  return located(env, at, () => printShown(env, ready, at, (one) => showText(one, 'other')));
}
