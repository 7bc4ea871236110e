// Encrypted bytes of a thread, by number. What they mean is the vault's business.
import { type Outcome, ok } from '../base/index.ts';
import type { Database } from './database.ts';

export interface SealedSecret {
  number: number;
  sealed: Uint8Array;
}

export interface SealedSecrets {
  keep(thread: string, secret: SealedSecret): Outcome<null>;
  load(thread: string): Outcome<SealedSecret[]>;
}

export function createSealedSecrets(database: Database): SealedSecrets {
  return {
    keep: (thread, { number, sealed }) =>
      database.write(() => {
        const sql = 'INSERT INTO secrets (thread, number, sealed) VALUES (?, ?, ?)';
        database.run(sql, thread, number, sealed);
        return ok(null);
      }),
    load: (thread) =>
      database.read(() => {
        const sql = 'SELECT number, sealed FROM secrets WHERE thread = ? ORDER BY number';
        return ok(database.all(sql, thread).map((row) => ({ ...row }) as unknown as SealedSecret));
      }),
  };
}
