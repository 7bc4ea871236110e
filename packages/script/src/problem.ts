// Offsets into lines and columns, when somebody asks.
import { createLines } from '@kernmantle/core/base';

const known = new WeakMap<object, ReturnType<typeof createLines>>();

interface Sourced {
  readonly name: string;
  readonly text: string;
}

function linesOf(unit: Sourced) {
  const lines = known.get(unit) ?? createLines(unit.text);
  known.set(unit, lines);
  return lines;
}

/** The location of an operation; computed when read. */
export function placeOf(unit: Sourced, at: number): { file: string; line: number; column: number } {
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

export const shownPlace = (unit: Sourced, at: number): string => `${unit.name}:${lineOf(unit, at)}`;

// What is wrong with the form of a script, as data: where, what, and the right form when it is a
// common slip. The parser throws a `ParseError` to leave its nested functions and takes the problem out
// of it where a statement ends; nothing outside the parser sees one.

/** Stable, documented: editors and tests match on it. */
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
  /** Offsets into the text of the file; `end` is past the last character. */
  readonly at: number;
  readonly end: number;
  readonly message: string;
  /** The right form, for slips that are common. */
  readonly hint?: string;
  readonly code: ProblemCode;
}

export class ParseError extends Error {
  readonly problem: SyntaxProblem;

  constructor(problem: SyntaxProblem) {
    // Thrown in large numbers while trying, read by nobody: recording where would cost most of the time.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(problem.message);
    Error.stackTraceLimit = stackTraceLimit;
    this.problem = problem;
  }
}
