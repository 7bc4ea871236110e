// How a script fails inside the room: thrown, because a failure leaves many nested closures at once.
// At the door it becomes an `Outcome` again; nothing outside ever sees this class.
import type { ErrorCode, Fault, Json } from '../base/index.ts';

/** Where something stands: the file and an offset into its text. */
export interface Place {
  readonly file: string;
  readonly text: string;
  readonly at: number;
}

export class ScriptFault extends Error {
  readonly fault: Fault;
  /** The innermost place that is known; filled in on the way out. */
  place: Place | undefined;

  constructor(fault: Fault, place?: Place) {
    super(fault.detail.message);
    this.fault = fault;
    this.place = place;
  }
}

/** Ends what is being evaluated. The place is added by whoever knows it. */
export function raise(
  code: ErrorCode,
  message: string,
  detail: Readonly<Record<string, Json>> = {},
): never {
  throw new ScriptFault({ code, detail: { ...detail, message } });
}
