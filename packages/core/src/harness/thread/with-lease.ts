// Writes into a thread that no process runs: claims it, commits and releases it.
import { type Outcome, ok } from '../../base/index.ts';
import type { MaybePromise } from '../../flow/index.ts';
import type { JournalEvent, Noted } from '../../journal/index.ts';
import { type Commit, isEnded, type LeasedThread, type Store } from '../../store/index.ts';
import { checkedEvents, type Encoded, LEASE_MS } from './journal-writer.ts';
import type { WatchPort } from './ports.ts';

interface LeaseWork extends Pick<Commit, 'status' | 'cost' | 'result' | 'settle'> {
  readonly events: readonly [JournalEvent, ...JournalEvent[]];
}

/**
 * Claims a thread, commits the work and releases the thread. Fails with `lease_held` if another process owns the
 * lease, unless `force`: then that process can no longer write. `transcribe` receives the written events.
 */
export async function withLease(
  store: Pick<Store, 'claim' | 'commit' | 'release'>,
  thread: string,
  { owner, force }: { owner: string; force?: true },
  work: (held: LeasedThread) => MaybePromise<Outcome<LeaseWork>>,
  transcribe?: (events: readonly Noted[], firstSeq: number) => MaybePromise<void>,
): Promise<Outcome<null>> {
  const claimed = await store.claim(thread, { owner, ttlMs: LEASE_MS }, force ? { force } : {});
  if (!claimed.ok) return claimed;
  const { epoch, row } = claimed.output;
  const result = await work(claimed.output);
  if (!result.ok) {
    await store.release({ thread, epoch });
    return result;
  }
  const { events, ...change } = result.output;
  const { status } = change;
  const changed: JournalEvent[] =
    status === undefined ? [] : [{ type: 'status', data: { status } }];
  const checked = checkedEvents([...changed, ...events], 0);
  const [first, ...more] = checked.ok ? checked.output : [];
  if (!checked.ok || !first) {
    await store.release({ thread, epoch });
    return checked.ok ? ok(null) : checked;
  }
  const written: [Encoded, ...Encoded[]] = [first, ...more];
  const expect = { seq: row.seq, epoch };
  // INVARIANT: an ended thread is always released after its transcript is written, as in finish.ts. Otherwise
  // another process finds it ended without an owner, and writes the transcript a second time.
  const isReleasedLast = transcribe !== undefined && status !== undefined && isEnded(status);
  const release = isReleasedLast ? {} : ({ release: true } as const);
  const committed = await store.commit(thread, { ...change, expect, events: written, ...release });
  if (committed.ok) await transcribe?.(written, row.seq + 1);
  if (!committed.ok || isReleasedLast) await store.release({ thread, epoch });
  return committed.ok ? ok(null) : committed;
}

/** Returns the argument `transcribe` of `withLease`, for a thread whose transcript this process can write. */
export function transcriberOf(watch: WatchPort, id: string): Parameters<typeof withLease>[4] {
  const write = watch.transcript(id);
  return (events, firstSeq) => {
    write(events, firstSeq);
    return watch.written?.(id);
  };
}
