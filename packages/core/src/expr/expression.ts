import { type Failure, fail, type Json, type Outcome, ok } from '../base/index.ts';
import { compileTest, compileValue, type Read, type Test } from './compile.ts';
import { EvaluationFault, type Meter } from './operators.ts';
import { parseExpression } from './parse.ts';
import { type PathRead, SyntaxFault, type Tree } from './syntax-tree.ts';

/** A compiled expression. Neither method throws, and neither changes the context. */
export interface CompiledExpression {
  readonly source: string;
  /** Every path that is read, in source order. Columns start at 1 and count UTF-16 units. */
  readonly paths: readonly PathRead[];
  /** Returns whether the result counts as true. */
  test(context: Json): Outcome<boolean>;
  /** Returns the result. It may be a part of the context, so it must not be changed. */
  value(context: Json): Outcome<Json>;
}

interface ExpressionOptions {
  /** Maximum number of steps, each about one node or one compared element. Default: a million. */
  maxSteps?: number;
}

const DEFAULT_STEPS = 1_000_000;

// Frequent answers are shared and therefore frozen.
const YES: Outcome<boolean> = Object.freeze(ok(true));
const NO: Outcome<boolean> = Object.freeze(ok(false));

/** Compiles an expression. Fails with `expression_error`, whose detail has `kind: "syntax"` and a column. */
export function compileExpression(
  source: string,
  options: ExpressionOptions = {},
): Outcome<CompiledExpression> {
  try {
    return ok(createExpression(source, parseExpression(source), options.maxSteps));
  } catch (error) {
    if (!(error instanceof SyntaxFault)) throw error;
    const { message, column, hint } = error;
    const detail =
      hint === undefined ? { kind: 'syntax', column } : { kind: 'syntax', column, hint };
    return fail('expression_error', message, detail);
  }
}

function createExpression(
  source: string,
  tree: Tree,
  maxSteps = DEFAULT_STEPS,
): CompiledExpression {
  const { root, paths, size } = tree;
  const meter: Meter = { left: 0 };
  const whole = maxSteps - size;
  // Most expressions need only one of the two methods, so the other is compiled on demand.
  let test: Test | undefined;
  let read: Read | undefined;

  return {
    source,
    paths,
    test(context) {
      try {
        refill(meter, whole);
        test ??= compileTest(root, meter);
        return test(context) ? YES : NO;
      } catch (error) {
        return evaluationFailure(error);
      }
    },
    value(context) {
      try {
        refill(meter, whole);
        read ??= compileValue(root, meter);
        return ok(read(context));
      } catch (error) {
        return evaluationFailure(error);
      }
    },
  };
}

function refill(meter: Meter, steps: number): void {
  if (steps < 0) throw new EvaluationFault('the expression is larger than its step budget');
  meter.left = steps;
}

/** Returns the failure of an evaluation, also for an exception of another kind (no JSON context, no memory). */
function evaluationFailure(error: unknown): Failure {
  const { message, column } =
    error instanceof EvaluationFault ? error : new EvaluationFault('the context cannot be read');
  return fail('expression_error', message, { kind: 'evaluation', column });
}
