// The step budget. An expression has no loops, so only data makes it slow: long lists, long texts,
// deep values. Nodes are paid for once, at the start; operations on data pay for what they touch.

export interface Meter {
  left: number;
}

/** Stays inside this room; the door turns it into an `Outcome`. */
export class EvaluationFault extends Error {
  readonly column: number;

  /** Without a column the expression as a whole is meant. */
  constructor(message: string, column = 1) {
    super(message);
    this.column = column;
  }
}

export function charge(meter: Meter, steps: number): void {
  meter.left -= steps;
  if (meter.left < 0) throw new EvaluationFault('the evaluation takes too many steps');
}

/** Texts are compared and copied by the machine word: sixteen characters are one step. */
export const textSteps = (length: number): number => length >>> 4;
