// Defines the rows of memory and the rules of their changes. Both stores read the row and the use of its place, ask
// `decideMemory` and write the answer, all in one transaction. INVARIANT: a row never loses a mark.
import { createHash } from 'node:crypto';
import { type Failure, fail, type Outcome, ok, parseJson, textAt, textsAt } from '../base/index.ts';
import type { Answer } from './port.ts';

export const MEMORY_SCOPES = ['project', 'directive', 'user'] as const;
export type MemoryScope = (typeof MEMORY_SCOPES)[number];
/** Bounds of one place. Bytes count texts, subjects and marks. */
export const MEMORY_BOUNDS = { characters: 2000, rows: 2000, bytes: 2 * 1024 * 1024 } as const;

/** The rows that one writer can reach. `project` is empty in the scope `user`, `owner` names the directive. */
export interface MemoryPlace {
  readonly tenant: string;
  readonly project: string;
  readonly scope: MemoryScope;
  readonly owner: string;
}

export interface MemoryMarks {
  readonly labels: readonly string[];
  readonly taint: readonly string[];
  readonly sources: readonly string[];
}

/** Word of a person for a row. It holds for the text with this hash and no other. */
export interface MemoryWord {
  readonly how: 'endorsed' | 'said';
  readonly by: string;
  readonly hash: string;
}

export interface NewMemory extends MemoryPlace {
  readonly text: string;
  /** A row with the same subject is replaced. Empty: the text itself identifies the row. */
  readonly subject: string;
  readonly marks: MemoryMarks;
  /** Thread that wrote the row, and its last event at that time. */
  readonly thread: string;
  readonly seq: number;
  /** Milliseconds since 1970. Absent: the row stays. */
  readonly expires?: number;
  readonly endorsed_by?: MemoryWord;
}

export interface MemoryRow extends NewMemory {
  readonly id: string;
  /** Time of the last write in milliseconds since 1970. */
  readonly created: number;
}

type MemoryKey = Pick<MemoryRow, 'tenant' | 'project' | 'id'>;
export type MemoryFilter = Pick<MemoryPlace, 'tenant' | 'project'> &
  Partial<Pick<MemoryRow, 'scope' | 'owner' | 'id'>>;
export type MemoryChange =
  | { readonly kind: 'write'; readonly row: NewMemory }
  | {
      readonly kind: 'endorse';
      readonly key: MemoryKey;
      readonly hash: string;
      readonly by: string;
    }
  | { readonly kind: 'forget'; readonly key: MemoryKey };

export interface Memories {
  /** Returns the rows that have not expired, newest first. */
  memories(filter: MemoryFilter): Answer<MemoryRow[]>;
  /**
   * Changes one row in one transaction and returns it. Fails with `quota_exceeded`, with `not_found`, and with
   * `conflict` if the row to endorse has another hash.
   */
  changeMemory(change: MemoryChange): Answer<MemoryRow>;
}

