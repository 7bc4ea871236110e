// The rows that a commit is decided on: from the cache of this process, or from the server (`km_view`). A
// cached view can be old. It is enough to write, because `km_write` compares it, and never to refuse.
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
  /** The thread first, its root last. Empty in a cached view for a commit that changes no account. */
  readonly accounts: readonly VersionedAccount[];
  /** The first child whose id is in use. */
  readonly taken?: string | undefined;
  /** The first secret that is stored with other bytes. */
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

/** The JSON that `km_view` returns. */
export interface ViewColumns extends Pick<Fence, 'seq' | 'epoch' | 'status' | 'wakes' | 'heard'> {
  lease_ms: number | null;
  chain: string[];
  accounts: AccountColumns[];
  taken: string | null;
  secret: number | null;
}

/** Fails with `not_found` if there are no rows. `now`: by the clock of this process, as the fence then is. */
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

/** `more`: the JSON of the commit, whose children and secrets are looked up. */
export async function readView(
  sql: Sql,
  thread: string,
  more: string | null,
  now: number,
): Promise<ServerView> {
  const row = await sql.get<{ view: ViewColumns | null }>(VIEW, thread, more);
  return freshView(thread, row?.view ?? null, now);
}

/** Undefined: something is not cached. The server compares number, epoch and lease of the thread. */
export function cachedView(
  { held, accounts }: ServerRegistry,
  thread: string,
  { expect, heard = 0 }: Pick<Commit, 'expect' | 'heard'>,
  needsAccounts: boolean,
): ServerView | undefined {
  const lease = held.get(thread);
  if (lease?.row?.seq !== expect.seq || lease.epoch !== expect.epoch) return undefined;
  const { chain, ...row } = lease.row;
  // A signal that arrived here, or that the commit acknowledges, is on the server as well. `km_write` compares it.
  const wakes = Math.max(row.wakes, lease.told, lease.announced, heard);
  const found = needsAccounts ? accounts.chain(chain) : [];
  const fence = { ...row, wakes, epoch: lease.epoch, lease_until: Number.POSITIVE_INFINITY };
  return found && { fence, chain, accounts: found, isFresh: false };
}

const ELSEWHERE = `SELECT 1 FROM budgets b JOIN threads t ON t.id = b.thread
  WHERE NOT km_ended(t.status) AND b.account -> 'open' @> jsonb_build_array(jsonb_build_object('key', $1::text)) LIMIT 1`;
const BELOW = `SELECT b.thread, b.account::text AS account, t.owner IS NULL OR t.lease_until <= km_now() AS "isLeft"
  FROM threads t JOIN budgets b ON b.thread = t.id WHERE t.root = $1 AND $2 = ANY (t.chain)`;

type BudgetRefusal = Extract<ReturnType<typeof decideBudgets>, { kind: 'refuse' }>;

/** Reports a refusal. The queries only make it more precise. */
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
