// Offsets into lines and columns, when somebody asks.
import { createLines, type TextLines } from '../base/index.ts';

const known = new WeakMap<object, TextLines>();

export interface Sourced {
  readonly name: string;
  readonly text: string;
}

function linesOf(unit: Sourced): TextLines {
  const found = known.get(unit);
  if (found) return found;
  const made = createLines(unit.text);
  known.set(unit, made);
  return made;
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
