// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles the syntax tree to closures. This file only maps node kinds to the functions that compile them.
// Those functions use each other through the `Compiler` that is created here.
import { whenReady } from '@kernmantle/core/base';
import { addMarks, EMPTY, makeValue } from '@kernmantle/core/flow';
import { refuseLeave, takeReturn } from '../run/control-values.ts';
import type { Compiler, Eval, Reading, SourceUnit } from '../run/environment.ts';
import { located } from '../run/operate.ts';
import {
  type ActionExpression,
  type Expression,
  mayEscape,
  mayLeave,
  type NodeOf,
} from '../syntax/ast.ts';
import { absent } from '../values/kinds.ts';
import { compileCode, compileCommand, compileExecution, compileModel } from './command.ts';
import { compileArmBlock, compileBlock, compileIf, compileWhen, runLines } from './control-flow.ts';
import { compileFile } from './file.ts';
import { compileVerdict } from './guard.ts';
import { compileFor, compileForeach, compileLoop, compileSifted } from './loop.ts';
import { compileReference, refusePattern } from './reference.ts';
import { compilePiped, compilePipeline } from './stage.ts';
import { compileBare, compileRunning, compileStatement, isStatement } from './statement.ts';
import { compileTemplate, compileTemplateFile, compileText } from './text.ts';
import {
  compileArray,
  compileBinary,
  compileObject,
  compileTernary,
  compileUnary,
} from './value.ts';
import { compileWith } from './with-options.ts';

export function createCompiler(unit: SourceUnit, isFunction = false): Compiler {
  const c: Compiler = {
    unit,
    isFunction,
    forFunction: () => (isFunction ? c : createCompiler(unit, true)),
    expression: (node, reading = 'value') => compileExpression(c, node, reading),
    action: (node) => compileAction(c, node),
    lines: (nodes) => runLines(nodes.map((node) => compileLine(c, node))),
    text: (parts) => compileText(c, parts),
    stages: (source, stages, format) => compilePipeline(c, source, stages, format),
    piped: (stages) => compilePiped(c, stages),
  };
  return c;
}

/** Evaluates a value. `=> v` in the block of an arm gives the value. */
const evaluateReturn =
  (evaluate: Eval): Eval =>
  (env) =>
    whenReady(evaluate(env), takeReturn);

/** Compiles a form that is used as a value. Its lines print nothing, and the value of an arm ends it. */
function asValue(
  c: Compiler,
  node: NodeOf<'when' | 'if' | 'for' | 'loop' | 'block'>,
  compile: (c: Compiler) => Eval,
): Eval {
  const evaluate = evaluateReturn(compile(c.forFunction()));
  if (!mayLeave(node, true) || mayEscape(node)) return evaluate;
  // An exit inside of the form ends only the form, so the conditions of the exit mark only the form's value.
  return (env) => {
    const path = { marks: EMPTY, errors: env.path.errors };
    return whenReady(evaluate({ ...env, path }), (value) => {
      env.path.errors = path.errors;
      return addMarks(value, path.marks);
    });
  };
}

const withLocation =
  (at: number, evaluate: Eval): Eval =>
  (env) =>
    located(env, at, () => evaluate(env));

type Compile<K extends Expression['kind']> = (
  c: Compiler,
  node: NodeOf<K>,
  reading: Reading,
) => Eval;

const EXPRESSIONS: { readonly [K in Expression['kind']]: Compile<K> } = {
  literal(_c, node) {
    const value = makeValue(node.value);
    return () => value;
  },
  template: compileTemplate,
  pattern: (_c, node) => withLocation(node.at, refusePattern),
  array: compileArray,
  object: compileObject,
  reference: compileReference,
  unary: compileUnary,
  binary: compileBinary,
  ternary: compileTernary,
  pipeline: (c, node) => compilePipeline(c, node.source, node.stages),
  with: (c, node) => compileWith(c, node),
  command: (c, node) => compileExecution(compileCommand(c, node)),
  code: (c, node) => compileExecution(compileCode(c, node)),
  file: (c, node, reading) => withLocation(node.at, compileFile(c, node, reading)),
  'run-value'(c, node) {
    const evaluate = compileRunning(c, node.action, node.at);
    return (env) => whenReady(evaluate(env), refuseLeave);
  },
  when: (c, node) => asValue(c, node, (inner) => compileWhen(inner, node)),
  if: (c, node) => asValue(c, node, (inner) => compileIf(inner, node)),
  for: (c, node) =>
    asValue(c, node, (inner) => compileFor(inner, node, compileRound(inner, node), true)),
  foreach: compileForeach,
  loop: (c, node) => asValue(c, node, (inner) => compileLoop(inner, node)),
  'template-file': compileTemplateFile,
  model: (c, node) => compileExecution(compileModel(c, node)),
  verdict: compileVerdict,
  block: (c, node) => asValue(c, node, (inner) => compileArmBlock(inner, node, 'block')),
};

const compileRound = (c: Compiler, { body, isSifted }: NodeOf<'for'>): Eval =>
  isSifted && body.kind === 'when' ? compileSifted(c, body) : c.action(body);

function compileExpression(c: Compiler, node: Expression, reading: Reading): Eval {
  const compile = EXPRESSIONS[node.kind] as Compile<Expression['kind']>;
  return compile(c, node, reading);
}

/** Compiles a line. In an imported file a call or pipeline alone does not run, like `run`. */
function compileLine(c: Compiler, node: ActionExpression): Eval {
  const act = compileAction(c, node);
  if (c.isFunction || isStatement(node)) return act;
  const print = compileBare(c, node, act);
  return (env) => (env.isDefining ? absent() : print(env));
}

function compileAction(c: Compiler, node: ActionExpression): Eval {
  if (isStatement(node)) return compileStatement(c, node);
  if (node.kind === 'block') return compileBlock(c, node);
  return withLocation(node.at, compileExpression(c, node, 'value'));
}
