// The data of a store in memory, shared by all stores that are opened on it: plain maps. Rows are
// replaced, never changed, so a copy of the maps is a copy of all, and a transaction that fails puts it back.
import {
  type Clock,
  type Failure,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
} from '@kernmantle/core/base';
import type { Amounts, BudgetLimits } from '../../../packages/core/src/store/amounts.ts';
import type {
  Approval,
  AuditEntry,
  Sealed,
  Signal,
  StoredEvent,
  ThreadSummary,
} from '../../../packages/core/src/store/port.ts';

export interface ThreadRecord extends ThreadSummary {
  chain: readonly string[];
  limits: JsonObject;
  inputs: Json;
  result?: Json;
  /** What a search finds: text of the beginning and of the end. */
  texts: readonly [first: string, last: string];
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

class Rows<V> extends Map<string, V> {
  private readonly onWrite: () => void;

  constructor(onWrite: () => void) {
    super();
    this.onWrite = onWrite;
  }

  override set(key: string, value: V): this {
    this.onWrite();
    return super.set(key, value);
  }

  override delete(key: string): boolean {
    this.onWrite();
    return super.delete(key);
  }

  all(): V[] {
    return [...this.values()];
  }

  copy(): () => void {
    const rows = [...this];
    return () => {
      this.clear();
      for (const [key, row] of rows) super.set(key, row);
    };
  }
}

function createTables(onWrite: () => void) {
  return {
    threads: new Rows<ThreadRecord>(onWrite),
    events: new Rows<readonly StoredEvent[]>(onWrite),
    signals: new Rows<readonly Signal[]>(onWrite),
    accounts: new Rows<MemoryAccount>(onWrite),
    reservations: new Rows<OpenReservation>(onWrite),
    approvals: new Rows<Approval>(onWrite),
    /** By approval and thread. */
    uses: new Rows<number>(onWrite),
    secrets: new Rows<readonly Sealed[]>(onWrite),
    artifacts: new Rows<Uint8Array>(onWrite),
    audit: new Rows<AuditEntry & { time: string }>(onWrite),
  };
}

export type World = ReturnType<typeof createWorld>;

export function createWorld(clock: Clock, isGone: (owner: string) => boolean) {
  const listeners = new Set<() => void>();
  let [writes, version] = [0, 0];
  let broken: number | undefined;
  const tables = createTables(() => {
    writes += 1;
    if (writes === broken) throw new Error('this write was told to fail');
  });

  function listen(listener: () => void): () => void {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  return {
    clock,
    isGone,
    ...tables,
    /** What is refused, or throws, has changed nothing. */
    transact<T>(work: () => Outcome<T>): Outcome<T> {
      const undo = Object.values(tables).map((table) => table.copy());
      writes = 0;
      let done: Outcome<T> | undefined;
      try {
        done = work();
      } finally {
        if (!done?.ok) for (const putBack of undo) putBack();
      }
      if (!done.ok || writes === 0) return done;
      version += 1;
      for (const listener of listeners) listener();
      return done;
    },
    /** The step-th write of every transaction throws. */
    breakAt: (step: number | undefined): void => void (broken = step),
    /** Called after every transaction that wrote. */
    listen,
    version: (): number => version,
    /** Waits until there was a transaction after this version, or the signal ends. */
    async changed(since: number, signal: AbortSignal): Promise<void> {
      if (version !== since || signal.aborted) return;
      await new Promise<void>((resolve) => {
        const end = (): void => {
          off();
          signal.removeEventListener('abort', end);
          resolve();
        };
        const off = listen(end);
        signal.addEventListener('abort', end);
      });
    },
  };
}

/** Refuses from deep inside: caught where the transaction was begun. */
export class RefusedCommit extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.error.detail.message);
    this.failure = failure;
  }
}

export function refuse(code: string, message: string, detail: JsonObject = {}): never {
  throw new RefusedCommit(fail(code, message, detail));
}

export function need<T>(value: T | undefined, failure: Failure): T {
  if (value === undefined) throw new RefusedCommit(failure);
  return value;
}
