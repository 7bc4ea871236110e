// Defines the error that agents throw. The door of the library loads this file at once, so it imports types only.
import type { Fault } from '@kernmantle/core/base';
import type { Approval, ThreadStatus } from '@kernmantle/core/store';
import type { ThreadCost } from '../thread-run.ts';

/** Facts about the run that failed. A call that started no run has none. */
interface FailedRun {
  readonly status?: ThreadStatus;
  /** Id of the thread, which has the journal of the run. */
  readonly thread?: string;
  readonly cost?: ThreadCost;
  /** Pending approval requests of a run with the status `waiting` or `needs_input`. */
  readonly approvals?: readonly Approval[];
}

/** Every failure of agents. Programs read `code` and `detail`, people read `message`. */
export class KernmantleError extends Error {
  override readonly name = 'KernmantleError';
  readonly code: Fault['code'];
  readonly detail: Fault['detail'];
  readonly status: ThreadStatus | undefined;
  readonly thread: string | undefined;
  readonly cost: ThreadCost | undefined;
  readonly approvals: readonly Approval[] | undefined;

  constructor({ code, detail }: Fault, run: FailedRun = {}) {
    super(detail.message);
    this.code = code;
    this.detail = detail;
    this.status = run.status;
    this.thread = run.thread;
    this.cost = run.cost;
    this.approvals = run.approvals;
  }

  /** Ways to get the missing right, if a right is missing. */
  get ways(): Fault['detail'][string] | undefined {
    return this.detail.ways;
  }
}

/** Returns the error of an option. `about` names the object with the option. */
export const invalidOption = (about: string, option: string, problem: string): KernmantleError =>
  new KernmantleError({
    code: 'config_invalid',
    detail: { message: `${about}: \`${option}\` ${problem}`, option },
  });

/** Returns the number of letters to change, add or remove. */
function distance(word: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [above, letter] of word.split('').entries()) {
    const next = [above + 1];
    for (let at = 0; at < other.length; at++) {
      const [left = 0, up = 0, corner = 0] = [next[at], row[at + 1], row[at]];
      next.push(Math.min(left + 1, up + 1, corner + (other[at] === letter ? 0 : 1)));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** Returns the nearest of these names, if few letters differ. */
function nearestName(word: string, names: readonly string[]): string | undefined {
  const far = (name: string): number =>
    distance(word.slice(0, 80).toLowerCase(), name.toLowerCase());
  const [best] = names.toSorted((one, other) => far(one) - far(other));
  const most = Math.max(1, Math.floor(word.length / 3));
  return best !== undefined && far(best) <= most ? best : undefined;
}

/** Throws for an option that is not among `names`. It names the nearest one. */
export function checkNames(about: string, options: object, names: readonly string[]): void {
  const extra = Object.keys(options).find((name) => !names.includes(name));
  if (extra === undefined) return;
  const near = nearestName(extra, names);
  const hint = near === undefined ? `use one of: ${names.join(', ')}` : `did you mean \`${near}\``;
  throw invalidOption(about, extra, `is not an option; ${hint}`);
}
