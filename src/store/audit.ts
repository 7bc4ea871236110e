// The audit of what happens in threads: the same port and rows as the kernel's, in the registry.
import { type Clock, ok } from '../base/index.ts';
import type { Audit, AuditRow } from '../kernel/index.ts';
import type { Database } from './database/database.ts';

const MAX_TEXT = 500;
const MAX_READ = 10_000;
const COLUMNS = 'time, surface, caller, subject, operation, decision, reason';

const short = (text: string): string =>
  text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;

export function createStoreAudit(database: Database, clock: Clock): Audit {
  return {
    // Taking the writer's place shows it: a file that cannot be written refuses that already.
    ready: () => database.write(() => ok(null)),
    write: ({ surface, caller, subject, operation, decision, reason }) =>
      database.write(() => {
        const time = new Date(clock.now()).toISOString();
        const sql = `INSERT INTO audit (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`;
        database.run(
          sql,
          time,
          surface,
          caller,
          subject,
          short(operation),
          decision,
          short(reason),
        );
        return ok(null);
      }),
    read: (limit, only) =>
      database.read(() => {
        const count = Math.max(0, Math.min(limit, MAX_READ));
        const where = only === undefined ? '' : 'WHERE decision = ?';
        const sql = `SELECT ${COLUMNS} FROM audit ${where} ORDER BY id DESC LIMIT ?`;
        const rows = only === undefined ? database.all(sql, count) : database.all(sql, only, count);
        return ok(rows.reverse().map((row) => ({ ...row }) as unknown as AuditRow));
      }),
  };
}
