// Writes one row for every call and every denial. The file is append-only with one row per line and one
// write per row, so that several processes can share it and a torn line loses only one row.
import { closeSync, fstatSync, readSync } from 'node:fs';
import {
  type Clock,
  createFreshness,
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
  /** Surface of the call: `cli`, `mcp`, `library`, `script`, `thread` or `harness`. */
  surface: string;
  /** The caller: the id of a thread, or the name of a person, a client or a program. */
  caller: string;
  /** Hash of the token, the policy that answered, or `person`. */
  subject: string;
  operation: string;
  /** Target of the operation: a path, a host or an id. */
  target: string;
  decision: 'allowed' | 'denied' | 'failed';
  reason: string;
}

/** Selects the newest rows that match. `limit` is their maximum number. */
export interface AuditFilter {
  limit: number;
  decision?: AuditRow['decision'];
  surface?: string;
  /** Selects rows by this thread or about it. Absent: rows of any thread. */
  thread?: string;
  /** Id of the tool, or the part after its last slash. */
  tool?: string;
  /** Selects rows from this time on, in the form of `AuditRow.time`. Absent: rows of any time. */
  since?: string;
}

export interface Audit {
  /** Checks that a row can be written; the result may be 20 ms old. Called before an effect that needs a row. */
  ready(): Outcome<null>;
  write(row: Omit<AuditRow, 'time'>): Outcome<null>;
  /** Returns matching rows, oldest first. The memory depends on the matches, not on the length of the file. */
  read(filter: AuditFilter): Outcome<AuditRow[]>;
  /** Settles when all rows so far are sent, or written to the file. Absent: rows are written at once. */
  kept?(): Promise<Outcome<null>>;
  /** Closes the file. A later row opens it again. */
  close?(): void;
}

type NewRow = Omit<AuditRow, 'time'>;
const MAX_SENT = 500;

/** Returns the host of a URL, because its path may contain a key. */
const hostOf = (text: string): string => (URL.canParse(text) ? new URL(text).host : '') || text;

/** Names of arguments that identify a target but have no role. */
const IDS: ReadonlySet<string> = new Set(['thread_id', 'directive_name', 'item_id']);

/** Returns the target of a call, from its arguments or else from the operation. */
export function callTarget({
  op,
  arguments: values,
}: Pick<RecordEntry, 'op' | 'arguments'>): string {
  const places: string[] = [];
  for (const { name, role, value } of values) {
    if (role === undefined ? !IDS.has(name) : role === 'content') continue;
    const text = value.text;
    if (role === 'destination') places.push(hostOf(text));
    else places.push(role === 'command' ? (/^\s*\S+/.exec(text)?.[0].trim() ?? '') : text);
  }
  if (places.length > 0) return places.join(' ');
  const host = op.metadata?.host;
  return typeof host === 'string' ? host : '';
}

/** Names the exceptions to policies and the guards that made them. Empty if there were none. */
export const exemptionsIn = ({ trace }: Pick<RecordEntry, 'trace'>): string =>
  trace
    .filter(({ decision }) => decision === 'lift')
    .map(({ guardName, reason }) => `${guardName} lifted ${reason ?? ''}`)
    .join('; ');

export function auditRow(
  entry: RecordEntry,
  who: Pick<AuditRow, 'surface' | 'caller' | 'subject'>,
): Omit<AuditRow, 'time'> {
  const { op, outcome } = entry;
  // If both are present, the name is the operation and the target its object.
  const { type, name, target = '' } = op;
  const isNamed = target !== '' && name !== type && name !== target;
  const operation = `${type}:${isNamed || target === '' ? name : target}`;
  const about = { ...who, operation, target: isNamed ? target : callTarget(entry) };
  if (outcome.ok) {
    const reason = entry.trace.length === 0 ? '' : exemptionsIn(entry);
    return { ...about, decision: 'allowed', reason };
  }
  const { code, detail } = outcome.error;
  const decision = code === 'permission_denied' ? 'denied' : 'failed';
  return { ...about, decision, reason: `${code}: ${detail.message}` };
}

