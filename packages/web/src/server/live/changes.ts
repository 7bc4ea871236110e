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

/** Bound of remembered changes, for rows and for approvals. */
const KEPT = 2000;
const MAX_FRAME = 64 * 1024;
/** A row without its meters' origins; close enough to keep frames short. */
const ROW_SIZE = 900;
/** From this number on, one query for all is cheaper than one per thread. */
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

// Polls pending approvals, once for all clients. Other processes create and decide approvals
// outside of threads, and approvals expire without an event. So changes are found by comparison
// with the previous poll.
/** More than a person can look at. */
const MAX_PENDING = 500;

function createAsked(store: Pick<Store, 'approvals'>) {
  let known: ReadonlyMap<string, Approval> = new Map();
  let list: readonly Approval[] = [];
  /** Remaining uses of approvals that were approved during the watch. A use is a change, too. */
  const given = new Map<string, number>();

  /** Returns the approvals of `given` that were used since. */
  async function used(): Promise<Outcome<readonly Approval[]>> {
    if (given.size === 0) return { ok: true, output: [] };
    const found = await store.approvals({ state: 'approved', limit: MAX_PENDING });
    if (!found.ok) return found;
    const left = new Map(found.output.map(({ id, uses }) => [id, uses]));
    const changed: Approval[] = [];
    for (const [id, uses] of given) {
      if (left.get(id) === uses) continue;
      const now = await store.approvals({ id });
      if (!now.ok) return now;
      changed.push(...now.output.filter((one) => one.state !== 'approved' || one.uses !== uses));
    }
    return { ok: true, output: changed };
  }

  function noteGiven(changed: readonly Approval[]): void {
    for (const { id, state, uses } of changed) {
      given.delete(id);
      if (state === 'approved') given.set(id, uses);
    }
    for (const id of given.keys()) if (given.size > MAX_PENDING) given.delete(id);
  }

  return {
    pending: (): readonly Approval[] => list,

    /** Returns approvals that are new, changed, decided, used or expired since the previous poll. */
    async look(): Promise<Outcome<readonly Approval[]>> {
      const found = await store.approvals({ state: 'pending', limit: MAX_PENDING });
      if (!found.ok) return found;
      list = found.output;
      const now = new Map(list.map((approval) => [approval.id, approval]));
      const uses = await used();
      if (!uses.ok) return uses;
      // An approval with a new `shown` counts as new.
      const isNew = ({ id, shown }: Approval): boolean =>
        !isDeepStrictEqual(known.get(id)?.shown, shown);
      const changed = [...list.filter(isNew), ...uses.output];
      for (const id of known.keys()) {
        if (now.has(id)) continue;
        const gone = await store.approvals({ id });
        if (!gone.ok) return gone;
        changed.push(...gone.output);
      }
      known = now;
      noteGiven(changed);
      return { ok: true, output: changed };
    },
  };
}

export function createChangeReader({ store, clock, isHere, listed }: ReaderPorts, from: number) {
  const makeRows = createRows({ store, isHere });
  const counted = createTotals(store, clock);
  const asked = createAsked(store);
  const changedRows: Changed<ListedRun> = createChanged(KEPT, from);
  const changedApprovals: Changed<ListedApproval> = createChanged(KEPT, from);
  /** Heads of threads that may be threads of hooks. */
  const strangers = new Set<string>();
  let told = NO_TOTALS;

  /** Reads running threads in one query and each of the others alone. */
  async function summaries(
    moved: ReadonlyMap<string, ThreadStatus | undefined>,
  ): Promise<Outcome<ThreadSummary[]>> {
    const found = new Map<string, ThreadSummary>();
    const open = [...moved.values()].filter((status) => status !== undefined && !isEnded(status));
    if (open.length > MANY) {
      const status = [...new Set(open)].filter((one) => one !== undefined);
      const limit = Math.min(MAX_QUERY, open.length + 20);
      const page = await store.query({ status, order_by: 'updated', limit });
      if (!page.ok) return page;
      for (const row of page.output.rows) if (moved.has(row.id)) found.set(row.id, row);
    }
    for (const id of moved.keys()) {
      if (found.has(id)) continue;
      const row = await store.thread(id);
      if (row.ok) found.set(id, row.output);
      else if (row.error.code !== 'not_found') return row;
    }
    return { ok: true, output: [...found.values()] };
  }

  return {
    note: makeRows.note,
    rows: (threads: readonly ThreadSummary[]) => makeRows.rows(threads, asked.pending()),
    totals: () => counted.read(asked.pending()),
    /** Changes after a number of the hub. Undefined: the number is too old. */
    rowsSince: changedRows.since,
    approvalsSince: changedApprovals.since,

    /** Counts the new status of a thread immediately. */
    move(id: string, status: ThreadStatus): void {
      if (!counted.move(id, status)) strangers.add(id);
    },

    /** Approvals that are pending before the first round are not changes. */
    async begin(): Promise<Outcome<null>> {
      const looked = await asked.look();
      if (!looked.ok) return looked;
      const totals = await counted.read(asked.pending());
      if (totals.ok) told = totals.output;
      return totals.ok ? { ok: true, output: null } : totals;
    },

    /** Polls approvals, because they change without a head. */
    async lookAround(): Promise<Outcome<readonly Approval[]>> {
      return await asked.look();
    },

    /** `number` is that of the hub from now on. `decided`: approvals that changed since the last round. */
    async round(
      moved: ReadonlyMap<string, ThreadStatus>,
      decided: readonly Approval[],
      number: number,
    ): Promise<Outcome<Round>> {
      const wanted = new Map<string, ThreadStatus | undefined>(moved);
      for (const { thread } of decided) {
        if (thread !== undefined && !wanted.has(thread)) wanted.set(thread, undefined);
      }
      for (const id of strangers) if (!wanted.has(id)) wanted.set(id, undefined);
      strangers.clear();
      const found = await summaries(wanted);
      if (!found.ok) return found;
      for (const { id, status, kind } of found.output) counted.move(id, status, kind);
      const rows = await makeRows.rows(found.output, asked.pending());
      if (!rows.ok) return rows;
      const approvals =
        decided.length === 0 ? { ok: true as const, output: [] } : await listed(decided);
      if (!approvals.ok) return approvals;
      const totals = await counted.read(asked.pending());
      if (!totals.ok) return totals;
      for (const row of rows.output) changedRows.note(row.id, row, number);
      for (const one of approvals.output) changedApprovals.note(one.id, one, number);
      const isNew = !isSame(told, totals.output);
      told = totals.output;
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
