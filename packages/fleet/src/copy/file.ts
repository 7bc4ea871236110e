// Implements a registry in a file as the source or the target of a copy. A target is written to a second file
// and gets its name when it is complete.
import { existsSync, linkSync, rmSync } from 'node:fs';
import type { DatabaseSync, SQLInputValue, SQLOutputValue } from 'node:sqlite';
import { errnoOf, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { Answer } from '@kernmantle/core/store';
import {
  AT_WORK,
  ENDED,
  EVENTS_A_THREAD,
  type FileOptions,
  faultOf,
  isOwnerGone,
  openFile,
} from '@kernmantle/core/store';
import {
  COPIED_TABLES,
  type CopiedRow,
  type CopiedTable,
  type CopySource,
  type CopyTarget,
  columnsOf,
  differing,
  LOOSE,
  type RowCounts,
} from './rows.ts';

const TREE = 'SELECT id FROM threads WHERE root = ?';
const OF_TREE = `thread IN (${TREE})`;
const OF_NOBODY = '(thread IS NULL OR thread NOT IN (SELECT id FROM threads))';
const WORK = AT_WORK.map((status) => `'${status}'`).join(', ');

const list = (table: CopiedTable): string => columnsOf(table).join(', ');

// A copy has no owners, so a thread that was not running is queued, and a sweep interrupts the others.
const QUEUED = `CASE WHEN owner IS NOT NULL AND status NOT IN (${ENDED}, ${WORK}) THEN updated ELSE queued END AS queued`;
const THREADS = `SELECT ${columnsOf('threads')
  .map((name) => (name === 'queued' ? QUEUED : name))
  .join(', ')} FROM threads JOIN thread_data ON thread = id WHERE root = ? ORDER BY number`;
const EVENTS = `SELECT id AS thread, place - number * ${EVENTS_A_THREAD} AS seq, ts, turn, type, data
  FROM threads JOIN thread_events ON place > number * ${EVENTS_A_THREAD} AND place < (number + 1) * ${EVENTS_A_THREAD}
  WHERE root = ? ORDER BY place`;

const select = (table: CopiedTable, where: string): string =>
  `SELECT ${list(table)} FROM ${table} WHERE ${where}`;
const beside = (where: string): Partial<Record<CopiedTable, string>> => ({
  signals: select('signals', where),
  approvals: select('approvals', where),
  approval_uses: select('approval_uses', `approval IN (SELECT id FROM approvals WHERE ${where})`),
  artifact_uses: select('artifact_uses', where),
  artifacts: select('artifacts', `hash IN (SELECT hash FROM artifact_uses WHERE ${where})`),
  secrets: select('secrets', where),
  search_texts: select('search_texts', where),
});

const OF_THREADS: Partial<Record<CopiedTable, string>> = {
  threads: THREADS,
  thread_events: EVENTS,
  ...beside(OF_TREE),
};
const OF_NONE: Partial<Record<CopiedTable, string>> = {
  ...beside(OF_NOBODY),
  schedules: `SELECT ${list('schedules')} FROM schedules`,
  schedule_fires: `SELECT ${list('schedule_fires')} FROM schedule_fires`,
  audit: `SELECT ${list('audit')} FROM audit ORDER BY id`,
  memories: select('memories', 'true'),
  pruned: 'SELECT thread, budget FROM pruned_budgets',
};

const TREES = `SELECT root AS tree, json_array(count(*), sum(seq), sum(epoch), sum(wakes), sum(acknowledged), max(updated),
    sum((SELECT count(*) FROM artifact_uses WHERE thread = id)), sum((SELECT count(*) FROM secrets WHERE thread = id)),
    group_concat(coalesce(owner, ''))) AS mark
  FROM threads GROUP BY root ORDER BY min(number)`;
const PROJECTS = `SELECT project FROM threads UNION SELECT project FROM schedules
  UNION SELECT project FROM memories WHERE project <> ''`;
const LOOSE_MARK = `SELECT json_array((SELECT max(id) FROM audit), (SELECT count(*) FROM audit),
  (SELECT count(*) FROM pruned_budgets), (SELECT json_group_array(json_array(id, state, uses_left, decided))
    FROM approvals WHERE thread IS NULL),
  (SELECT json_group_array(json_array(id, created, endorsed_by)) FROM memories),
  (SELECT group_concat(stamp) FROM schedules), (SELECT count(*) FROM schedule_fires)) AS mark`;

/** Returns the parameters of a statement. SQLite refuses a parameter that the statement does not have. */
const treeIn = (tree: string): string[] => (tree === LOOSE ? [] : [tree]);

const tableOf = (table: CopiedTable): string => (table === 'pruned' ? 'pruned_budgets' : table);

function countAll(database: DatabaseSync): RowCounts {
  const counted = COPIED_TABLES.map((table) => {
    const row = database.prepare(`SELECT count(*) AS n FROM ${tableOf(table)}`).get();
    return [table, Number(row?.['n'])];
  });
  return Object.fromEntries(counted);
}

const PAGE = { rows: 500, size: 4 * 1024 * 1024 };
const sizeOf = (row: CopiedRow): number => {
  let size = 0;
  for (const cell of row) if (cell !== null && typeof cell === 'object') size += cell.length;
  for (const cell of row) if (typeof cell === 'string') size += cell.length;
  return size;
};

function* pagesOf(
  rows: Iterable<Record<string, SQLOutputValue>>,
  names: readonly string[],
): Generator<CopiedRow[]> {
  let [page, size]: [CopiedRow[], number] = [[], 0];
  for (const source of rows) {
    const row = names.map((name) => source[name] ?? null);
    page.push(row);
    size += sizeOf(row);
    if (page.length < PAGE.rows && size < PAGE.size) continue;
    yield page;
    [page, size] = [[], 0];
  }
  if (page.length > 0) yield page;
}

/** Opens the file with the checks of the store (owner and version). Returns the database itself. */
async function openRaw(options: FileOptions): Answer<DatabaseSync> {
  let raw: DatabaseSync | undefined;
  const { DatabaseSync: Database } = process.getBuiltinModule('node:sqlite');
  const connect = (file: string): DatabaseSync => {
    raw = new Database(file, { timeout: 5000 });
    return raw;
  };
  const opened = await openFile({ ...options, connect });
  if (!opened.ok) return opened;
  return raw ? ok(raw) : fail('internal_error', 'the registry was not opened');
}

export async function openFileSource(options: FileOptions): Answer<CopySource> {
  const { file, clock } = options;
  if (!existsSync(file)) return fail('not_found', `registry \`${file}\` not found`, { file });
  const opened = await openRaw(options);
  if (!opened.ok) return opened;
  const database = opened.output;
  // All later reads return the present state.
  database.exec('BEGIN');
  const all = (sql: string) => database.prepare(sql).all();
  return ok({
    async held() {
      const events = database.prepare(
        `SELECT id, owner FROM threads WHERE owner IS NOT NULL AND lease_until > ? AND status NOT IN (${ENDED})`,
      );
      const rows = events.all(clock.now());
      return rows.filter(({ owner }) => !isOwnerGone(String(owner))).map(({ id }) => String(id));
    },
    projects: async () => all(PROJECTS).map(({ project }) => String(project)),
    trees: async () => [
      ...all(TREES).map(({ tree, mark }) => ({ tree: String(tree), mark: String(mark) })),
      { tree: LOOSE, mark: String(all(LOOSE_MARK)[0]?.['mark']) },
    ],
    async *rows(table, tree) {
      const sql = (tree === LOOSE ? OF_NONE : OF_THREADS)[table];
      if (sql === undefined) return;
      yield* pagesOf(database.prepare(sql).iterate(...treeIn(tree)), columnsOf(table));
    },
    counts: async () => countAll(database),
    fault: (error) => faultOf(error, file),
    close: async () => database.close(),
  });
}

const THREAD_COLUMNS = columnsOf('threads').filter(
  (name) => !['chain', 'limits', 'inputs', 'result', 'birth'].includes(name),
);
const places = (names: readonly string[]): string => names.map((name) => `:${name}`).join(', ');
const INSERT_THREAD = `INSERT INTO threads (${THREAD_COLUMNS.join(', ')})
  VALUES (${places(THREAD_COLUMNS)}) RETURNING number`;
const INSERT_DATA = `INSERT INTO thread_data (thread, chain, limits, inputs, result, birth)
  VALUES (:id, :chain, :limits, :inputs, :result, :birth)`;
const INSERT_EVENT = `INSERT INTO thread_events (place, ts, turn, type, data) VALUES
  ((SELECT number FROM threads WHERE id = ?) * ${EVENTS_A_THREAD} + ?, ?, ?, ?, ?)`;
const insertInto = (table: CopiedTable): string =>
  `INSERT ${table === 'artifacts' ? 'OR IGNORE ' : ''}INTO ${tableOf(table)} (${list(table)})
   VALUES (${columnsOf(table)
     .map(() => '?')
     .join(', ')})`;

const REMOVE_TREE = [
  `DELETE FROM thread_events WHERE place IN (SELECT place FROM threads JOIN thread_events
    ON place > number * ${EVENTS_A_THREAD} AND place < (number + 1) * ${EVENTS_A_THREAD} WHERE root = ?)`,
  `DELETE FROM approval_uses WHERE approval IN (SELECT id FROM approvals WHERE ${OF_TREE})`,
  ...['signals', 'approvals', 'artifact_uses', 'secrets', 'thread_data', 'search_texts'].map(
    (table) => `DELETE FROM ${table} WHERE ${OF_TREE}`,
  ),
  'DELETE FROM threads WHERE root = ?',
];
const REMOVE_LOOSE = [
  `DELETE FROM approval_uses WHERE approval IN (SELECT id FROM approvals WHERE ${OF_NOBODY})`,
  ...['signals', 'approvals', 'artifact_uses', 'secrets', 'search_texts'].map(
    (table) => `DELETE FROM ${table} WHERE ${OF_NOBODY}`,
  ),
  'DELETE FROM schedules',
  'DELETE FROM schedule_fires',
  'DELETE FROM audit',
  'DELETE FROM memories',
  'DELETE FROM pruned_budgets',
];
const UNUSED = 'DELETE FROM artifacts WHERE hash NOT IN (SELECT hash FROM artifact_uses)';

function insertRows(database: DatabaseSync, table: CopiedTable, rows: readonly CopiedRow[]): void {
  const names = columnsOf(table);
  if (table !== 'threads') {
    const insert = database.prepare(table === 'thread_events' ? INSERT_EVENT : insertInto(table));
    for (const row of rows) insert.run(...row);
    return;
  }
  const [insert, data] = [database.prepare(INSERT_THREAD), database.prepare(INSERT_DATA)];
  for (const statement of [insert, data]) statement.setAllowUnknownNamedParameters(true);
  for (const row of rows) {
    const values: Record<string, SQLInputValue> = {};
    for (const [index, name] of names.entries()) values[name] = row[index] ?? null;
    insert.run(values);
    data.run(values);
  }
}

function inTransaction(database: DatabaseSync): { end(isWritten: boolean): void } {
  database.exec('BEGIN IMMEDIATE');
  return { end: (isWritten) => database.exec(isWritten ? 'COMMIT' : 'ROLLBACK') };
}

const remove = (database: DatabaseSync, tree: string): void => {
  const statements = tree === LOOSE ? REMOVE_LOOSE : REMOVE_TREE;
  for (const sql of statements) database.prepare(sql).run(...treeIn(tree));
  database.prepare('DELETE FROM copying WHERE tree = ?').run(tree);
};

/** Removes all trees of an earlier try if it left no table of marks. */
function prepareStage(database: DatabaseSync): void {
  if (database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'copying'").get()) return;
  const transaction = inTransaction(database);
  database.exec('CREATE TABLE copying (tree TEXT PRIMARY KEY, mark TEXT NOT NULL) STRICT');
  const roots = database.prepare('SELECT DISTINCT root FROM threads').all();
  for (const { root } of roots) remove(database, String(root));
  remove(database, LOOSE);
  transaction.end(true);
}

const exists = (file: string): Outcome<never> =>
  fail('store_exists', `registry \`${file}\` already exists; move it away first`, { file });

export async function openFileTarget(options: FileOptions): Answer<CopyTarget> {
  const { file } = options;
  if (existsSync(file)) return exists(file);
  const growing = `${file}.copying`;
  const opened = await openRaw({ ...options, file: growing });
  if (!opened.ok) return opened;
  const database = opened.output;
  // The lock refuses a second copy to this file.
  database.exec('PRAGMA locking_mode = EXCLUSIVE');
  prepareStage(database);
  return ok({
    async staged() {
      const rows = database.prepare('SELECT tree, mark FROM copying').all();
      return new Map(rows.map(({ tree, mark }) => [String(tree), String(mark)]));
    },
    async stage({ tree, mark }, rows) {
      const transaction = inTransaction(database);
      let isWritten = false;
      try {
        remove(database, tree);
        for await (const [table, page] of rows) insertRows(database, table, page);
        database.prepare('INSERT INTO copying (tree, mark) VALUES (?, ?)').run(tree, mark);
        isWritten = true;
      } finally {
        transaction.end(isWritten);
      }
    },
    async drop(tree) {
      const transaction = inTransaction(database);
      remove(database, tree);
      transaction.end(true);
    },
    async finish(counts) {
      database.exec(UNUSED);
      const wrong = differing(counts, countAll(database));
      if (wrong !== undefined) return fail('store_failed', `the copy is incomplete: ${wrong}`);
      database.exec('DROP TABLE copying');
      // The complete file must be on disk before it gets its name.
      database.exec('PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE)');
      database.exec('PRAGMA journal_mode = DELETE');
      database.close();
      try {
        linkSync(growing, file);
      } catch (error) {
        if (errnoOf(error) === 'EEXIST') return exists(file);
        throw error;
      }
      rmSync(growing, { force: true });
      return ok(null);
    },
    fault: (error) => faultOf(error, growing),
    async close() {
      if (database.isOpen) database.close();
    },
  });
}
