// The rows of threads, and how one comes into the world: row, data, budget and first events together.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { EventText, ThreadText } from '../encode.ts';
import type { Held, NewThread, ThreadRow, ThreadSummary } from '../port.ts';
import { noThread } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';
import type { Effects } from './file/group.ts';
import type { HeldThreads } from './held.ts';
import type { LedgerRows } from './ledger-rows.ts';

/** The longest lease. A deadline further away was set before the clock was put back: it holds nothing. */
export const MAX_LEASE_MS = 600_000;

export const SUMMARY =
  'id, parent, root, depth, kind, directive, version, runner, project, detached, status, seq, ' +
  'epoch, attempt, owner, lease_until, created, updated, ended, cost';

export type SummaryRow = Omit<
  ThreadSummary,
  'parent' | 'owner' | 'lease_until' | 'ended' | 'cost' | 'detached'
> & {
  parent: string | null;
  owner: string | null;
  lease_until: number | null;
  ended: number | null;
  cost: string;
  detached: number;
};

/** Every column under its name, empty ones left out. */
export function toSummary(row: SummaryRow): ThreadSummary {
  const { parent, owner, lease_until, ended, cost, detached, ...rest } = row;
  return {
    ...rest,
    detached: detached === 1,
    cost: JSON.parse(cost),
    ...(parent === null ? {} : { parent }),
    ...(owner === null ? {} : { owner }),
    ...(lease_until === null ? {} : { lease_until }),
    ...(ended === null ? {} : { ended }),
  };
}

interface FoundRow extends SummaryRow {
  chain: string;
  limits: string;
  inputs: string;
  result: string | null;
  wakes: number;
  heard: number;
}

const FIND = `SELECT ${SUMMARY}, chain, limits, inputs, result, wakes, heard
  FROM threads JOIN thread_data ON thread = id WHERE id = ?`;
const INSERT = `INSERT INTO threads (${SUMMARY}, queued, priority)
  VALUES (${SUMMARY.replace(/\w+/g, '?')}, ?, ?)`;
const INSERT_DATA =
  'INSERT INTO thread_data (thread, chain, limits, inputs, birth) VALUES (?, ?, ?, ?, ?)';

const INSERT_EVENTS = 'INSERT INTO thread_events (thread, seq, ts, turn, type, data) VALUES ';
const EVENT = '(?, ?, ?, ?, ?, ?)';
const ONE_EVENT = INSERT_EVENTS + EVENT;
/** Long lists go in this many at a time: each call of the database costs as much as a row. */
const MANY = 10;
const SOME_EVENTS = Array.from(
  { length: MANY + 1 },
  (_, count) => INSERT_EVENTS + Array.from({ length: count }, () => EVENT).join(', '),
);

export interface ThreadRows {
  find(id: string): Outcome<ThreadRow>;
  /** With what it takes to run it; remembered as held when it has a lease. */
  hold(id: string, now: number, effects: Effects): Outcome<Held>;
  chainOf(id: string): readonly string[] | undefined;
  /** Also of a thread that was pruned: its account stays, and no two threads share one. */
  isTaken(id: string): boolean;
  /** Numbers the events from `after` + 1 on. */
  events(thread: string, after: number, events: readonly EventText[], now: number): void;
  insert(text: ThreadText, parent: Parent | undefined, birth: string | null, now: number): void;
}

export interface Parent {
  id: string;
  root: string;
  depth: number;
  chain: readonly string[];
}

export const taken = (id: string): Outcome<never> =>
  fail('thread_exists', `thread \`${id}\` exists already`, { thread: id });

/** What a birth writes about lease and queue. */
function startOf(start: NewThread['start'], now: number) {
  if ('lease' in start) {
    const { owner, ttlMs } = start.lease;
    const until = now + Math.min(ttlMs, MAX_LEASE_MS);
    return { status: 'running', epoch: 1, owner, until, queued: null, priority: 0 } as const;
  }
  const { priority = 0, after = now } = start.queue;
  return {
    status: 'spawning',
    epoch: 0,
    owner: null,
    until: null,
    queued: after,
    priority,
  } as const;
}

export function createThreadRows(
  connection: Connection,
  held: HeldThreads,
  ledger: LedgerRows,
): ThreadRows {
  function toRow(row: FoundRow): ThreadRow {
    const { chain: text, limits, inputs, result, wakes: _, heard: _1, ...summary } = row;
    const chain: string[] = JSON.parse(text);
    const revoked = held.revokedIn(chain);
    return {
      ...toSummary(summary),
      chain,
      limits: JSON.parse(limits),
      inputs: JSON.parse(inputs),
      ...(result === null ? {} : { result: JSON.parse(result) }),
      ...(revoked === undefined ? {} : { revoked }),
    };
  }

  function events(thread: string, after: number, list: readonly EventText[], now: number): void {
    const [only] = list;
    if (list.length === 1 && only) {
      const { ts = now, turn, type, text } = only;
      connection.run(ONE_EVENT, thread, after + 1, ts, turn, type, text);
      return;
    }
    for (let at = 0; at < list.length; at += MANY) {
      const part = list.slice(at, at + MANY);
      const values = part.flatMap(({ ts = now, turn, type, text }, index) => [
        thread,
        after + at + index + 1,
        ts,
        turn,
        type,
        text,
      ]);
      connection.run(SOME_EVENTS[part.length] ?? '', ...values);
    }
  }

  return {
    events,
    find(id) {
      const row = connection.get<FoundRow>(FIND, id);
      return row ? ok(toRow(row)) : noThread(id);
    },
    hold(id, now, effects) {
      const row = connection.get<FoundRow>(FIND, id);
      if (!row) return noThread(id);
      const { heard, wakes } = row;
      const found = toRow(row);
      const { epoch, chain, lease_until } = found;
      if (lease_until !== undefined) {
        effects.after(() => void held.add(id, { epoch, chain, heard, wakes }));
      }
      const lease_ms = lease_until === undefined ? 0 : lease_until - now;
      return ok({ thread: id, epoch, row: found, heard, lease_ms, open: ledger.openOf(id) });
    },
    chainOf(id) {
      const sql = 'SELECT chain FROM thread_data WHERE thread = ?';
      const row = connection.get<{ chain: string }>(sql, id);
      return row && JSON.parse(row.chain);
    },
    isTaken: (id) => connection.get('SELECT 1 FROM budgets WHERE thread = ?', id) !== undefined,
    insert({ thread, events: first, limits, inputs }, parent, birth, now) {
      const { id, kind = 'thread', directive, version, runner, project, detached = false } = thread;
      const { status, epoch, owner, until, queued, priority } = startOf(thread.start, now);
      const depth = parent ? parent.depth + (kind === 'hook' ? 0 : 1) : 0;
      const chain = JSON.stringify([id, ...(parent?.chain ?? [])]);
      const born = { type: 'status', turn: 0, ts: now, text: JSON.stringify({ status }) };
      // biome-ignore format: one line a group, in the order of the columns
      connection.run(
        INSERT, id, parent?.id ?? null, parent?.root ?? id, depth, kind, directive, version, runner, project,
        detached ? 1 : 0, status, first.length + 1, epoch, 1, owner, until, now, now, null, '{}', queued, priority,
      );
      connection.run(INSERT_DATA, id, chain, limits, inputs, birth);
      ledger.open(id, thread.budget);
      events(id, 0, [born, ...first], now);
    },
  };
}
