// Converts offsets into lines and columns, and defines syntax problems. The parser throws a `ParseError` to
// leave its nested functions and catches it at the end of the statement; no other code receives one.
import { createLines } from '@kernmantle/core/base';

const cache = new WeakMap<object, ReturnType<typeof createLines>>();

interface Sourced {
  readonly name: string;
  readonly text: string;
}

function linesOf(unit: Sourced) {
  const lines = cache.get(unit) ?? createLines(unit.text);
  cache.set(unit, lines);
  return lines;
}

/** Returns the location of an offset. Line and column are computed when they are read. */
export function locationOf(
  unit: Sourced,
  at: number,
): { file: string; line: number; column: number } {
  return {
    file: unit.name,
    get line() {
      return linesOf(unit).at(at).line;
    },
    get column() {
      return linesOf(unit).at(at).column;
    },
  };
}

export const lineOf = (unit: Sourced, at: number): number => linesOf(unit).at(at).line;

export const locationText = (unit: Sourced, at: number): string =>
  `${unit.name}:${lineOf(unit, at)}`;

/** Codes of syntax problems. They are stable and documented, because editors and tests match them. */
export type ProblemCode =
  | 'unexpected'
  | 'unclosed'
  | 'misplaced'
  | 'shell_operator'
  | 'too_deep'
  | 'unknown_key'
  | 'unsupported'
  | 'reserved_name';

export interface SyntaxProblem {
  /** Offsets into the text of the file. `end` is after the last character. */
  readonly at: number;
  readonly end: number;
  readonly message: string;
  /** The correct form, if the mistake is a common one. */
  readonly hint?: string;
  readonly code: ProblemCode;
}

export class ParseError extends Error {
  readonly problem: SyntaxProblem;

  constructor(problem: SyntaxProblem) {
    // The parser throws many of these while it tries alternatives. A stack trace would cost most of the
    // time.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(problem.message);
    Error.stackTraceLimit = stackTraceLimit;
    this.problem = problem;
  }
}
