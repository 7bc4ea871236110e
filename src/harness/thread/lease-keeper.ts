// Leases are renewed in time, however busy the process is, and all of them in one call. A timer alone
// does not do: with a thousand threads at work one round of the event loop can take longer than a lease,
// and timers come once a round. So whoever works looks whether something is due, which costs nothing
// when it is not.
import type { Lease, Renewed, Store } from '../../store/index.ts';
import { LEASE_MS } from './journal-writer.ts';

export interface HeldLease extends Lease {
  readonly store: Pick<Store, 'renew'>;
  /** Undefined: it is gone. `asked`: when it was asked for, by the clock of the keeper. */
  readonly renewed: (answer: Renewed | undefined, asked: number) => void;
}

export interface LeaseKeeper {
  /** Renewed at the interval until the answer is called. `since`: when the lease began. */
  keep(lease: HeldLease, since?: number): () => void;
  /** Renews what is due. */
  beat(): void;
  /** By the clock that `since` is read from. */
  now(): number;
}

export function createLeaseKeeper(monotonic: () => number, everyMs: number): LeaseKeeper {
  const due = new Map<HeldLease, number>();
  /** Nothing is due before. */
  let next = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  async function renew(store: HeldLease['store'], leases: readonly HeldLease[]): Promise<void> {
    const asked = monotonic();
    const plain = leases.map(({ thread, epoch }) => ({ thread, epoch }));
    const answer = await store.renew(plain, LEASE_MS);
    // What could not be asked says nothing: the deadline does.
    if (!answer.ok) return;
    const found = new Map(answer.output.map((one) => [one.thread, one]));
    for (const lease of leases) {
      if (due.has(lease)) lease.renewed(found.get(lease.thread), asked);
    }
  }

  function beat(): void {
    const now = monotonic();
    if (now < next) return;
    next = now + everyMs;
    const byStore = new Map<HeldLease['store'], HeldLease[]>();
    for (const [lease, at] of due) {
      if (at > now) {
        next = Math.min(next, at);
        continue;
      }
      due.set(lease, now + everyMs);
      byStore.set(lease.store, [...(byStore.get(lease.store) ?? []), lease]);
    }
    for (const [store, leases] of byStore) void renew(store, leases);
  }

  return {
    keep(lease, since = monotonic()) {
      // Each call its own, also when the same lease is given twice.
      const own = { ...lease };
      due.set(own, since + everyMs);
      next = Math.min(next, since + everyMs);
      // One for all; it holds up nobody's end.
      timer ??= setInterval(beat, Math.ceil(everyMs / 2)).unref();
      return () => {
        due.delete(own);
        if (due.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
    beat,
    now: monotonic,
  };
}
