// One round of the hub: reads changes since the last round once for all clients, and builds frames.
import { isDeepStrictEqual } from 'node:util';
import type { Clock, Outcome } from '@kernmantle/core/base';
import {
  type Approval,
  isEnded,
  type Store,
  type ThreadStatus,
  type ThreadSummary,
} from '@kernmantle/core/store';
import type { ListedApproval, ListedRun, StreamFrame, Topic, Totals } from '../../model/api.ts';
import { createRows } from '../thread/summary-rows.ts';
import { type Changed, createChanged, inPieces } from './changed.ts';
import { createTotals, NO_TOTALS } from './totals.ts';

/** Bound of cached changes, for rows and for approval requests. */
const KEPT = 2000;
const MAX_FRAME = 64 * 1024;
/** Estimated size of a row. It is exact enough to bound the frames. */
const ROW_SIZE = 900;
/** For more threads, one query for all is cheaper than one query per thread. */
const MANY = 4;
const MAX_QUERY = 500;

export interface ReaderPorts {
  readonly store: Store;
  readonly clock: Clock;
  isHere(id: string): boolean;
  listed(approvals: readonly Approval[]): Promise<Outcome<ListedApproval[]>>;
}

/** Changes for the clients of both topics. All clients get the same frame objects. */
export interface Round {
  readonly rows: readonly ListedRun[];
  readonly approvals: readonly ListedApproval[];
  readonly totals: Totals | undefined;
}

const isSame = (a: Totals, b: Totals): boolean =>
  a.waits === b.waits && a.at_work === b.at_work && a.ended === b.ended && a.due === b.due;

/** Frames of a round for these topics. Clients with the same topics share the objects. */
export function roundFrames(round: Round, topics: readonly Topic[]): StreamFrame[] {
  const rows = topics.includes('threads') ? round.rows : [];
  const totals = topics.includes('threads') ? round.totals : undefined;
  const approvals = topics.includes('approvals') ? round.approvals : [];
  const frames: StreamFrame[] = inPieces(rows, () => ROW_SIZE, MAX_FRAME).map((threads) => ({
    kind: 'batch',
    threads,
  }));
  const sizeOf = (one: ListedApproval): number => 500 + JSON.stringify(one.shown).length;
  for (const piece of inPieces(approvals, sizeOf, MAX_FRAME)) {
    frames.push({ kind: 'batch', approvals: piece });
  }
  if (totals === undefined) return frames;
  const last = frames.pop();
  frames.push(last?.kind === 'batch' ? { ...last, totals } : { kind: 'batch', totals });
  return frames;
}

/** Bound of approval requests per poll. */
const MAX_PENDING = 500;

// Polls approval requests, once for all clients. Other processes decide them, and they expire without
// an event, so a poll finds changes by comparison with the previous poll.
function createApprovalPoll(store: Pick<Store, 'approvals'>) {
  let previous: ReadonlyMap<string, Approval> = new Map();
  let list: readonly Approval[] = [];
  /** Uses left of requests that were approved during the watch. A use is also a change. */
  const remaining = new Map<string, number>();

  /** Returns the approval requests of `remaining` that were used since the last poll. */
  async function used(): Promise<Outcome<readonly Approval[]>> {
    if (remaining.size === 0) return { ok: true, output: [] };
    const page = await store.approvals({ state: 'approved', limit: MAX_PENDING });
    if (!page.ok) return page;
    const usesById = new Map(page.output.map(({ id, uses }) => [id, uses]));
    const changed: Approval[] = [];
    for (const [id, uses] of remaining) {
      if (usesById.get(id) === uses) continue;
      const now = await store.approvals({ id });
      if (!now.ok) return now;
      changed.push(...now.output.filter((one) => one.state !== 'approved' || one.uses !== uses));
    }
    return { ok: true, output: changed };
  }

  function noteApproved(changed: readonly Approval[]): void {
    for (const { id, state, uses } of changed) {
      remaining.delete(id);
      if (state === 'approved') remaining.set(id, uses);
    }
    for (const id of remaining.keys()) if (remaining.size > MAX_PENDING) remaining.delete(id);
  }

  return {
    pending: (): readonly Approval[] => list,

    /** Returns approvals that are new, changed, decided, used or expired since the previous poll. */
    async look(): Promise<Outcome<readonly Approval[]>> {
      const page = await store.approvals({ state: 'pending', limit: MAX_PENDING });
      if (!page.ok) return page;
      list = page.output;
      const now = new Map(list.map((approval) => [approval.id, approval]));
      const uses = await used();
      if (!uses.ok) return uses;
      // An approval with a new `shown` counts as new.
      const isNew = ({ id, shown }: Approval): boolean =>
        !isDeepStrictEqual(previous.get(id)?.shown, shown);
      const changed = [...list.filter(isNew), ...uses.output];
      for (const id of previous.keys()) {
        if (now.has(id)) continue;
        const row = await store.approvals({ id });
        if (!row.ok) return row;
        changed.push(...row.output);
      }
      previous = now;
      noteApproved(changed);
      return { ok: true, output: changed };
    },
  };
}

