// One call of a js block while it lasts: what it printed, how long it may take, how it ended.
import { type Failure, type Fault, fail, type Outcome } from '../base/index.ts';
import type { MaybePromise } from '../flow/index.ts';
import { ScriptFault } from './fault.ts';
import type { JsCall, JsResult } from './world.ts';

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_PRINTED = 1 << 20;

export interface Job {
  readonly id: number;
  readonly call: JsCall;
  readonly timeoutMs: number;
  readonly logs: string[];
  readonly warnings: string[];
  /** A refusal that a function of the script met: the block cannot make it undone. */
  readonly denied: Fault | undefined;
  print(kind: 'log' | 'warn', line: string): void;
  leftMs(): number;
  /** Notes why a function of the script failed and gives the message for the block. */
  failed(error: unknown): string;
  /** The fault behind an exception that only passed through the block. */
  original(failure: Failure): Failure;
  settle(outcome: Outcome<JsResult>): void;
  /** How it ended, or a promise of it; `onLate` is called when the time is over. */
  outcome(onLate: () => void): MaybePromise<Outcome<JsResult>>;
}

/** A failure that says what was thrown. */
export function thrownFault(json: string): Failure {
  const { message, name } = JSON.parse(json) as { message: string; name?: string };
  const line = message.split('\n', 1)[0] || 'an error without a message';
  return fail('tool_failed', line, name ? { error: name } : {});
}

export const slowFault = ({ timeoutMs }: Pick<Job, 'timeoutMs'>): Failure =>
  fail('timeout', `the js block ran longer than ${timeoutMs / 1000} s; set \`timeout\` if it may`);

export function createJob(id: number, call: JsCall): Job {
  const timeoutMs = Math.max(1, call.timeoutMs ?? DEFAULT_TIMEOUT_MS);
  const deadline = performance.now() + timeoutMs;
  const [logs, warnings]: [string[], string[]] = [[], []];
  let printed = 0;
  let fault: Fault | undefined;
  let ended: Outcome<JsResult> | undefined;
  let tell: ((outcome: Outcome<JsResult>) => void) | undefined;
  return {
    id,
    call,
    timeoutMs,
    logs,
    warnings,
    get denied() {
      return fault?.code === 'permission_denied' ? fault : undefined;
    },
    print(kind, line) {
      const list = kind === 'log' ? logs : warnings;
      if (printed <= MAX_PRINTED) list.push(line.slice(0, MAX_PRINTED));
      else if (printed < Infinity) list.push('… truncated');
      printed = printed > MAX_PRINTED ? Infinity : printed + line.length + 1;
    },
    leftMs: () => Math.max(1, Math.ceil(deadline - performance.now())),
    failed(error) {
      const known = error instanceof ScriptFault ? error.fault : undefined;
      if (fault?.code !== 'permission_denied') fault = known;
      return known?.detail.message ?? (error instanceof Error ? error.message : String(error));
    },
    original: (failure) =>
      fault?.detail.message === failure.error.detail.message
        ? { ok: false, error: fault }
        : failure,
    settle(outcome) {
      ended = outcome;
      tell?.(outcome);
    },
    outcome(onLate) {
      if (ended) return ended;
      return new Promise((resolve) => {
        const late = setTimeout(onLate, Math.max(1, deadline - performance.now()));
        tell = (outcome) => {
          clearTimeout(late);
          resolve(outcome);
        };
      });
    },
  };
}
