// The registry: one row a thread, its place in the tree, its state.
import {
  type Clock,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { BudgetLimits } from '../amounts.ts';
import type { Budgets } from '../budgets/budgets.ts';
import type { Database, Row } from '../database/database.ts';
import type { EventLog, NewEvent } from '../database/event-log.ts';
import { type Leases, MAX_LEASE_MS } from '../leases/leases.ts';
import { noThread, parseThreadId, type ThreadStatus } from '../thread-id.ts';

export interface NewThread {
  id: string;
  directive: string;
  version: string;
  runner: string;
  project: string;
  parent?: string;
  /** A hook's thread: not counted in depth. */
  kind?: 'thread' | 'hook';
  detached?: boolean;
  limits: JsonObject;
  budget: BudgetLimits;
  inputs: Json;
}

/** What a list shows of a thread; small, whatever the thread was given. */
export interface ThreadSummary {
  id: string;
  parent?: string;
  root: string;
  depth: number;
  kind: 'thread' | 'hook';
  directive: string;
  version: string;
  runner: string;
  project: string;
  detached: boolean;
  status: ThreadStatus;
  /** How many events its journal holds. */
  seq: number;
  epoch: number;
  attempt: number;
  owner?: string;
  /** Milliseconds since 1970, like the other times. */
  lease_until?: number;
  created: number;
  updated: number;
  ended?: number;
  cost: JsonObject;
}

export interface ThreadRow extends ThreadSummary {
  limits: JsonObject;
  inputs: Json;
  result?: Json;
}

export interface FirstSteps {
  events?: readonly NewEvent[];
  /** Born with a lease: nobody can find it unattended. Its epoch is then 1, else 0. */
  lease?: { owner: string; ttlMs: number };
}

export interface Threads {
  /** Row, budget and first events in one commit. `thread_exists` when the id is taken. */
  createThread(thread: NewThread, first?: FirstSteps): Outcome<ThreadRow>;
  thread(id: string): Outcome<ThreadRow>;
  /** The thread itself first, its root last. */
  chain(id: string): Outcome<string[]>;
}

export const SUMMARY =
  'id, parent, root, depth, kind, directive, version, runner, project, detached, status, seq, ' +
  'epoch, attempt, owner, lease_until, created, updated, ended, cost';

/** Every column under its name, empty ones left out. */
export function toSummary(row: Row): ThreadSummary {
  const { parent, owner, lease_until, ended, cost, detached, ...rest } = row;
  return {
    ...(rest as unknown as ThreadSummary),
    detached: detached === 1,
    cost: JSON.parse(cost as string) as JsonObject,
    ...(parent === null ? {} : { parent: parent as string }),
    ...(owner === null ? {} : { owner: owner as string }),
    ...(lease_until === null ? {} : { lease_until: lease_until as number }),
    ...(ended === null ? {} : { ended: ended as number }),
  };
}

function toRow(row: Row): ThreadRow {
  const { limits, inputs, result, ...summary } = row;
  return {
    ...toSummary(summary),
    limits: JSON.parse(limits as string) as JsonObject,
    inputs: JSON.parse(inputs as string) as Json,
    ...(result === null ? {} : { result: JSON.parse(result as string) as Json }),
  };
}

const FIND = `SELECT ${SUMMARY}, limits, inputs, result FROM threads JOIN thread_data ON thread = id WHERE id = ?`;
const INSERT = `INSERT INTO threads (${SUMMARY}) VALUES (${SUMMARY.replace(/\w+/g, '?')})`;

export function createThreads(
  database: Database,
  clock: Clock,
  log: EventLog,
  budgets: Pick<Budgets, 'open'>,
  leases: Pick<Leases, 'born'>,
): Threads {
  const find = (id: string): Outcome<ThreadRow> => {
    const row = database.get(FIND, id);
    return row ? ok(toRow(row)) : noThread(id);
  };

  function place(thread: NewThread): Outcome<{ root: string; depth: number }> {
    if (thread.parent === undefined) return ok({ root: thread.id, depth: 0 });
    const parent = database.get('SELECT root, depth FROM threads WHERE id = ?', thread.parent);
    if (!parent) return noThread(thread.parent);
    const deeper = thread.kind === 'hook' ? 0 : 1;
    return ok({ root: parent['root'] as string, depth: (parent['depth'] as number) + deeper });
  }

  function isTaken(id: string): boolean {
    // A pruned thread's budget stays, and with it the id: no two threads share an account.
    return (
      database.get('SELECT 1 FROM threads WHERE id = ?', id) !== undefined ||
      database.get('SELECT 1 FROM budgets WHERE thread = ?', id) !== undefined
    );
  }

  function insert(thread: NewThread, first: FirstSteps): Outcome<ThreadRow> {
    const { id, parent = null, kind = 'thread', directive, version, runner, project } = thread;
    if (isTaken(id))
      return fail('thread_exists', `thread \`${id}\` exists already`, { thread: id });
    const placed = place(thread);
    if (!placed.ok) return placed;
    const { root, depth } = placed.output;
    const now = clock.now();
    const { events = [], lease } = first;
    const until = lease ? now + Math.min(lease.ttlMs, MAX_LEASE_MS) : null;
    const detached = thread.detached ? 1 : 0;
    // biome-ignore format: one line a group, in the order of the columns
    database.run(
      INSERT, id, parent, root, depth, kind, directive, version, runner, project, detached,
      'spawning', events.length, lease ? 1 : 0, 1, lease?.owner ?? null, until, now, now, null, '{}',
    );
    database.run(
      'INSERT INTO thread_data (thread, limits, inputs) VALUES (?, ?, ?)',
      id,
      JSON.stringify(thread.limits),
      JSON.stringify(thread.inputs),
    );
    const opened = budgets.open(id, thread.budget);
    if (!opened.ok) return opened;
    log.status(id, 0, 'spawning');
    const written = log.events(id, 0, events);
    return written.ok ? find(id) : written;
  }

  return {
    createThread(thread, first = {}) {
      const id = parseThreadId(thread.id);
      if (!id.ok) return id;
      const made = database.write(() => insert(thread, first));
      if (made.ok && first.lease) leases.born(thread.id, first.lease.ttlMs);
      return made;
    },
    thread: (id) => database.read(() => find(id)),
    chain: (id) =>
      database.read(() => {
        const chain: string[] = [];
        for (let next: string | null = id; next !== null; ) {
          const row = database.get('SELECT parent FROM threads WHERE id = ?', next);
          if (!row) return noThread(next);
          chain.push(next);
          next = row['parent'] as string | null;
        }
        return ok(chain);
      }),
  };
}
