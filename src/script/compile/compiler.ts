// The compiler: from the tree to closures. This file only knows which piece handles which node; the
// pieces see one another through the `Compiler` it makes.
import { makeValue } from '../../flow/index.ts';
import { leaveOf, refuseLeave } from '../run/control-values.ts';
import type { Compiler, Eval, Reading, SourceUnit } from '../run/environment.ts';
import { located } from '../run/operate.ts';
import type { ActionExpression, Expression, Statement } from '../syntax/ast.ts';
import { compileCode, compileCommand, compileExecution } from './command.ts';
import {
  compileBlock,
  compileBlockValue,
  compileIf,
  compileWhen,
  runLines,
} from './control-flow.ts';
import { compileFile } from './file.ts';
import { compileVerdict } from './guard.ts';
import { compileFor, compileForeach, compileLoop } from './loop.ts';
import { compileModel, compileTemplateFile } from './model.ts';
import { compileReference } from './reference.ts';
import { compilePiped, compilePipeline } from './stage.ts';
import { compileRunnable, compileStatement } from './statement.ts';
import { compileTemplate, compileText } from './text.ts';
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
    lines: (nodes) => runLines(nodes.map((node) => compileAction(c, asStatement(node)))),
    text: (parts) => compileText(c, parts),
    stages: (source, stages, options) => compilePipeline(c, source, stages, options),
    piped: (stages) => compilePiped(c, stages),
  };
  return c;
}

/** `=> v` inside the block of an arm is the value of the whole. */
const valued =
  (evaluate: Eval): Eval =>
  async (env) => {
    const value = await evaluate(env);
    const left = leaveOf(value);
    return left?.word === 'return' ? left.value : value;
  };

function compileExpression(c: Compiler, node: Expression, reading: Reading): Eval {
  switch (node.kind) {
    case 'literal': {
      const value = makeValue(node.value);
      return () => value;
    }
    case 'template':
      return compileTemplate(c, node);
    case 'array':
      return compileArray(c, node);
    case 'object':
      return compileObject(c, node);
    case 'reference':
      return compileReference(c, node, reading);
    case 'unary':
      return compileUnary(c, node);
    case 'binary':
      return compileBinary(c, node, reading);
    case 'ternary':
      return compileTernary(c, node);
    default:
      return compileWorking(c, node, reading);
  }
}

type Plain =
  | 'literal'
  | 'template'
  | 'array'
  | 'object'
  | 'reference'
  | 'unary'
  | 'binary'
  | 'ternary';

/** Expressions that start something, choose or repeat. */
function compileWorking(
  c: Compiler,
  node: Exclude<Expression, { kind: Plain }>,
  reading: Reading,
): Eval {
  switch (node.kind) {
    case 'pipeline':
      return compilePipeline(c, node.source, node.stages);
    case 'with':
      return compileWith(c, node);
    case 'command':
      return compileExecution(compileCommand(c, node));
    case 'code':
      return compileExecution(compileCode(c, node));
    case 'file':
      return placed(node.at, compileFile(c, node, reading));
    case 'run-value':
      return compileRunValue(c, node.action);
    case 'when':
      return valued(compileWhen(c, node));
    case 'if':
      return valued(compileIf(c, node));
    case 'for':
      return compileFor(
        c,
        node,
        node.body.kind === 'block' ? compileBlock(c, node.body) : c.action(node.body),
        true,
      );
    case 'foreach':
      return compileForeach(c, node);
    case 'loop':
      return valued(compileLoop(c, node, compileBlock(c, node.body)));
    case 'template-file':
      return compileTemplateFile(c, node);
    case 'model':
      return compileModel(c, node);
    case 'verdict':
      return compileVerdict(c, node);
    case 'block':
      return compileBlockValue(c, node);
  }
}

const placed =
  (at: number, evaluate: Eval): Eval =>
  (env) =>
    located(env, at, () => evaluate(env));

function compileRunValue(c: Compiler, action: Expression): Eval {
  const evaluate = compileRunnable(c, action);
  return async (env) => refuseLeave(await evaluate(env));
}

const FLOW = new Set(['when', 'if', 'for', 'foreach', 'loop']);

const isStatement = (node: ActionExpression): node is Statement => STATEMENTS.has(node.kind);

const STATEMENTS = new Set<ActionExpression['kind']>([
  'var',
  'exe',
  'helpers',
  'effect',
  'run',
  'call',
  'flow',
  'import',
  'export',
  'guard',
  'hook',
  'policy',
  'profiles',
  'needs',
  'return',
  'bail',
  'let',
  'augment',
  'leave',
  'fence',
]);

/** An arm, a loop's body, a line of a block. */
function compileAction(c: Compiler, node: ActionExpression): Eval {
  if (isStatement(node)) return compileStatement(c, node);
  if (node.kind === 'block') return compileBlock(c, node);
  const evaluate = compileExpression(c, node, 'value');
  return (env) => located(env, node.at, () => evaluate(env));
}

/** Lines of a file or block where `when`, `if`, `for` and `loop` are statements. */
const asStatement = (node: ActionExpression): ActionExpression =>
  FLOW.has(node.kind)
    ? ({ kind: 'flow', value: node, at: node.at, end: node.end } as Statement)
    : node;
