// The data of a store in memory, shared by all stores that are opened on it. Rows are replaced, never
// changed; every replacement can be taken back, so a transaction is all or nothing by undoing it.
import type { Clock, Failure, Json, JsonObject, Outcome } from '../../../src/base/index.ts';
import type { Amounts, BudgetLimits } from '../../../src/store/amounts.ts';
import type {
  Approval,
  AuditEntry,
  Head,
  Sealed,
  Signal,
  SignalNote,
  StoredEvent,
  ThreadSummary,
} from '../../../src/store/port.ts';

export interface ThreadRecord extends ThreadSummary {
  chain: readonly string[];
  limits: JsonObject;
  inputs: Json;
  result?: Json;
  wakes: number;
  heard: number;
  queued?: number;
  priority: number;
  /** Tells whose call made it. */
  birth: symbol;
  /** Of all threads, in the order of their birth. */
  order: number;
}

export interface MemoryAccount {
  limits: BudgetLimits;
  used: Required<Amounts>;
  reserved: Required<Amounts>;
}

export interface OpenReservation {
  key: string;
  thread: string;
  /** Who made it, and all above. */
  chain: readonly string[];
  amounts: Amounts;
  from?: string;
  standing: boolean;
}

/** What a transaction tells others, when it was made. */
export interface News {
  heads: Head[];
  notes: SignalNote[];
  queued: boolean;
}

export interface Table<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
  delete(key: string): void;
  values(): V[];
}

export interface World {
  clock: Clock;
  isGone: (owner: string) => boolean;
  threads: Table<ThreadRecord>;
  events: Table<readonly StoredEvent[]>;
  signals: Table<readonly Signal[]>;
  accounts: Table<MemoryAccount>;
  reservations: Table<OpenReservation>;
  approvals: Table<Approval>;
  /** By approval and thread. */
  uses: Table<number>;
  secrets: Table<readonly Sealed[]>;
  artifacts: Table<Uint8Array>;
  audit: Table<AuditEntry & { time: string }>;
  /** What the transaction that runs has to tell. */
  news: News;
  /** What is refused, or throws, has changed nothing. */
  transact<T>(work: () => Outcome<T>): Outcome<T>;
  /** The step-th write of every transaction throws. */
  breakAt(step: number | undefined): void;
  listen(listener: (news: News) => void): () => void;
}

export function createWorld(clock: Clock, isGone: (owner: string) => boolean): World {
  const listeners = new Set<(news: News) => void>();
  let undo: (() => void)[] = [];
  let broken: number | undefined;

  function table<V>(): Table<V> {
    const rows = new Map<string, V>();
    function write(key: string, change: () => void): void {
      if (undo.length + 1 === broken) throw new Error('this write was told to fail');
      const before = rows.get(key);
      undo.push(() => {
        if (before === undefined) rows.delete(key);
        else rows.set(key, before);
      });
      change();
    }
    return {
      get: (key) => rows.get(key),
      set: (key, value) => write(key, () => rows.set(key, value)),
      delete: (key) => write(key, () => rows.delete(key)),
      values: () => [...rows.values()],
    };
  }

  const nothing = (): News => ({ heads: [], notes: [], queued: false });
  const world: World = {
    clock,
    isGone,
    threads: table(),
    events: table(),
    signals: table(),
    accounts: table(),
    reservations: table(),
    approvals: table(),
    uses: table(),
    secrets: table(),
    artifacts: table(),
    audit: table(),
    news: nothing(),
    transact(work) {
      [undo, world.news] = [[], nothing()];
      let done: ReturnType<typeof work> | undefined;
      try {
        done = work();
      } finally {
        if (!done?.ok) for (const step of undo.reverse()) step();
      }
      if (done.ok) for (const listener of listeners) listener(world.news);
      return done;
    },
    breakAt: (step) => void (broken = step),
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  return world;
}

/** Refuses from deep inside: caught where the transaction was begun. */
export class RefusedCommit extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.error.detail.message);
    this.failure = failure;
  }
}

export function need<T>(value: T | undefined, failure: Failure): T {
  if (value === undefined) throw new RefusedCommit(failure);
  return value;
}
