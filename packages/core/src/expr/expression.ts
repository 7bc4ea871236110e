import { type Failure, fail, type Json, type Outcome, ok } from '../base/index.ts';
import { compileTest, compileValue, type Read, type Test } from './compile.ts';
import { EvaluationFault, type Meter } from './operators.ts';
import { parseExpression } from './parse.ts';
import { type PathRead, SyntaxFault, type Tree } from './syntax-tree.ts';

/** A compiled expression. Neither method throws; neither changes the context. */
export interface CompiledExpression {
  readonly source: string;
  /** Every path read, in source order. Columns start at 1 and count UTF-16 units. */
  readonly paths: readonly PathRead[];
  /** Whether the result counts as true. */
  test(context: Json): Outcome<boolean>;
  /** The result itself; it may be a part of the context, so it is not to be changed. */
  value(context: Json): Outcome<Json>;
}

interface ExpressionOptions {
  /** One step is about one node or one element compared; the default is a million. */
  maxSteps?: number;
}

const DEFAULT_STEPS = 1_000_000;

// Answers of the hot way are made once; nobody may change them.
const YES: Outcome<boolean> = Object.freeze(ok(true));
const NO: Outcome<boolean> = Object.freeze(ok(false));

/** Parses and compiles. A fault has the code `expression_error`, `kind: "syntax"` and a column. */
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
  // Most expressions are only ever asked one of the two questions: the other is compiled on demand.
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

/** Anything else thrown (a context that is no JSON, memory) must not read as "true" either. */
function evaluationFailure(error: unknown): Failure {
  const { message, column } =
    error instanceof EvaluationFault ? error : new EvaluationFault('the context cannot be read');
  return fail('expression_error', message, { kind: 'evaluation', column });
}
