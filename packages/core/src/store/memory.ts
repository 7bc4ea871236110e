// Defines the rows of memory and the rules of their changes. Each store runs the rules in its own transaction, so
// SQLite and PostgreSQL cannot differ. INVARIANT: a row never loses a mark.
import { createHash } from 'node:crypto';
import { type Failure, fail, type Outcome, ok, parseJson, textAt, textsAt } from '../base/index.ts';
import type { SqlCell, SqlRow, StoreSteps } from './steps.ts';

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

interface MemoryMarks {
  readonly labels: readonly string[];
  readonly taint: readonly string[];
  readonly sources: readonly string[];
}

/** Word of a person for a row. It holds for the text with this hash and no other. */
interface MemoryWord {
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
  /** Milliseconds since 1970. Null: the row stays. */
  readonly expires: number | null;
  readonly endorsed_by: MemoryWord | null;
}

export interface MemoryRow extends NewMemory {
  readonly id: string;
  /** Time of the last write in milliseconds since 1970. */
  readonly created: number;
}

type MemoryFilter = Pick<MemoryPlace, 'tenant' | 'project'> &
  Partial<Pick<MemoryRow, 'scope' | 'owner' | 'id'>>;
/** A row with another scope or owner than these is not found. */
type MemoryKey = MemoryFilter & Pick<MemoryRow, 'id'>;
export type MemoryChange =
  | { readonly kind: 'write'; readonly row: NewMemory }
  | { readonly kind: 'forget'; readonly key: MemoryKey }
  | {
      readonly kind: 'endorse';
      readonly key: MemoryKey;
      readonly hash: string;
      readonly by: string;
    };

export interface Memories {
  /** Returns the rows that have not expired, newest first. */
  memories(filter: MemoryFilter): Promise<Outcome<MemoryRow[]>>;
  /**
   * Changes one row in one transaction and returns it. Fails with `quota_exceeded`, with `not_found`, and with
   * `conflict` if the row to endorse has another hash.
   */
  changeMemory(change: MemoryChange): Promise<Outcome<MemoryRow>>;
}

