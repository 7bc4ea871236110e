// Follows a thread that runs in any process: its events from the store, and in the end its result or its parked
// state. It claims no lease and does not poll, because the store reports changes.
import { fail, type Outcome, ok, plainText } from '../../base/index.ts';
import {
  isEnded,
  type Store,
  type StoredEvent,
  type ThreadRow,
  type ThreadStatus,
} from '../../store/index.ts';
import { RESTS, resultOf } from '../children/children.ts';
import type { ThreadResult } from '../thread/ports.ts';

type FollowPorts = Pick<Store, 'thread' | 'changes' | 'watch' | 'approvals' | 'fleet'>;

/** Events of the store, with secrets as references. The result does not depend on reading them. */
export interface FollowedRun extends AsyncIterable<StoredEvent> {
  /** Result of the thread, or its state if it parked. Fails with `cancelled` if the signal was aborted first. */
  readonly result: Promise<Outcome<ThreadResult>>;
}

/** True if no process continues the thread by itself. Without workers an interrupted thread waits for a person. */
const isResting = ({ fleet }: FollowPorts, status: ThreadStatus): boolean =>
  isEnded(status) || RESTS.has(status) || (status === 'interrupted' && fleet === undefined);

/** True if the thread ended or parked. A parked thread counts only if it recorded events since `after`. */
const hasRested = (store: FollowPorts, { status, seq }: ThreadRow, after: number): boolean =>
  isResting(store, status) && (isEnded(status) || seq > after);

async function untilRest(
  store: FollowPorts,
  id: string,
  after: number,
  signal: AbortSignal,
): Promise<Outcome<ThreadRow>> {
  const over = new AbortController();
  const heads = store.changes({ threads: [id] }, AbortSignal.any([signal, over.signal]));
  const moved = heads[Symbol.asyncIterator]();
  try {
    for (;;) {
      // The subscription begins before the read, so a change in between is read in the next round.
      const next = moved.next();
      const row = await store.thread(id);
      if (!row.ok || hasRested(store, row.output, after)) return row;
      if (!(await next).done) continue;
      return signal.aborted
        ? fail('cancelled', `the caller stopped following thread \`${id}\``)
        : fail('store_closed', `the store was closed while thread \`${id}\` was followed`);
    }
  } finally {
    over.abort();
  }
}

/** Returns the text of the pending approval request, or an empty text if there is none. */
async function questionOf(store: FollowPorts, id: string): Promise<string> {
  const open = await store.approvals({ thread: id, state: 'pending' });
  const [first] = open.ok ? open.output : [];
  if (!first) return '';
  const { question, reason } = first.shown;
  return plainText(question ?? reason ?? '') || `approval ${first.id} is pending`;
}

async function resultAtRest(store: FollowPorts, row: ThreadRow): Promise<ThreadResult> {
  const ended = resultOf(row);
  if (ended) return ended;
  const { id: thread_id, status, cost } = row;
  const isAsked = status === 'waiting' || status === 'needs_input';
  const reason = isAsked ? await questionOf(store, thread_id) : '';
  return { thread_id, status, outputs: {}, text: '', reason, cost };
}

async function* eventsUntilRest(
  store: FollowPorts,
  id: string,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<StoredEvent> {
  const before = await store.thread(id);
  if (!before.ok) return;
  /** Returns the number of the last event, if the thread has parked or ended. */
  const lastOf = (row: ThreadRow): number =>
    hasRested(store, row, after) ? row.seq : Number.POSITIVE_INFINITY;
  let last = lastOf(before.output);
  if (last <= after) return;
  const over = new AbortController();
  const watched = store.watch({ thread: id, seq: after }, AbortSignal.any([signal, over.signal]));
  try {
    for await (const event of watched) {
      yield event;
      // A thread that parked can have been resumed since then.
      if (event.type === 'status' || event.seq >= last) {
        const row = await store.thread(id);
        if (!row.ok) return;
        last = lastOf(row.output);
      }
      if (event.seq >= last) return;
    }
  } finally {
    over.abort();
  }
}

/** Follows a thread from event `after` on until it parks or ends. A thread that parked before must run first. */
export function followThread(
  store: FollowPorts,
  id: string,
  signal: AbortSignal,
  after = 0,
): FollowedRun {
  const result = untilRest(store, id, after, signal).then(async (row) =>
    row.ok ? ok(await resultAtRest(store, row.output)) : row,
  );
  return { result, [Symbol.asyncIterator]: () => eventsUntilRest(store, id, after, signal) };
}
