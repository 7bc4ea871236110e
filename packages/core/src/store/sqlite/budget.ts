// Queries for a refused budget change. They only make the refusal more precise, so they are rare.
import type { Failure } from '../../base/index.ts';
import {
  type Account,
  type BudgetRefusal,
  explainRefusal,
  type ReservationBelow,
} from '../decide.ts';
import type { Accounts } from './account.ts';
import type { Connection } from './file/connection.ts';
import { ENDED } from './file/schema.ts';

const ELSEWHERE = `SELECT 1 FROM threads WHERE status NOT IN (${ENDED}) AND EXISTS
  (SELECT 1 FROM json_each(budget, '$.open') WHERE value ->> 'key' = ?)`;
const TREE = `SELECT id, owner, lease_until, chain FROM threads JOIN thread_data ON thread = id
  WHERE root = ?`;

interface TreeRow {
  id: string;
  owner: string | null;
  lease_until: number | null;
  chain: string;
}

interface Tables {
  connection: Connection;
  accounts: Accounts;
}

/** Yields the open reservations at a thread and below it. `drafts` replace the accounts of the store. */
function* openBelow(
  { connection, accounts }: Tables,
  { root, thread }: { root: string; thread: string },
  drafts: readonly Account[],
  now: number,
): Generator<ReservationBelow> {
  for (const row of connection.all<TreeRow>(TREE, root)) {
    const chain: string[] = JSON.parse(row.chain);
    if (!chain.includes(thread)) continue;
    const isLeft = row.owner === null || (row.lease_until ?? 0) <= now;
    const account = drafts.find((draft) => draft.thread === row.id) ?? accounts.get(row.id);
    for (const one of account?.open ?? []) yield { ...one, isLeft };
  }
}

export function explainBudget(tables: Tables, refusal: BudgetRefusal, now: number): Failure {
  switch (refusal.facts) {
    case undefined:
      return explainRefusal(refusal);
    case 'reservation_elsewhere': {
      const isElsewhere = tables.connection.get(ELSEWHERE, refusal.key) !== undefined;
      return explainRefusal({ ...refusal, isElsewhere });
    }
    case 'standing': {
      const open = openBelow(tables, refusal, refusal.accounts, now);
      return explainRefusal({ ...refusal, open });
    }
  }
}
