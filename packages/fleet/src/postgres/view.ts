// Reads the rows from which a commit is decided, from the cache of this process or from the server (`km_view`). A
// cached view can be old. It can decide a write, because `km_write` compares it, and never a refusal.
import type { Failure } from '@kernmantle/core/base';
import {
  type Commit,
  type decide,
  type decideBudgets,
  noThread,
  readAccount,
} from '@kernmantle/core/store';
import type { Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';
import type { VersionedAccount } from './leased-thread.ts';
import type { ServerRegistry } from './registry.ts';

type Fence = Parameters<typeof decide>[0]['fence'];

export interface ServerView {
  readonly fence: Fence;
  readonly chain: readonly string[];
  /** Accounts from the thread up to its root. Empty in a cached view for a commit that changes no account. */
  readonly accounts: readonly VersionedAccount[];
  /** First child whose id is in use. Absent: all ids are free. */
  readonly taken?: string | undefined;
  /** Number of the first secret that is stored with other bytes. Absent: none. */
  readonly secret?: number | undefined;
  readonly isFresh: boolean;
}

/** An account in the JSON of a query. */
export interface AccountColumns {
  thread: string;
  version: number;
  account: string;
}

export const accountOf = ({ thread, version, account }: AccountColumns): VersionedAccount => ({
  account: readAccount(thread, account),
  version,
});

/** Columns of the JSON that `km_view` returns. */
export interface ViewColumns
  extends Pick<Fence, 'seq' | 'epoch' | 'status' | 'wakes' | 'acknowledged'> {
  lease_ms: number | null;
  chain: string[];
  accounts: AccountColumns[];
  taken: string | null;
  secret: number | null;
}

/** Throws `not_found` if the thread does not exist. `now` and the fence are on the clock of this process. */
export function freshView(thread: string, row: ViewColumns | null, now: number): ServerView {
  if (!row) throw new RefusedWrite(noThread(thread));
  const { lease_ms, chain, accounts, taken, secret, ...fence } = row;
  return {
    fence: { ...fence, lease_until: lease_ms === null ? null : now + lease_ms },
    chain,
    accounts: accounts.map(accountOf),
    taken: taken ?? undefined,
    secret: secret ?? undefined,
    isFresh: true,
  };
}

const VIEW = 'SELECT km_view($1, $2) AS view';

/** Reads a view from the server. `more`: JSON of the commit, whose children and secrets are checked. */
export async function readView(
  sql: Sql,
  thread: string,
  more: string | null,
  now: number,
): Promise<ServerView> {
  const row = await sql.get<{ view: ViewColumns | null }>(VIEW, thread, more);
  return freshView(thread, row?.view ?? null, now);
}

/** Returns undefined if a row is not cached. The server compares number, epoch and lease of the thread. */
export function cachedView(
  { held, accounts }: ServerRegistry,
  thread: string,
  { expect, acknowledged = 0 }: Pick<Commit, 'expect' | 'acknowledged'>,
  needsAccounts: boolean,
): ServerView | undefined {
  const lease = held.get(thread);
  if (lease?.row?.seq !== expect.seq || lease.epoch !== expect.epoch) return undefined;
  const { chain, ...row } = lease.row;
  // The server has every signal that arrived here or that the commit acknowledges. `km_write` compares the number.
  const wakes = Math.max(row.wakes, lease.delivered, lease.announced, acknowledged);
  const cached = needsAccounts ? accounts.chain(chain) : [];
  const fence = { ...row, wakes, epoch: lease.epoch, lease_until: Number.POSITIVE_INFINITY };
  return cached && { fence, chain, accounts: cached, isFresh: false };
}

const ELSEWHERE = `SELECT 1 FROM budgets b JOIN threads t ON t.id = b.thread
  WHERE NOT km_ended(t.status) AND b.account -> 'open' @> jsonb_build_array(jsonb_build_object('key', $1::text)) LIMIT 1`;
const BELOW = `SELECT b.thread, b.account::text AS account, t.owner IS NULL OR t.lease_until <= km_now() AS "isLeft"
  FROM threads t JOIN budgets b ON b.thread = t.id WHERE t.root = $1 AND $2 = ANY (t.chain)`;

type BudgetRefusal = Extract<ReturnType<typeof decideBudgets>, { kind: 'refuse' }>;

/** Returns the failure of a refusal. A query makes its message more precise. */
export async function explainRefusal(sql: Sql, refusal: BudgetRefusal): Promise<Failure> {
  switch (refusal.needs) {
    case undefined:
      return refusal.failure;
    case 'is_elsewhere':
      return refusal.explain((await sql.get(ELSEWHERE, refusal.key)) !== undefined);
    case 'accounts_below': {
      type Below = { thread: string; account: string; isLeft: boolean };
      const rows = await sql.all<Below>(BELOW, refusal.root, refusal.thread);
      return refusal.explain(
        rows.map(({ thread, account, isLeft }) => ({ ...readAccount(thread, account), isLeft })),
      );
    }
  }
}
