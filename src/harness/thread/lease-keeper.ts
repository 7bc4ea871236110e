// Leases are renewed in time, however busy the process is. A timer alone does not do: with a thousand
// threads at work one round of the event loop can take longer than a lease, and timers come once a
// round. So whoever works looks whether something is due, which costs nothing when it is not.

export interface LeaseKeeper {
  /** `renew` is called at the interval until the answer is called. `since`: when the lease began. */
  keep(renew: () => void, since?: number): () => void;
  /** Renews what is due. */
  beat(): void;
  /** By the clock that `since` is read from. */
  now(): number;
}

export function createLeaseKeeper(monotonic: () => number, everyMs: number): LeaseKeeper {
  const due = new Map<() => void, number>();
  /** Nothing is due before. */
  let next = Number.POSITIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  function beat(): void {
    const now = monotonic();
    if (now < next) return;
    next = now + everyMs;
    for (const [renew, at] of due) {
      if (at > now) next = Math.min(next, at);
      else {
        due.set(renew, now + everyMs);
        renew();
      }
    }
  }

  return {
    keep(renew, since = monotonic()) {
      // Each call its own, also when the same function is given twice.
      const own = (): void => renew();
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
