// Compares `decide` with the code that the SQLite store used before it, on generated chains.
import { DatabaseSync } from 'node:sqlite';
import { runs } from '@kernmantle/test-support/soak';
import { aThread, bear, begin, makeClock, must } from '@kernmantle/test-support/store-suite/stage';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Amounts } from './amounts.ts';
import { type Account, decideBudgets, explainRefusal } from './decide.ts';
import type { Commit, Reserve } from './port.ts';
import { writeAccount } from './sqlite/account.ts';
import { planBudgets } from './sqlite/budget.ts';
import { createConnection } from './sqlite/file/connection.ts';
import { openSqliteStore } from './sqlite/store.ts';

const CHAIN = ['leaf', 'mid', 'root'];
const KEYS = ['a', 'b', 'c', 'd', 'e'];
const amount = fc.bigInt({ min: 0n, max: 9n });
const limit = fc.bigInt({ min: 10n, max: 60n });
const amounts: fc.Arbitrary<Amounts> = fc.record(
  { tokens: amount, spend: amount },
  { requiredKeys: [] },
);
const key = fc.constantFrom(...KEYS);
const reserve = fc.record(
  {
    key,
    amounts,
    from: key,
    standing: fc.constant(true as const),
    optional: fc.constant(true as const),
  },
  { requiredKeys: ['key', 'amounts'] },
);
const child = fc.record({ limits: amounts, reserve: fc.array(reserve, { maxLength: 2 }) });
interface Change extends Pick<Commit, 'settle' | 'raise' | 'charge' | 'reserve'> {
  at: number;
  child?: { limits: Amounts; reserve: Reserve[] };
}
const at = fc.nat({ max: 2 });
const settle = fc.array(fc.record({ key, actual: amounts }), { maxLength: 2 });
const reserves = fc.array(reserve, { maxLength: 3 });
const all = { at, settle, raise: amounts, charge: amounts, reserve: reserves, child };
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ at, settle }),
  fc.record({ at, reserve: reserves }),
  fc.record({ at, reserve: reserves }),
  fc.record({ at, charge: amounts }),
  fc.record({ at, settle, reserve: reserves }),
  fc.record(all, { requiredKeys: ['at'] }),
);

test('the new code decides as the old code', async () => {
  const database = new DatabaseSync(':memory:');
  const clock = makeClock();
  const connect = () => database;
  const store = must(await openSqliteStore({ file: ':memory:', clock, connect }));
  const root = await begin(store, 'root');
  const mid = await bear(store, root, 'mid');
  await bear(store, mid, 'leaf');
  // The lease of one thread is over, so its reservations are left.
  const now = clock.now();
  database.exec("UPDATE threads SET lease_until = 1 WHERE id = 'mid'");
  const connection = createConnection(database, ':memory:');
  let [written, refused] = [0, 0];
  fc.assert(
    fc.property(
      fc.array(fc.record({ tokens: limit, spend: limit }, { requiredKeys: [] }), {
        minLength: 3,
        maxLength: 3,
      }),
      fc.array(change, { maxLength: 20, size: 'max' }),
      (limits, list) => {
        const accounts = new Map<string, Account>(
          CHAIN.map((thread, at) => [
            thread,
            { thread, limits: limits[at] ?? {}, used: {}, reserved: {}, open: [] },
          ]),
        );
        for (const { at, child: wanted, ...part } of list) {
          const chain = CHAIN.slice(at);
          const children = wanted
            ? [aThread('new', { budget: wanted.limits, reserve: wanted.reserve })]
            : [];
          const given: Pick<Commit, 'settle' | 'raise' | 'charge' | 'reserve'> = part;
          const old = planBudgets({ connection, accounts }, given, chain, children, now);
          const before = chain.flatMap((id) => accounts.get(id) ?? []);
          const decision = decideBudgets(before, { ...given, children });
          if (decision.kind === 'write') {
            written += 1;
            const made = [...decision.accounts, ...decision.children];
            if (!old.ok) throw new Error(old.error.detail.message);
            expect(decision.reserved).toEqual(old.output.reserved);
            const texts = (all: Iterable<[string, Account]>) =>
              Object.fromEntries([...all].map(([id, account]) => [id, writeAccount(account)]));
            const now = texts(made.map((account) => [account.thread, account]));
            const then = texts(
              [...old.output.changed].map(([id, one]) => [id, { ...one, thread: id }]),
            );
            // The old code also wrote accounts that it had copied and not changed.
            const same = texts(accounts);
            expect({ ...same, ...now }).toEqual({ ...same, ...then });
            for (const account of decision.accounts) accounts.set(account.thread, account);
            continue;
          }
          refused += 1;
          if (decision.facts === 'signals') throw new Error('there is no fence here');
          const isLeft = (id: string) => id === 'mid';
          const drafts = new Map([
            ...accounts,
            ...(decision.facts === 'standing' ? decision.accounts : []).map(
              (account) => [account.thread, account] as const,
            ),
          ]);
          const below =
            decision.facts === 'standing'
              ? CHAIN.slice(0, CHAIN.indexOf(decision.thread) + 1).flatMap((id) =>
                  (drafts.get(id)?.open ?? []).map((one) => ({ ...one, isLeft: isLeft(id) })),
                )
              : [];
          const failure = explainRefusal(
            decision.facts === 'standing'
              ? { ...decision, open: below }
              : decision.facts === 'reservation_elsewhere'
                ? { ...decision, isElsewhere: false }
                : decision,
          );
          expect(failure).toEqual(old);
        }
      },
    ),
    { numRuns: runs(1000) },
  );
  expect(Math.min(written, refused)).toBeGreaterThan(100);
  await store.close();
});
