// How a script fails inside the room: thrown, because a failure leaves many nested closures at once.
// At the door it becomes an `Outcome` again; nothing outside ever sees this class.
import type { ErrorCode, Fault, Json } from '@kernmantle/core/base';
import { type Descriptor, EMPTY, markFailure } from '@kernmantle/core/flow';

/** Where something stands: the file and an offset into its text. */
interface FaultPlace {
  readonly file: string;
  readonly text: string;
  readonly at: number;
}

// Rides in `detail` under a symbol, like the marks of a fault: operations hand faults on as data.
const PLACE = Symbol('place');

export class ScriptFault extends Error {
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.detail.message);
    this.fault = fault;
  }

  get place(): FaultPlace | undefined {
    return (this.fault.detail as { [PLACE]?: FaultPlace })[PLACE];
  }

  /** The fault for others, without its place: a script that runs this one has places of its own. */
  outside(): Fault {
    const detail = { ...this.fault.detail, [PLACE]: undefined };
    return { ...this.fault, detail };
  }

  /** An error is known to have happened because of the conditions it happened under. */
  under(marks: Descriptor): ScriptFault {
    if (marks === EMPTY) return this;
    const { error } = markFailure({ ok: false, error: this.fault }, marks);
    return error === this.fault ? this : new ScriptFault(error);
  }

  /** The innermost place that is known wins. */
  locate(place: FaultPlace): this {
    if (!this.place) Object.assign(this.fault.detail, { [PLACE]: place });
    return this;
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

/** Anything thrown, as a fault of the script; a bug keeps its first line only. */
export function toFault(error: unknown): ScriptFault {
  if (error instanceof ScriptFault) return error;
  const text = error instanceof Error ? error.message : String(error);
  // No pattern: there may be no stack left to compile it.
  if (error instanceof RangeError && text.includes('call stack')) {
    const detail = { message: 'the script is nested too deeply', limit: 'recursion' };
    return new ScriptFault({ code: 'quota_exceeded', detail });
  }
  const message = `the script failed: ${text.split('\n', 1)[0] ?? ''}`;
  return new ScriptFault({ code: 'internal_error', detail: { message } });
}
