// Renews the leases of the threads that this process runs, all of them in one call. A timer alone is not
// enough: with a thousand running threads one round of the event loop can take longer than a lease, and
// timers fire once a round. So every step checks whether a renewal is due, which costs nothing if none is.
import { LEASE_MS } from './journal-writer.ts';
import type { LeaseKeeper, RenewedLease } from './thread.ts';

interface KeptLease {
  at: number;
  everyMs: number;
}

/** `mostMs`: between two renewals; a short lease is renewed after a third of it. */
export function createLeaseKeeper(monotonic: () => number, mostMs: number): LeaseKeeper {
  const due = new Map<RenewedLease, KeptLease>();
  let next = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let timerMs = Number.POSITIVE_INFINITY;
  const everyOf = (leaseMs: number): number => Math.min(mostMs, Math.max(1, leaseMs / 3));

  async function renew(
    store: RenewedLease['store'],
    leases: readonly RenewedLease[],
  ): Promise<void> {
    const asked = monotonic();
    const plain = leases.map(({ thread, epoch }) => ({ thread, epoch }));
    const answer = await store.renew(plain, LEASE_MS);
    // What could not be asked says nothing: the deadline does.
    if (!answer.ok) return;
    const found = new Map(answer.output.map((one) => [one.thread, one]));
    for (const lease of leases) {
      const kept = due.get(lease);
      if (!kept) continue;
      const renewed = found.get(lease.thread);
      if (renewed) kept.everyMs = everyOf(renewed.lease_ms);
      lease.renewed(renewed, asked);
    }
  }

  function beat(): void {
    const now = monotonic();
    if (now < next) return;
    next = Number.POSITIVE_INFINITY;
    const byStore = new Map<RenewedLease['store'], RenewedLease[]>();
    for (const [lease, kept] of due) {
      // A server gives short leases: what would be due soon goes along, so that all stay one call.
      const soon = kept.everyMs < mostMs ? kept.everyMs / 2 : 0;
      if (kept.at <= now + soon) {
        kept.at = now + kept.everyMs;
        const others = byStore.get(lease.store);
        if (others) others.push(lease);
        else byStore.set(lease.store, [lease]);
      }
      next = Math.min(next, kept.at);
    }
    for (const [store, leases] of byStore) void renew(store, leases);
  }

  return {
    keep(lease, since = monotonic()) {
      // Each call its own, also when the same lease is given twice.
      const own = { ...lease };
      const everyMs = everyOf(lease.lease_ms);
      due.set(own, { at: since + everyMs, everyMs });
      next = Math.min(next, since + everyMs);
      // One for all, as often as the shortest needs it; it holds up nobody's end.
      if (everyMs < timerMs) {
        clearInterval(timer);
        timerMs = everyMs;
        timer = setInterval(beat, Math.ceil(everyMs / 2)).unref();
      }
      return () => {
        due.delete(own);
        if (due.size > 0) return;
        clearInterval(timer);
        timerMs = Number.POSITIVE_INFINITY;
      };
    },
    beat,
    now: monotonic,
  };
}
