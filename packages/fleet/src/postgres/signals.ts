// Sends and reads signals of people and threads to a thread. A signal raises `wakes` of the thread and gets this
// number (`km_signal`), so the numbers of one thread have no gaps. A thread without a lease is queued in the same
// transaction, with its job, so no signal is lost.
import { fail } from '@kernmantle/core/base';
import type { AuditEntry, NewSignal, Signal, Signals } from '@kernmantle/core/store';
import { encodeSignal, noThread, signalPayload, type ThreadStatus } from '@kernmantle/core/store';
import type { Sql } from './connection.ts';
import { RefusedWrite } from './errors.ts';
import type { ServerRegistry } from './registry.ts';
import { auditRowsOf } from './rows.ts';

const MAX_READ = 1000;
const COLUMNS = 's.thread, s.number, s.kind, s.payload, s.key, s.sender AS "by", s.ts';
const AFTER = `SELECT ${COLUMNS} FROM signals s WHERE thread = $1 AND number > $2
  ORDER BY number LIMIT ${MAX_READ}`;
const AFTER_EACH = `SELECT ${COLUMNS} FROM unnest($1::text[], $2::int[]) AS w(thread, after)
  JOIN signals s ON s.thread = w.thread AND s.number > w.after ORDER BY s.thread, s.number`;
const SEND = 'SELECT * FROM km_signal($1, $2, $3, $4, $5, km_now())';

export type SignalColumns = Omit<Signal, 'payload'> & { payload: string };

export const signalOf = (row: SignalColumns): Signal => ({
  ...row,
  payload: signalPayload(row.payload, row.number, row.kind),
});

/** Returns at most 1,000 signals after a number, oldest first. */
export const signalsAfter = async (sql: Sql, thread: string, after: number): Promise<Signal[]> =>
  (await sql.all<SignalColumns>(AFTER, thread, after)).map(signalOf);

/** Returns the signals of several threads, each after its own number. */
export async function signalsOfEach(
  sql: Sql,
  cursors: readonly (readonly [thread: string, after: number])[],
): Promise<Map<string, Signal[]>> {
  const result = new Map<string, Signal[]>();
  if (cursors.length === 0) return result;
  const [threads, numbers] = [cursors.map(([thread]) => thread), cursors.map(([, after]) => after)];
  for (const row of await sql.all<SignalColumns>(AFTER_EACH, threads, numbers)) {
    const signals = result.get(row.thread) ?? [];
    signals.push(signalOf(row));
    result.set(row.thread, signals);
  }
  return result;
}

async function send(
  { database, jobs }: ServerRegistry,
  signal: NewSignal,
  audit: AuditEntry | undefined,
): ReturnType<Signals['signal']> {
  const text = encodeSignal(signal);
  if (!text.ok) return text;
  const { thread, kind, text: payload, key, by } = text.output;
  // A signal with a stored key is not written again, so the write can be repeated.
  return database.write(
    async (sql) => {
      type Sent = { o_number: number | null; o_status: ThreadStatus | null };
      const sent = await sql.get<Sent>(SEND, thread, kind, payload, key, by);
      const { o_number: number = null, o_status: status = null } = sent ?? {};
      if (status === null) throw new RefusedWrite(noThread(thread));
      if (number === null) {
        const message = `thread \`${thread}\` has ended (${status}) and cannot get signal \`${kind}\``;
        throw new RefusedWrite(fail('thread_ended', message, { thread, status }));
      }
      await jobs.follow(sql, [thread]);
      if (audit) {
        await sql.all('SELECT km_audit($1, km_now())', JSON.stringify(auditRowsOf([audit])));
      }
      return { number };
    },
    { lane: thread },
  );
}

/** Returns the port without `onSignal`, which the feed has. */
export function serverSignals(registry: ServerRegistry): Omit<Signals, 'onSignal'> {
  return {
    signal: (signal, audit) => send(registry, signal, audit),
    signals: (thread, after = 0) =>
      registry.database.read((sql) => signalsAfter(sql, thread, after)),
  };
}
