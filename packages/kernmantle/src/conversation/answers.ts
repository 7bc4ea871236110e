// Asks a present person the approval requests of a thread and of the threads below it, and resumes the threads with the
// answers. The terminal and an editor differ only in how they ask.
import type { Outcome } from '@kernmantle/core/base';
import type { ThreadResult } from '@kernmantle/core/harness';
import type { Noted } from '@kernmantle/core/journal';
import {
  type Actor,
  type AskPerson,
  askHere,
  isFileChanged,
  type Threads,
} from '@kernmantle/core/runtime';
import type { Store } from '@kernmantle/core/store';

/** Returns undefined if no person is present. `signal` leaves a request pending. */
export type PersonFor = (signal: AbortSignal) => AskPerson | undefined;

/** Asks the person all pending requests of a thread. Returns true if the thread can resume. */
async function answerHere(
  store: Store,
  thread: string,
  person: AskPerson,
  by: Actor,
): Promise<boolean> {
  const open = await store.approvals({ thread, state: 'pending' });
  const rows = open.ok ? open.output.filter(({ shown }) => shown.action === 'ask') : [];
  for (const row of rows) {
    const result = await askHere(store, row, person, by);
    // After a change of its file, the thread creates a new request for the current content.
    if (!result.ok) return isFileChanged(result);
    if (result.output.state === 'pending') return false;
  }
  return rows.length > 0;
}

/**
 * Asks the person the approval requests of all descendants of a running thread, one after the other. The
 * descendant then resumes with the answer.
 */
export function answerBelow(personFor: PersonFor, by: Actor) {
  const over = new AbortController();
  const person = personFor(over.signal);
  const requests = new Set<string>();

  async function ask(threads: Threads, id: string, root: string): Promise<void> {
    const { store, resumeAnywhere } = threads;
    const rows = await store.approvals({ id, state: 'pending' });
    const [row] = rows.ok ? rows.output : [];
    if (!row || !person || row.thread === undefined || row.thread === root) return;
    const result = await askHere(store, row, person, by);
    if (!result.ok && isFileChanged(result)) {
      await resumeAnywhere(row.thread, over.signal);
      if (!over.signal.aborted) await ask(threads, id, root);
      return;
    }
    const isOpen = !result.ok || result.output.state === 'pending';
    // In a shared store, the answer has already queued the thread for a worker.
    if (!isOpen && !store.fleet) void resumeAnywhere(row.thread, over.signal);
  }
  return {
    hear(threads: Threads | undefined, root: string | undefined, { type, data }: Noted): void {
      if (!person || !threads || root === undefined || type !== 'approval') return;
      if (data.kind !== 'call' || data.state !== 'pending') return;
      const { approval = '' } = data;
      if (requests.has(approval)) return;
      requests.add(approval);
      void ask(threads, approval, root);
    },
    close: () => over.abort(),
  };
}

/** Asks the present person the pending approval requests and resumes the thread after the answer. */
export async function answered(
  person: AskPerson | undefined,
  by: Actor,
  threads: Threads,
  first: Outcome<ThreadResult>,
  signal: AbortSignal,
): Promise<Outcome<ThreadResult>> {
  if (!person) return first;
  let outcome = first;
  while (outcome.ok && outcome.output.status === 'waiting' && !signal.aborted) {
    const { thread_id } = outcome.output;
    if (!(await answerHere(threads.store, thread_id, person, by))) break;
    // In a shared store the answer has queued the thread for a worker.
    outcome = await (threads.store.fleet ? threads.resumeAnywhere : threads.resume)(
      thread_id,
      signal,
    );
  }
  return outcome;
}
