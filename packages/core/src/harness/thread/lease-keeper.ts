// Renews the leases of the threads that this process runs, all of them in one call. A timer alone is not
// enough: with a thousand running threads one round of the event loop can take longer than a lease, and
// timers fire once a round. So every step checks whether a renewal is due, which costs nothing if none is.
import { LEASE_MS } from './journal-writer.ts';
import type { LeaseKeeper, RenewedLease } from './thread.ts';

interface LeaseTimes {
  at: number;
  everyMs: number;
}

/** `mostMs`: longest time between two renewals. A short lease is renewed after a third of its length. */
export function createLeaseKeeper(monotonic: () => number, mostMs: number): LeaseKeeper {
  const due = new Map<RenewedLease, LeaseTimes>();
  let next = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let timerMs = Number.POSITIVE_INFINITY;
  const everyOf = (leaseMs: number): number => Math.min(mostMs, Math.max(1, leaseMs / 3));

  async function renew(
    store: RenewedLease['store'],
    leases: readonly RenewedLease[],
  ): Promise<void> {
    const sentAt = monotonic();
    const plain = leases.map(({ thread, epoch }) => ({ thread, epoch }));
    const answer = await store.renew(plain, LEASE_MS);
    // A failed request proves nothing about the leases. Their local deadlines decide.
    if (!answer.ok) return;
    const renewals = new Map(answer.output.map((one) => [one.thread, one]));
    for (const lease of leases) {
      const times = due.get(lease);
      if (!times) continue;
      const renewed = renewals.get(lease.thread);
      if (renewed) times.everyMs = everyOf(renewed.lease_ms);
      lease.renewed(renewed, sentAt);
    }
  }

  function beat(): void {
    const now = monotonic();
    if (now < next) return;
    next = Number.POSITIVE_INFINITY;
    const byStore = new Map<RenewedLease['store'], RenewedLease[]>();
    for (const [lease, times] of due) {
      // A server grants short leases. Leases that are due soon are renewed too, so that one call renews all.
      const soon = times.everyMs < mostMs ? times.everyMs / 2 : 0;
      if (times.at <= now + soon) {
        times.at = now + times.everyMs;
        const others = byStore.get(lease.store);
        if (others) others.push(lease);
        else byStore.set(lease.store, [lease]);
      }
      next = Math.min(next, times.at);
    }
    for (const [store, leases] of byStore) void renew(store, leases);
  }

  return {
    keep(lease, since = monotonic()) {
      // Each call gets an entry of its own, even for the same lease.
      const own = { ...lease };
      const everyMs = everyOf(lease.lease_ms);
      due.set(own, { at: since + everyMs, everyMs });
      next = Math.min(next, since + everyMs);
      // One timer serves all leases, as often as the shortest lease needs it. It does not keep the process alive.
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