const sha256 = (parts: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex');

/** Returns the hash of what a person reads before they endorse a row. */
export const memoryHash = ({ scope, owner, subject, text }: NewMemory): string =>
  sha256([scope, owner, subject, text]);

/** Returns how a person confirmed the present text. A word for another text does not count. */
export const wordOf = (row: NewMemory): MemoryWord['how'] | undefined =>
  row.endorsed_by && row.endorsed_by.hash === memoryHash(row) ? row.endorsed_by.how : undefined;

/** The id has no project, so a copy with another name of the project has the same ids. */
const idOf = ({ scope, owner, subject, text }: NewMemory): string =>
  `${scope[0]}_${sha256([scope, owner, subject === '' ? 'text' : 'subject', subject || text]).slice(0, 20)}`;

/** Returns the scope of a row from its id. Undefined for a text that is no id. */
export const scopeOfMemory = (id: string): MemoryScope | undefined =>
  /^[pdu]_[0-9a-f]{20}$/.test(id) ? MEMORY_SCOPES.find((scope) => scope[0] === id[0]) : undefined;

const union = (a: readonly string[] = [], b: readonly string[]): string[] =>
  [...new Set([...a, ...b])].toSorted();
/** Sources are for people, so only the first ones are kept. Decisions use labels and taint, which are complete. */
const MAX_SOURCES = 100;
const mergedMarks = (a: MemoryMarks | undefined, b: MemoryMarks): MemoryMarks => ({
  labels: union(a?.labels, b.labels),
  taint: union(a?.taint, b.taint),
  sources: union(a?.sources, b.sources).slice(0, MAX_SOURCES),
});

export const memoryBytes = ({ text, subject, marks }: NewMemory): number =>
  Buffer.byteLength(text + subject + JSON.stringify(marks));

/** Returns the row after a write. The word of a person ends with any other text, and with any new mark. */
function nextRow(row: NewMemory, before: MemoryRow | undefined, created: number): MemoryRow {
  const marks = mergedMarks(before?.marks, row.marks);
  const isSame =
    before !== undefined &&
    memoryHash(before) === memoryHash(row) &&
    JSON.stringify(before.marks) === JSON.stringify(marks);
  const endorsed_by = (isSame && before.endorsed_by) || row.endorsed_by;
  return { ...row, id: idOf(row), marks, created, endorsed_by };
}

export const noMemory = (id: string): Failure =>
  fail('not_found', `memory \`${id}\` not found`, { memory: id });

const CELLS = ['scope', 'owner', 'text', 'subject', 'thread', 'seq', 'created', 'expires'] as const;
const CHANGED = [...CELLS, 'marks', 'endorsed_by'] as const;
const PLACE = 'tenant = $1 AND project = $2 AND scope = $3 AND owner = $4';
const LIST = `SELECT id, ${CHANGED.join(', ')} FROM memories WHERE tenant = $1 AND project = $2
  AND scope = coalesce(CAST($3 AS text), scope) AND owner = coalesce(CAST($4 AS text), owner)
  AND id = coalesce(CAST($5 AS text), id) AND (expires IS NULL OR expires > $6)`;
const USED = `SELECT count(*) AS n, coalesce(sum(octet_length(text) + octet_length(subject) + octet_length(marks)), 0)
  AS bytes FROM memories WHERE ${PLACE} AND (expires IS NULL OR expires > $5)`;
const PURGE = `DELETE FROM memories WHERE ${PLACE} AND expires <= $5`;
const PUT = `INSERT INTO memories (tenant, project, id, ${CHANGED.join(', ')})
  VALUES ($1, $2, $3, ${CHANGED.map((_, at) => `$${at + 4}`).join(', ')})
  ON CONFLICT (tenant, project, id) DO UPDATE SET ${CHANGED.map((name) => `${name} = excluded.${name}`).join()}`;
const REMOVE = 'DELETE FROM memories WHERE tenant = $1 AND project = $2 AND id = $3';

/** Marks of a text whose lineage is not known. It counts as a stranger's. */
export const UNKNOWN_MARKS: MemoryMarks = {
  labels: ['untrusted'],
  taint: ['untrusted'],
  sources: [],
};

function readMarks(text: string): MemoryMarks {
  const packed = parseJson(text);
  if (!packed.ok) return UNKNOWN_MARKS;
  const [labels, taint, sources] = [
    textsAt(packed.output, 'labels'),
    textsAt(packed.output, 'taint'),
    textsAt(packed.output, 'sources'),
  ];
  return { labels, taint, sources };
}

function readWord(cell: SqlCell = null): MemoryWord | null {
  const word = cell === null ? null : parseJson(String(cell));
  if (!word?.ok) return null;
  const how = textAt(word.output, 'how') === 'endorsed' ? 'endorsed' : 'said';
  return { how, by: textAt(word.output, 'by'), hash: textAt(word.output, 'hash') };
}

/** Returns a row from its columns. No word of a person holds for a row with damaged marks. */
const toRow = (row: SqlRow, { tenant, project }: MemoryFilter, marks: MemoryMarks): MemoryRow => ({
  id: String(row.id),
  tenant,
  project,
  scope: MEMORY_SCOPES.find((scope) => scope === row.scope) ?? 'project',
  owner: String(row.owner),
  text: String(row.text),
  subject: String(row.subject),
  marks,
  thread: String(row.thread),
  seq: Number(row.seq),
  created: Number(row.created),
  expires: typeof row.expires === 'number' ? row.expires : null,
  endorsed_by: marks === UNKNOWN_MARKS ? null : readWord(row.endorsed_by),
});

function* findRows(filter: MemoryFilter, now: number): StoreSteps<MemoryRow[]> {
  const { tenant, project, scope = null, owner = null, id = null } = filter;
  const rows = yield [LIST, tenant, project, scope, owner, id, now];
  // Most rows of one thread have the same marks.
  const cached = new Map<string, MemoryMarks>();
  const found = rows.map((row) => {
    const packed = String(row.marks);
    const marks = cached.get(packed) ?? readMarks(packed);
    cached.set(packed, marks);
    return toRow(row, filter, marks);
  });
  // A sort in SQL copies the texts and needs twice the time.
  return found.sort((a, b) => b.created - a.created || (a.id < b.id ? -1 : 1));
}

function* putRow(row: MemoryRow): StoreSteps<Outcome<MemoryRow>> {
  const { tenant, project, id, marks, endorsed_by: word } = row;
  const packed = [JSON.stringify(marks), word && JSON.stringify(word)];
  yield [PUT, tenant, project, id, ...CELLS.map((name) => row[name]), ...packed];
  return ok(row);
}

function* writeRow(row: NewMemory, now: number): StoreSteps<Outcome<MemoryRow>> {
  const { tenant, project, scope, owner } = row;
  const [before] = yield* findRows({ tenant, project, id: idOf(row) }, now);
  const [used] = yield [USED, tenant, project, scope, owner, now];
  const [rows, bytes] = [Number(used?.n ?? 0), Number(used?.bytes ?? 0)];
  const next = nextRow(row, before, now);
  const size = bytes + memoryBytes(next) - (before ? memoryBytes(before) : 0);
  if ((!before && rows >= MEMORY_BOUNDS.rows) || size > MEMORY_BOUNDS.bytes) {
    const message = `memory \`${scope}\` is full: ${rows} of ${MEMORY_BOUNDS.rows} rows, ${bytes} of ${MEMORY_BOUNDS.bytes} bytes; remove rows first`;
    return fail('quota_exceeded', message, { scope, rows, bytes, bounds: MEMORY_BOUNDS });
  }
  yield [PURGE, tenant, project, scope, owner, now];
  return yield* putRow(next);
}

function* changeRow(change: MemoryChange, now: number): StoreSteps<Outcome<MemoryRow>> {
  if (change.kind === 'write') return yield* writeRow(change.row, now);
  const { tenant, project, id } = change.key;
  const [row] = yield* findRows(change.key, now);
  if (!row) return noMemory(id);
  if (change.kind === 'forget') {
    yield [REMOVE, tenant, project, id];
    return ok(row);
  }
  const hash = memoryHash(row);
  if (hash === change.hash) {
    return yield* putRow({ ...row, endorsed_by: { how: 'endorsed', by: change.by, hash } });
  }
  const message = `memory \`${id}\` has changed; read it again`;
  return fail('conflict', message, { memory: id, hash });
}

function* pruneRows(now: number): StoreSteps<void> {
  yield ['DELETE FROM memories WHERE expires <= $1', now];
}

/** The rules, which each store runs in its own transactions. A change needs a lock on its project. */
export const memoryRules = { find: findRows, change: changeRow, prune: pruneRows };