const MAX_TEXT = 500;
const BLOCK = 256 * 1024;
/** Maximum length of a row. Of a longer line only the end is kept while its beginning is searched. */
const MAX_LINE = 64 * 1024;
/** Maximum number of returned rows, the same as for the registry. */
const MAX_ROWS = 100_000;

const short = (text: string): string =>
  text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;

/** Yields whole lines from the end of a file to its beginning, one block at a time. */
function* linesFromEnd(handle: number): Generator<string> {
  const block = Buffer.alloc(BLOCK);
  let rest: Buffer = Buffer.alloc(0);
  for (let end = fstatSync(handle).size; end > 0; ) {
    const from = Math.max(0, end - BLOCK);
    const count = readSync(handle, block, 0, end - from, from);
    end = from;
    // Another process may have truncated the file during the reading.
    let text = Buffer.concat([block.subarray(0, count), rest]);
    for (let at = text.lastIndexOf(10); at !== -1; at = text.lastIndexOf(10)) {
      yield text.toString('utf8', at + 1);
      text = text.subarray(0, at);
    }
    rest = text.subarray(Math.max(0, text.length - MAX_LINE));
  }
  yield rest.toString('utf8');
}

const TEXTS = ['time', 'surface', 'caller', 'subject', 'operation', 'target', 'reason'] as const;
const DECISIONS: readonly unknown[] = [
  'allowed',
  'denied',
  'failed',
] satisfies AuditRow['decision'][];

const BEGINS = '{"time":';

/**
 * Returns a row. Undefined for a line that is not a row. Older rows have no target. A row that follows a
 * torn row on the same line is returned.
 */
function rowOf(line: string): AuditRow | undefined {
  const at = line.lastIndexOf(BEGINS);
  if (at === -1) return undefined;
  const parsed = parseJson(at === 0 ? line : line.slice(at));
  if (!parsed.ok || !isObject(parsed.output)) return undefined;
  const row = { target: '', ...parsed.output };
  if (!DECISIONS.includes(getOwn(row, 'decision'))) return undefined;
  return TEXTS.every((name) => typeof getOwn(row, name) === 'string')
    ? (row as unknown as AuditRow)
    : undefined;
}

const isTool = (operation: string, tool: string): boolean =>
  operation.startsWith('tool:') && `/${operation.slice(5)}`.endsWith(`/${tool}`);

const fits = (row: AuditRow, { decision, surface, thread, tool, since }: AuditFilter): boolean =>
  (decision === undefined || row.decision === decision) &&
  (surface === undefined || row.surface === surface) &&
  (thread === undefined || row.caller === thread || row.target === thread) &&
  (tool === undefined || isTool(row.operation, tool)) &&
  (since === undefined || row.time >= since);

/** Returns texts that every matching row contains in the file, so that most rows need no parsing. */
function tracesOf({ decision, surface, thread, tool }: AuditFilter): string[] {
  const asWritten = (text: string): string => JSON.stringify(text).slice(1, -1);
  return [
    ...(decision === undefined ? [] : [`"decision":"${decision}"`]),
    ...(surface === undefined ? [] : [`"surface":"${asWritten(surface)}"`]),
    ...(thread === undefined ? [] : [`"${asWritten(thread)}"`]),
    ...(tool === undefined ? [] : [`${asWritten(tool)}"`]),
  ];
}

/** Compares the beginning of the line. A line with another beginning is parsed first. */
const isOlder = (line: string, since: string | undefined): boolean =>
  since !== undefined && line.startsWith(BEGINS) && line.slice(BEGINS.length + 1) < since;

function readRows(file: string, filter: AuditFilter): AuditRow[] {
  const handle = openRecords(file);
  const limit = Math.min(filter.limit, MAX_ROWS);
  const rows: AuditRow[] = [];
  const traces = tracesOf(filter);
  try {
    for (const line of linesFromEnd(handle)) {
      if (rows.length >= limit) break;
      if (!traces.every((trace) => line.includes(trace)) || isOlder(line, filter.since)) continue;
      const row = rowOf(line);
      if (row && fits(row, filter)) rows.push(row);
    }
    return rows.reverse();
  } finally {
    closeSync(handle);
  }
}

