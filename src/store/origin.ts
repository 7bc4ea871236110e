// A registry steers: it says which threads to resume and what people approved. One that came with a
// stranger's project must not. So the file carries a proof that it was made with this user's key.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { fail, type Outcome, ok, type RandomBytes } from '../base/index.ts';
import type { Database } from './database.ts';

const proofOf = (identity: Uint8Array, id: string): string =>
  createHmac('sha256', identity).update(`kernmantle registry ${id}`).digest('hex');

function read(database: Database, name: string): string {
  const row = database.get('SELECT value FROM about WHERE name = ?', name);
  return typeof row?.['value'] === 'string' ? row['value'] : '';
}

function sign(database: Database, identity: Uint8Array, random: RandomBytes): Outcome<null> {
  const id = Buffer.from(random(16)).toString('hex');
  const sql = 'INSERT INTO about (name, value) VALUES (?, ?)';
  database.run(sql, 'id', id);
  database.run(sql, 'proof', proofOf(identity, id));
  return ok(null);
}

/** Signs a registry that is still empty; `store_foreign` for one that somebody else made. */
export function checkOwner(
  database: Database,
  file: string,
  identity: Uint8Array,
  random: RandomBytes,
): Outcome<null> {
  return database.write(() => {
    const isEmpty =
      !database.get('SELECT 1 FROM about') &&
      !database.get('SELECT 1 FROM budgets') &&
      !database.get('SELECT 1 FROM threads') &&
      !database.get('SELECT 1 FROM approvals');
    if (isEmpty) return sign(database, identity, random);
    const wanted = Buffer.from(proofOf(identity, read(database, 'id')));
    const found = Buffer.from(read(database, 'proof'));
    if (found.length === wanted.length && timingSafeEqual(found, wanted)) return ok(null);
    return fail(
      'store_foreign',
      `the registry \`${file}\` was not made by you on this machine, so its threads and approvals count for nothing; move it away and start a new one`,
      { file },
    );
  });
}
