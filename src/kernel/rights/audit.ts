// One row for every call and every denial. Append-only, a row a line, written with
// one write each, so that several processes can share the file and a torn line loses one row only.
import { closeSync, fstatSync, readSync } from 'node:fs';
import {
  type Clock,
  createLooks,
  errnoOf,
  fail,
  getOwn,
  isObject,
  messageOf,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import { createRecordFile, openRecords, type RecordEntry } from '../../flow/index.ts';

export interface AuditRow {
  time: string;
  surface: string;
  caller: string;
  /** Hash of the token, or the policy that answered. */
  subject: string;
  operation: string;
  decision: 'allowed' | 'denied' | 'failed';
  reason: string;
}

export interface Audit {
  /** Could a row be written, 20 ms ago at most? Asked before anything is done that would need one. */
  ready(): Outcome<null>;
  write(row: Omit<AuditRow, 'time'>): Outcome<null>;
  /** The latest rows, oldest first. */
  read(limit: number, only?: AuditRow['decision']): Outcome<AuditRow[]>;
  /** Gives back what it holds open; a later row opens it again. */
  close?(): void;
}

/** The row of one attempt at an operation. */
export function auditRow(
  { op, outcome }: RecordEntry,
  who: Pick<AuditRow, 'surface' | 'caller' | 'subject'>,
): Omit<AuditRow, 'time'> {
  const operation = `${op.type}:${op.target ?? op.name}`;
  if (outcome.ok) return { ...who, operation, decision: 'allowed', reason: '' };
  const { code, detail } = outcome.error;
  const decision = code === 'permission_denied' ? 'denied' : 'failed';
  return { ...who, operation, decision, reason: `${code}: ${detail.message}` };
}

const MAX_TEXT = 500;
/** How far back reading goes: enough for thousands of rows, whatever the file's size. */
const MAX_READ = 8 * 1024 * 1024;

const short = (text: string): string =>
  text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;

function tail(file: string): string {
  const handle = openRecords(file);
  try {
    const { size } = fstatSync(handle);
    const buffer = Buffer.alloc(Math.min(size, MAX_READ));
    const count = readSync(handle, buffer, 0, buffer.length, size - buffer.length);
    const text = buffer.toString('utf8', 0, count);
    return size > buffer.length ? text.slice(text.indexOf('\n') + 1) : text;
  } finally {
    closeSync(handle);
  }
}

function rowOf(line: string): AuditRow | undefined {
  const parsed = parseJson(line);
  if (!parsed.ok || !isObject(parsed.output)) return undefined;
  return typeof getOwn(parsed.output, 'operation') === 'string'
    ? (parsed.output as unknown as AuditRow)
    : undefined;
}

export function createAudit(file: string, clock: Clock): Audit {
  const records = createRecordFile(file);
  const looks = createLooks(clock);
  const refuse = (error: unknown) =>
    fail('internal_error', `the audit file \`${file}\` cannot be written: ${messageOf(error)}`);
  return {
    ready() {
      if (looks.isRecent()) return ok(null);
      try {
        records.touch();
        looks.begin();
        return ok(null);
      } catch (error) {
        return refuse(error);
      }
    },
    write({ surface, caller, subject, operation: asked, decision, reason: why }) {
      const time = new Date(clock.now()).toISOString();
      const [operation, reason] = [short(asked), short(why)];
      const row: AuditRow = { time, surface, caller, subject, operation, decision, reason };
      const line = JSON.stringify(row);
      const isLooked = looks.isRecent();
      try {
        if (!isLooked) looks.begin();
        records.append(`${line}\n`, isLooked);
        return ok(null);
      } catch (error) {
        looks.forget();
        return refuse(error);
      }
    },
    read(limit, only) {
      try {
        const rows = tail(file)
          .split('\n')
          .flatMap((line) => rowOf(line) ?? []);
        const wanted = only ? rows.filter((row) => row.decision === only) : rows;
        return ok(wanted.slice(-limit));
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return ok([]);
        return fail(
          'internal_error',
          `the audit file \`${file}\` cannot be read: ${messageOf(error)}`,
        );
      }
    },
    close: () => records.close(),
  };
}