const sha256 = (parts: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex');

/** Returns the hash of what a person reads before they endorse a row. */
export const memoryHash = ({ scope, owner, subject, text }: NewMemory): string =>
  sha256([scope, owner, subject, text]);

/** The id has no project, so a copy with another name of the project has the same ids. */
const idOf = ({ scope, owner, subject, text }: NewMemory): string =>
  `${scope[0]}_${sha256([scope, owner, subject === '' ? 'text' : 'subject', subject || text]).slice(0, 20)}`;

/** Returns the scope of a row from its id. Undefined for a text that is no id. */
export const scopeOfMemory = (id: string): MemoryScope | undefined =>
  /^[pdu]_[0-9a-f]{20}$/.test(id) ? MEMORY_SCOPES.find((scope) => scope[0] === id[0]) : undefined;

export const memoryKey = (change: MemoryChange): MemoryKey =>
  change.kind === 'write' ? { ...change.row, id: idOf(change.row) } : change.key;

const union = (a: readonly string[], b: readonly string[]): string[] =>
  [...new Set([...a, ...b])].toSorted();
/** Sources are for people, so only the first ones are kept. Decisions use labels and taint, which are complete. */
const MAX_SOURCES = 100;
const mergedMarks = (a: MemoryMarks, b: MemoryMarks): MemoryMarks => ({
  labels: union(a.labels, b.labels),
  taint: union(a.taint, b.taint),
  sources: union(a.sources, b.sources).slice(0, MAX_SOURCES),
});

export const memoryBytes = ({ text, subject, marks }: NewMemory): number =>
  Buffer.byteLength(text + subject + JSON.stringify(marks));

/** The present row, and the use of its place without expired rows. */
export interface MemoryState {
  readonly row: MemoryRow | undefined;
  readonly rows: number;
  readonly bytes: number;
}

function decideWrite(row: NewMemory, { row: before, rows, bytes }: MemoryState, now: number) {
  const NONE = { labels: [], taint: [], sources: [] };
  const marks = mergedMarks(before?.marks ?? NONE, row.marks);
  const isSame =
    before !== undefined &&
    memoryHash(before) === memoryHash(row) &&
    JSON.stringify(before.marks) === JSON.stringify(marks);
  // The word of a person ends with any other text, and with any new mark.
  const word = (isSame && before.endorsed_by) || row.endorsed_by;
  const { endorsed_by: _, ...plain } = row;
  const next = { ...plain, id: idOf(row), marks, created: now, ...(word && { endorsed_by: word }) };
  const used = bytes + memoryBytes(next) - (before ? memoryBytes(before) : 0);
  if ((before || rows < MEMORY_BOUNDS.rows) && used <= MEMORY_BOUNDS.bytes) return ok(next);
  const message = `memory \`${row.scope}\` is full: ${rows} of ${MEMORY_BOUNDS.rows} rows, ${bytes} of ${MEMORY_BOUNDS.bytes} bytes; remove rows with \`km memory forget ID\``;
  return fail('quota_exceeded', message, { scope: row.scope, rows, bytes, bounds: MEMORY_BOUNDS });
}

export const noMemory = (id: string): Failure =>
  fail('not_found', `memory \`${id}\` not found`, { memory: id });

/** Returns the row to write. After `forget` it is the row to remove. */
export function decideMemory(
  change: MemoryChange,
  state: MemoryState,
  now: number,
): Outcome<MemoryRow> {
  if (change.kind === 'write') return decideWrite(change.row, state, now);
  const { row } = state;
  const { id } = change.key;
  if (!row) return noMemory(id);
  if (change.kind === 'forget') return ok(row);
  const hash = memoryHash(row);
  if (hash !== change.hash) {
    const message = `memory \`${id}\` has changed; read it again with \`km memory show ${id}\``;
    return fail('conflict', message, { memory: id, hash });
  }
  return ok({ ...row, endorsed_by: { how: 'endorsed', by: change.by, hash } });
}

// Both stores use these statements. A server numbers its values with `$`.
const COLUMNS =
  'id, tenant, project, scope, owner, text, subject, marks, thread, seq, created, expires, endorsed_by';
const PLACE = 'tenant = ?1 AND project = ?2 AND scope = ?3 AND owner = ?4';
export const MEMORY_SQL = {
  list: `SELECT ${COLUMNS} FROM memories WHERE tenant = ?1 AND project = ?2
    AND scope = coalesce(CAST(?3 AS text), scope) AND owner = coalesce(CAST(?4 AS text), owner)
    AND id = coalesce(CAST(?5 AS text), id) AND (expires IS NULL OR expires > ?6) ORDER BY created DESC, id`,
  purge: `DELETE FROM memories WHERE ${PLACE} AND expires <= ?5`,
  used: `SELECT count(*) AS n, coalesce(sum(octet_length(text) + octet_length(subject) + octet_length(marks)), 0) AS bytes
    FROM memories WHERE ${PLACE} AND (expires IS NULL OR expires > ?5)`,
  put: `INSERT INTO memories (${COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
    ON CONFLICT (tenant, project, id) DO UPDATE SET text = excluded.text, subject = excluded.subject,
    marks = excluded.marks, thread = excluded.thread, seq = excluded.seq, created = excluded.created,
    expires = excluded.expires, endorsed_by = excluded.endorsed_by`,
  remove: 'DELETE FROM memories WHERE tenant = ?1 AND project = ?2 AND id = ?3',
  expired: 'SELECT 1 FROM memories WHERE expires <= ?1 LIMIT 1',
  prune: 'DELETE FROM memories WHERE expires <= ?1',
} as const;

type Cell = string | number | null;
/** A row as the tables have it. */
export type MemoryColumns = Omit<MemoryRow, 'marks' | 'expires' | 'endorsed_by'> & {
  readonly marks: string;
  readonly expires: number | null;
  readonly endorsed_by: string | null;
};

export const memoryValues = (filter: MemoryFilter, now: number): Cell[] => {
  const { tenant, project, scope = null, owner = null, id = null } = filter;
  return [tenant, project, scope, owner, id, now];
};

export const memoryCells = (row: MemoryRow): Cell[] => [
  ...[row.id, row.tenant, row.project, row.scope, row.owner, row.text, row.subject],
  ...[JSON.stringify(row.marks), row.thread, row.seq, row.created, row.expires ?? null],
  row.endorsed_by ? JSON.stringify(row.endorsed_by) : null,
];

const UNREADABLE = { labels: ['untrusted'], taint: ['untrusted'], sources: [] };
function readMarks(text: string): MemoryMarks {
  const packed = parseJson(text);
  if (!packed.ok) return UNREADABLE;
  const [labels = [], taint = [], sources = []] = ['labels', 'taint', 'sources'].map((name) =>
    textsAt(packed.output, name),
  );
  return { labels, taint, sources };
}

/** Returns rows from their columns. A row with damaged marks is untrusted, and no word of a person holds for it. */
export function memoriesOf(list: readonly MemoryColumns[]): MemoryRow[] {
  // Most rows of one thread have the same marks.
  const cached = new Map<string, MemoryMarks>();
  return list.map(({ marks: packed, endorsed_by, expires, ...row }) => {
    const marks = cached.get(packed) ?? readMarks(packed);
    cached.set(packed, marks);
    const parsed = endorsed_by === null ? undefined : parseJson(endorsed_by);
    const word = parsed?.ok && marks !== UNREADABLE ? parsed.output : undefined;
    const how = textAt(word, 'how') === 'endorsed' ? 'endorsed' : 'said';
    return {
      ...row,
      marks,
      ...(expires !== null && { expires }),
      ...(word && { endorsed_by: { how, by: textAt(word, 'by'), hash: textAt(word, 'hash') } }),
    };
  });
}