export function createChangeReader({ store, clock, isHere, listed }: ReaderPorts, from: number) {
  const makeRows = createRows({ store, isHere });
  const counted = createTotals(store, clock);
  const poll = createApprovalPoll(store);
  const changedRows: Changed<ListedRun> = createChanged(KEPT, from);
  const changedApprovals: Changed<ListedApproval> = createChanged(KEPT, from);
  /** Ids of moved threads that are not counted yet. They can be threads of hooks. */
  const unclassified = new Set<string>();
  let lastTotals = NO_TOTALS;

  /** Reads running threads in one query and each of the others alone. */
  async function summaries(
    moved: ReadonlyMap<string, ThreadStatus | undefined>,
  ): Promise<Outcome<ThreadSummary[]>> {
    const byId = new Map<string, ThreadSummary>();
    const open = [...moved.values()].filter((status) => status !== undefined && !isEnded(status));
    if (open.length > MANY) {
      const status = [...new Set(open)].filter((one) => one !== undefined);
      const limit = Math.min(MAX_QUERY, open.length + 20);
      const page = await store.query({ status, order_by: 'updated', limit });
      if (!page.ok) return page;
      for (const row of page.output.rows) if (moved.has(row.id)) byId.set(row.id, row);
    }
    for (const id of moved.keys()) {
      if (byId.has(id)) continue;
      const row = await store.thread(id);
      if (row.ok) byId.set(id, row.output);
      else if (row.error.code !== 'not_found') return row;
    }
    return { ok: true, output: [...byId.values()] };
  }

  return {
    note: makeRows.note,
    rows: (threads: readonly ThreadSummary[]) => makeRows.rows(threads, poll.pending()),
    totals: () => counted.read(poll.pending()),
    /** Changes after a number of the hub. Undefined: the number is too old. */
    rowsSince: changedRows.since,
    approvalsSince: changedApprovals.since,

    /** Counts the new status of a thread immediately. */
    move(id: string, status: ThreadStatus): void {
      if (!counted.move(id, status)) unclassified.add(id);
    },

    /** Reads the first state. Requests that are pending now do not count as changes. */
    async begin(): Promise<Outcome<null>> {
      const first = await poll.look();
      if (!first.ok) return first;
      const totals = await counted.read(poll.pending());
      if (totals.ok) lastTotals = totals.output;
      return totals.ok ? { ok: true, output: null } : totals;
    },

    /** Polls approvals, because they change without a head. */
    async lookAround(): Promise<Outcome<readonly Approval[]>> {
      return await poll.look();
    },

    /** Runs one round. `number`: new number of the hub. `decided`: approval requests that changed. */
    async round(
      moved: ReadonlyMap<string, ThreadStatus>,
      decided: readonly Approval[],
      number: number,
    ): Promise<Outcome<Round>> {
      const statuses = new Map<string, ThreadStatus | undefined>(moved);
      for (const { thread } of decided) {
        if (thread !== undefined && !statuses.has(thread)) statuses.set(thread, undefined);
      }
      for (const id of unclassified) if (!statuses.has(id)) statuses.set(id, undefined);
      unclassified.clear();
      const threads = await summaries(statuses);
      if (!threads.ok) return threads;
      for (const { id, status, kind } of threads.output) counted.move(id, status, kind);
      const rows = await makeRows.rows(threads.output, poll.pending());
      if (!rows.ok) return rows;
      const approvals =
        decided.length === 0 ? { ok: true as const, output: [] } : await listed(decided);
      if (!approvals.ok) return approvals;
      const totals = await counted.read(poll.pending());
      if (!totals.ok) return totals;
      for (const row of rows.output) changedRows.note(row.id, row, number);
      for (const one of approvals.output) changedApprovals.note(one.id, one, number);
      const isNew = !isSame(lastTotals, totals.output);
      lastTotals = totals.output;
      return {
        ok: true,
        output: {
          rows: rows.output,
          approvals: approvals.output,
          totals: isNew ? totals.output : undefined,
        },
      };
    },
  };
}
