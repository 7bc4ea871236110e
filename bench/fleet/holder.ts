// Implements the smallest possible worker over the port, without the harness: it takes threads, renews their leases and
// passes each to `work`. A benchmark uses it to measure only the store and the queue, and the fault suite uses it to
// test the fence.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Outcome, systemClock } from '@kernmantle/core/base';
import type {
  Commit,
  Committed,
  LeasedThread,
  Signal,
  Store,
} from '../../packages/core/src/store/port.ts';
import { openSqliteStore } from '../../packages/core/src/store/sqlite/store.ts';
import { openServerStore } from '../../packages/fleet/src/postgres/address.ts';

export const TTL_MS = 10_000;
const RENEW_MS = 3_000;
/** Codes after which this process releases the thread. */
const FINAL = new Set(['conflict', 'stale_epoch', 'lease_expired', 'store_unknown', 'not_found']);

export function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}

/** Opens the store at an address. `file:PATH` is a registry of one machine, for comparison. */
export async function openAt(address: string): Promise<Store> {
  if (!address.startsWith('file:')) {
    return must(await openServerStore(address, { clock: systemClock }));
  }
  return must(await openSqliteStore({ file: address.slice(5), clock: systemClock }));
}

/** One thread that this process leases. */
export interface Grip {
  readonly held: LeasedThread;
  readonly seq: () => number;
  /** True if the lease leaves enough time for an effect, by the clock of this process. */
  isHeld(): boolean;
  /** Commits a change. Undefined if another process owns the lease. A refusal that is not final is returned. */
  commit(change: Omit<Commit, 'expect'>, how?: { quiet?: true }): Promise<Outcome<Committed>>;
  /** Returns the signals that have arrived and were not handled. */
  signals(): readonly Signal[];
  obeyed(number: number): void;
}

export interface Serving {
  store: Store;
  owner: string;
  project: string;
  slots: number;
  signal: AbortSignal;
  /** Resolves when the thread is released. */
  work(grip: Grip): Promise<void>;
  onTake?(held: LeasedThread): void;
  onLeave?(held: LeasedThread): void;
}

interface LiveGrip extends Grip {
  renewed(askedAt: number, leaseMs: number, signals: readonly Signal[]): void;
  lose(): void;
}

function gripOf(store: Store, held: LeasedThread, askedAt: number): LiveGrip {
  let deadline = askedAt + held.lease_ms;
  let { seq } = held.row;
  const waiting = new Map<number, Signal>();
  let heard = held.acknowledged;
  const told = (signals: readonly Signal[]): void => {
    for (const signal of signals) if (signal.number > heard) waiting.set(signal.number, signal);
  };
  return {
    held,
    seq: () => seq,
    isHeld: () => performance.now() < deadline,
    async commit(change, how = {}) {
      const before = performance.now();
      const expect = { seq, epoch: held.epoch, ...how };
      const done = await store.commit(held.thread, { ...change, expect });
      if (done.ok) {
        ({ seq } = done.output);
        deadline = before + done.output.lease_ms;
        told(done.output.signals);
      } else if (FINAL.has(done.error.code)) deadline = 0;
      return done;
    },
    signals: () => [...waiting.values()].sort((a, b) => a.number - b.number),
    obeyed(number) {
      heard = Math.max(heard, number);
      for (const key of waiting.keys()) if (key <= number) waiting.delete(key);
    },
    renewed(before, leaseMs, signals) {
      deadline = before + leaseMs;
      told(signals);
    },
    lose() {
      deadline = 0;
    },
  };
}

async function keepLeases(store: Store, grips: ReadonlyMap<string, LiveGrip>): Promise<void> {
  if (grips.size === 0) return;
  const asked = [...grips.values()];
  const before = performance.now();
  const done = await store.renew(
    asked.map(({ held }) => held),
    TTL_MS,
  );
  if (!done.ok) return;
  const answers = new Map(done.output.map((renewed) => [renewed.thread, renewed]));
  for (const grip of asked) {
    const answer = answers.get(grip.held.thread);
    if (answer) grip.renewed(before, answer.lease_ms, answer.signals);
    else grip.lose();
  }
}

async function every(ms: number, signal: AbortSignal, act: () => Promise<unknown>): Promise<void> {
  while (!signal.aborted) {
    await sleep(ms, undefined, { signal }).catch(() => undefined);
    if (!signal.aborted) await act();
  }
}

/** Takes threads until the signal. It then takes no more threads and completes those that it leases. */
export async function serve(serving: Serving): Promise<void> {
  const { store, owner, project, slots, signal, work } = serving;
  const grips = new Map<string, LiveGrip>();
  const running = new Set<Promise<void>>();
  const stopKeeping = new AbortController();
  let freed: () => void = () => undefined;
  signal.addEventListener('abort', () => freed(), { once: true });
  const keeping = Promise.all([
    every(RENEW_MS, stopKeeping.signal, () => keepLeases(store, grips)),
    every(2_000, stopKeeping.signal, () => store.sweep()),
  ]);
  while (!signal.aborted) {
    const count = slots - running.size;
    if (count <= 0) {
      await new Promise<void>((resolve) => {
        freed = resolve;
      });
      continue;
    }
    const before = performance.now();
    const wanted = { count, projects: [project], waitMs: 500 };
    const taken = await store.take({ owner, ttlMs: TTL_MS }, wanted);
    if (!taken.ok) await sleep(50);
    for (const held of taken.ok ? taken.output : []) {
      const grip = gripOf(store, held, before);
      serving.onTake?.(held);
      grips.set(held.thread, grip);
      const run: Promise<void> = work(grip)
        .catch((error: unknown) => void process.stderr.write(`${owner}: ${String(error)}\n`))
        .then(() => {
          if (grips.get(held.thread) === grip) grips.delete(held.thread);
          serving.onLeave?.(held);
          running.delete(run);
          freed();
        });
      running.add(run);
    }
  }
  await Promise.all(running);
  stopKeeping.abort();
  await keeping;
}