export function createAudit(file: string, clock: Clock): Audit {
  const records = createRecordFile(file);
  const freshness = createFreshness(clock);
  const refuse = (error: unknown) =>
    fail('internal_error', `the audit file \`${file}\` cannot be written: ${messageOf(error)}`);
  return {
    ready() {
      if (freshness.isRecent()) return ok(null);
      try {
        records.touch();
        freshness.begin();
        return ok(null);
      } catch (error) {
        return refuse(error);
      }
    },
    write({
      surface,
      caller,
      subject,
      operation: fullOperation,
      target: place,
      decision,
      reason: why,
    }) {
      const time = new Date(clock.now()).toISOString();
      const [operation, target, reason] = [short(fullOperation), short(place), short(why)];
      const row: AuditRow = { time, surface, caller, subject, operation, target, decision, reason };
      const line = JSON.stringify(row);
      const isChecked = freshness.isRecent();
      try {
        if (!isChecked) freshness.begin();
        records.append(`${line}\n`, isChecked);
        return ok(null);
      } catch (error) {
        freshness.forget();
        return refuse(error);
      }
    },
    read(filter) {
      try {
        return ok(readRows(file, filter));
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return ok([]);
        return fail(
          'internal_error',
          `the audit file \`${file}\` cannot be read: ${messageOf(error)}; make it a file that you may read`,
        );
      }
    },
    close: () => records.close(),
  };
}

/** True for rows about keys and trust, which belong to the user and not to a project. */
export const isOfUser = ({
  subject,
  operation,
}: Pick<AuditRow, 'subject' | 'operation'>): boolean =>
  subject === 'person' && /^(?:keys|trust)(?::|$)/.test(operation);

/**
 * Adds the user's own audit to that of a project. Rows of the user are written to it and read with the others.
 */
export function withUserAudit(project: Audit, user: Audit): Audit {
  return {
    ...project,
    write: (row) => (isOfUser(row) ? user : project).write(row),
    read(filter) {
      const [rows, own] = [project.read(filter), user.read(filter)];
      if (!rows.ok || !own.ok) return rows.ok ? own : rows;
      const all = [...rows.output, ...own.output];
      const byTime = all.toSorted((a, b) => Number(a.time > b.time) - Number(a.time < b.time));
      return ok(byTime.slice(-filter.limit));
    },
    close() {
      project.close?.();
      user.close?.();
    },
  };
}

/** Sends rows with `send`, in order. Rows that do not arrive are written to the file. */
export function forwardAudit(
  file: Audit,
  send: (rows: readonly NewRow[]) => Promise<Outcome<unknown>>,
): Audit {
  let waiting: NewRow[] = [];
  let sending: Promise<Outcome<null>> | undefined;

  /** A row whose arrival is unknown is written to the file, so it may exist twice but is never lost. */
  async function sendAll(): Promise<Outcome<null>> {
    let stored: Outcome<null> = ok(null);
    while (waiting.length > 0) {
      const rows = waiting.slice(0, MAX_SENT);
      waiting = waiting.slice(MAX_SENT);
      const sent = await send(rows);
      for (const row of sent.ok ? [] : rows) {
        const written = file.write(row);
        if (!written.ok) stored = written;
      }
    }
    sending = undefined;
    return stored;
  }

  return {
    ...file,
    write({ operation, target, reason, ...row }) {
      const about = { operation: short(operation), target: short(target), reason: short(reason) };
      waiting.push({ ...row, ...about });
      // Rows of the same turn of the event loop are sent together.
      sending ??= Promise.resolve().then(sendAll);
      return ok(null);
    },
    kept: () => sending ?? Promise.resolve(ok(null)),
  };
}
