// A script fails by throwing a `ScriptFault`, because a failure leaves many nested closures at once. The
// exported functions of the package turn it into an `Outcome`.
import type { ErrorCode, Fault, Json } from '@kernmantle/core/base';
import { type Descriptor, EMPTY, markFailure } from '@kernmantle/core/flow';

interface FaultLocation {
  readonly file: string;
  readonly text: string;
  readonly at: number;
}

// The location is stored in `detail` under a symbol, because operations pass faults on as data.
const PLACE = Symbol('place');

export class ScriptFault extends Error {
  readonly fault: Fault;

  constructor(fault: Fault) {
    super(fault.detail.message);
    this.fault = fault;
  }

  get location(): FaultLocation | undefined {
    return (this.fault.detail as { [PLACE]?: FaultLocation })[PLACE];
  }

  /** Returns the fault without its location, because the script that runs this one adds its own. */
  outside(): Fault {
    const detail = { ...this.fault.detail, [PLACE]: undefined };
    return { ...this.fault, detail };
  }

  /** Adds the marks of the conditions under which the fault happened. */
  under(marks: Descriptor): ScriptFault {
    if (marks === EMPTY) return this;
    const { error } = markFailure({ ok: false, error: this.fault }, marks);
    return error === this.fault ? this : new ScriptFault(error);
  }

  /** Sets the location unless an inner statement has set it already. */
  locate(place: FaultLocation): this {
    if (!this.location) Object.assign(this.fault.detail, { [PLACE]: place });
    return this;
  }
}

/** Throws a `ScriptFault`. The enclosing statement adds the location. */
export function raise(
  code: ErrorCode,
  message: string,
  detail: Readonly<Record<string, Json>> = {},
): never {
  throw new ScriptFault({ code, detail: { ...detail, message } });
}

/** Returns the fault of a thrown value. A bug gets `internal_error` and the first line of its message. */
export function toFault(error: unknown): ScriptFault {
  if (error instanceof ScriptFault) return error;
  const text = error instanceof Error ? error.message : String(error);
  // A regular expression is not used here, because it fails if the stack is exhausted.
  if (error instanceof RangeError && text.includes('call stack')) {
    const detail = { message: 'the script is nested too deeply', limit: 'recursion' };
    return new ScriptFault({ code: 'quota_exceeded', detail });
  }
  const message = `the script failed: ${text.split('\n', 1)[0] ?? ''}`;
  return new ScriptFault({ code: 'internal_error', detail: { message } });
}
