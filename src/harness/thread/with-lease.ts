// Writing into a thread that nobody runs: taken, written and let go in one commit more than the claim.
import { type Outcome, ok } from '../../base/index.ts';
import type { Commit, Held, Store } from '../../store/index.ts';
import { encode } from './journal-codec.ts';
import type { JournalEvent, Noted } from './journal-event.ts';

export interface HolderWork extends Pick<Commit, 'status' | 'cost' | 'result' | 'settle'> {
  readonly events: readonly [JournalEvent, ...JournalEvent[]];
}

export interface LeaseWish {
  readonly owner: string;
  readonly force?: true;
}

const LEASE_MS = 30_000;

/**
 * `lease_held` when somebody is at work on it, unless `force`: then whoever it was can no longer write,
 * nor act. What is written is told to `transcribe`.
 */
export async function withLease(
  store: Pick<Store, 'claim' | 'commit' | 'release'>,
  thread: string,
  { owner, force }: LeaseWish,
  work: (held: Held) => HolderWork,
  transcribe: (events: readonly Noted[], firstSeq: number) => void = () => {},
): Promise<Outcome<null>> {
  const held = await store.claim(thread, { owner, ttlMs: LEASE_MS }, force ? { force } : {});
  if (!held.ok) return held;
  const { epoch, row } = held.output;
  const { events, ...change } = work(held.output);
  const [first, ...more]: [JournalEvent, ...JournalEvent[]] =
    change.status === undefined
      ? [...events]
      : [{ type: 'status', data: { status: change.status } }, ...events];
  const done = await store.commit(thread, {
    ...change,
    expect: { seq: row.seq, epoch },
    events: [encode(first, 0), ...more.map((event) => encode(event, 0))],
    release: true,
  });
  if (!done.ok) {
    await store.release({ thread, epoch });
    return done;
  }
  transcribe(
    [first, ...more].map((event) => ({ ...event, turn: 0 })),
    row.seq + 1,
  );
  return ok(null);
}
