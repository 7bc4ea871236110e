// Encrypted bytes of a thread, by number. What they mean is the vault's business.
import { fail, type Outcome, ok } from '../base/index.ts';
import type { Database } from './database.ts';

export interface SealedSecret {
  number: number;
  sealed: Uint8Array;
}

export interface SealedSecrets {
  /** A number is given once: `conflict` else. */
  keep(thread: string, secret: SealedSecret): Outcome<null>;
  load(thread: string): Outcome<SealedSecret[]>;
}

export function createSealedSecrets(database: Database): SealedSecrets {
  return {
    keep(thread, { number, sealed }) {
      // Undone with a transaction around it, a number would be known here and missing in the file.
      if (database.isWriting()) {
        return fail('internal_error', 'secrets are kept before a commit begins, not inside it');
      }
      return database.write(() => {
        const sql = 'INSERT OR IGNORE INTO secrets (thread, number, sealed) VALUES (?, ?, ?)';
        if (database.run(sql, thread, number, sealed) === 1) return ok(null);
        const message = `secret ${number} of thread \`${thread}\` exists already: somebody else holds the thread`;
        return fail('conflict', message, { thread });
      });
    },
    load: (thread) =>
      database.read(() => {
        const sql = 'SELECT number, sealed FROM secrets WHERE thread = ? ORDER BY number';
        return ok(database.all(sql, thread).map((row) => ({ ...row }) as unknown as SealedSecret));
      }),
  };
}
