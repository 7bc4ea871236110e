// Implements a registry on a server as the source or the target of a copy. The rows of a target are staged in extra
// tables, one tree at a time, and are moved in one transaction when they are complete.
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import type { Answer } from '@kernmantle/core/store';
import type pg from 'pg';
import { type Database, openDatabase } from '../postgres/connection.ts';
import { troubleOf } from '../postgres/errors.ts';
import { checkForm, type OwnedDatabase } from '../postgres/migrate.ts';
import { storable } from '../postgres/rows.ts';
import {
  type Cell,
  COPIED,
  COPIED_TABLES,
  type CopiedRow,
  type CopiedTable,
  type CopySource,
  type CopyTarget,
  type CopyTree,
  columnsOf,
  differing,
  LOOSE,
  type RowCounts,
} from './rows.ts';

/** Timeout of a statement. No statement of a copy takes longer. */
const LONG_MS = 24 * 60 * 60 * 1000;
const PATIENT = 'SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0';

interface Line {
  all<R extends object>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /** Returns the number of changed rows. */
  run(text: string, values?: readonly unknown[]): Promise<number>;
  fault(error: unknown): Outcome<never>;
  close(): Promise<void>;
}

/** Opens one connection without time limits to a registry of this version and user. */
async function openLine(options: OwnedDatabase): Answer<Line> {
  const opened = await openDatabase({ ...options, connections: 1 });
  if (!opened.ok) return opened;
  const database: Database = opened.output;
  const ready = await checkForm(database, options);
  let client: pg.Client | undefined;
  try {
    client = ready.ok ? await database.connect() : undefined;
    await client?.query(PATIENT);
  } catch (error) {
    await database.close();
    return troubleOf(error, options.shown).failure;
  }
  await database.close();
  if (!ready.ok || !client) return ready.ok ? fail('internal_error', 'no connection') : ready;
  const line = client;
  const ask = (text: string, values: readonly unknown[] = []) => {
    const query = { text, values: [...values], query_timeout: LONG_MS };
    return line.query(query);
  };
  return ok({
    all: async <R extends object>(text: string, values?: readonly unknown[]) =>
      (await ask(text, values)).rows as R[],
    run: async (text, values) => (await ask(text, values)).rowCount ?? 0,
    fault: (error) => troubleOf(error, options.shown).failure,
    close: () => line.end().catch(() => {}),
  });
}

/** SQL of the columns whose form in a copy differs from the form in the tables. */
const MADE: Readonly<Record<string, string>> = {
  chain: 'array_to_json(t.chain)::text',
  detached: 't.detached::int',
  queued: `CASE WHEN t.owner IS NOT NULL AND NOT km_ended(t.status) AND NOT km_at_work(t.status)
    THEN t.updated ELSE t.queued END`,
  budget: 'b.account::text',
  ...Object.fromEntries(['limits', 'inputs', 'result', 'birth'].map((name) => [name, `d.${name}`])),
};

const list = (table: CopiedTable, from = ''): string =>
  columnsOf(table)
    .map((name) => `${from}${name}`)
    .join(', ');

const OF_TREE = 'thread IN (SELECT id FROM threads WHERE root = $1)';
const OF_NOBODY =
  '$1::text IS NOT NULL AND (thread IS NULL OR thread NOT IN (SELECT id FROM threads))';
const beside = (where: string): Partial<Record<CopiedTable, string>> => ({
  signals: `SELECT ${list('signals')} FROM signals WHERE ${where}`,
  approvals: `SELECT ${list('approvals')} FROM approvals WHERE ${where}`,
  approval_uses: `SELECT ${list('approval_uses')} FROM approval_uses
    WHERE approval IN (SELECT id FROM approvals WHERE ${where})`,
  artifact_uses: `SELECT ${list('artifact_uses')} FROM artifact_uses WHERE ${where}`,
  artifacts: `SELECT ${list('artifacts')} FROM artifacts
    WHERE hash IN (SELECT hash FROM artifact_uses WHERE ${where})`,
  secrets: `SELECT ${list('secrets')} FROM secrets WHERE ${where}`,
  search_texts: `SELECT ${list('search_texts')} FROM search_texts WHERE ${where}`,
});
const OF_THREADS: Partial<Record<CopiedTable, string>> = {
  threads: `SELECT ${columnsOf('threads')
    .map((name) => `${MADE[name] ?? `t.${name}`} AS ${name}`)
    .join(
      ', ',
    )} FROM threads t JOIN thread_data d ON d.thread = t.id JOIN budgets b ON b.thread = t.id
    WHERE t.root = $1 ORDER BY t.number`,
  thread_events: `SELECT t.id AS thread, e.seq, e.ts, e.turn, e.type, e.data FROM threads t
    JOIN thread_events e ON e.thread = t.number WHERE t.root = $1 ORDER BY e.thread, e.seq`,
  ...beside(OF_TREE),
};
const COPIED_SCHEDULE = (id: string): string => `${id} IN (SELECT id FROM copied_schedules)`;
const OF_NONE: Partial<Record<CopiedTable, string>> = {
  ...beside(OF_NOBODY),
  schedules: `SELECT ${list('schedules')} FROM schedules WHERE $1::text IS NOT NULL AND ${COPIED_SCHEDULE('id')}`,
  schedule_fires: `SELECT ${list('schedule_fires')} FROM schedule_fires
    WHERE $1::text IS NOT NULL AND ${COPIED_SCHEDULE('schedule')}`,
  audit: `SELECT ${list('audit')} FROM audit WHERE $1::text IS NOT NULL ORDER BY id`,
  pruned: `SELECT b.thread, b.account::text AS budget FROM budgets b
    WHERE $1::text IS NOT NULL AND b.thread NOT IN (SELECT id FROM threads)`,
};

/** Rows of memory of the named project and of the copied threads. Without a name: all rows. */
const MEMORIES_OF = `memories WHERE $1::text IS NOT NULL AND (current_setting('km.project') IN ('', project)
  OR project IN (SELECT t.project FROM threads t JOIN copied_trees c ON c.id = t.id))`;
const MEMORIES = `SELECT ${list('memories')} FROM ${MEMORIES_OF}`;

/** Audit rows of the copied threads, if the registry has other projects as well. */
const AUDIT_OF = `audit WHERE caller IN (SELECT id FROM copied_trees) OR target IN (SELECT id FROM copied_trees)`;

/** Opens a source. `project`: only its trees. If other projects exist, rows without a thread are not copied. */
export async function openServerSource(
  options: OwnedDatabase,
  project: string | undefined,
): Answer<CopySource> {
  const opened = await openLine(options);
  if (!opened.ok) return opened;
  const line = opened.output;
  let isWhole = true;
  try {
    await line.run('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await line.run(`SELECT set_config('km.project', $1, true)`, [project ?? '']);
    const others = await line.all(
      'SELECT 1 FROM threads WHERE parent IS NULL AND project <> $1 LIMIT 1',
      [project ?? ''],
    );
    isWhole = project === undefined || others.length === 0;
    await line.run(
      `CREATE TEMPORARY TABLE copied_trees ON COMMIT DROP AS SELECT t.id, t.root FROM threads t
        JOIN threads r ON r.id = t.root WHERE $1 OR r.project = $2`,
      [isWhole, project ?? ''],
    );
    await line.run(
      'CREATE TEMPORARY TABLE copied_schedules ON COMMIT DROP AS SELECT id FROM schedules WHERE $1 OR project = $2',
      [isWhole, project ?? ''],
    );
  } catch (error) {
    await line.close();
    return line.fault(error);
  }
  const sqlFor = (table: CopiedTable, tree: string): string | undefined => {
    if (tree !== LOOSE) return OF_THREADS[table];
    if (table === 'memories') return MEMORIES;
    if (isWhole) return OF_NONE[table];
    if (table === 'schedules' || table === 'schedule_fires') return OF_NONE[table];
    return table === 'audit'
      ? `SELECT ${list('audit')} FROM ${AUDIT_OF} AND $1::text IS NOT NULL ORDER BY id`
      : undefined;
  };
  const TREES = `SELECT t.root AS tree, concat_ws(' ', count(*), sum(t.seq), sum(t.epoch), sum(t.wakes), sum(t.acknowledged),
      max(t.updated), sum((SELECT count(*) FROM artifact_uses u WHERE u.thread = t.id)),
      sum((SELECT count(*) FROM secrets s WHERE s.thread = t.id)), count(t.owner)) AS mark
    FROM threads t JOIN copied_trees c ON c.id = t.id GROUP BY t.root ORDER BY min(t.number)`;
  const LOOSE_MARK = `SELECT concat_ws(' ', max(id), count(*), (SELECT count(*) FROM budgets),
    (SELECT md5(string_agg(concat_ws(' ', id, state, uses_left, decided), ' ' ORDER BY id)) FROM approvals
      WHERE thread IS NULL), (SELECT md5(string_agg(concat_ws(' ', id, project, created, endorsed_by), ' '
      ORDER BY id, project, tenant)) FROM memories), (SELECT md5(string_agg(stamp, ' ' ORDER BY id)) FROM schedules),
    (SELECT count(*) FROM schedule_fires), '${isWhole}') AS mark FROM audit`;
  return ok({
    async held() {
      const rows = await line.all<{ id: string }>(
        `SELECT t.id FROM threads t JOIN copied_trees c ON c.id = t.id
         WHERE t.owner IS NOT NULL AND t.lease_until > km_now() AND NOT km_ended(t.status)`,
      );
      return rows.map(({ id }) => id);
    },
    async projects() {
      const sql = `SELECT t.project FROM threads t JOIN copied_trees c ON c.id = t.id
        UNION SELECT project FROM ${MEMORIES_OF} AND project <> ''
        UNION SELECT project FROM schedules JOIN copied_schedules USING (id) ORDER BY 1`;
      return (await line.all<{ project: string }>(sql, [''])).map((row) => row.project);
    },
    async trees() {
      const [trees, [loose]] = [
        await line.all<CopyTree>(TREES),
        await line.all<CopyTree>(LOOSE_MARK),
      ];
      return [...trees, { tree: LOOSE, mark: loose?.mark ?? '' }];
    },
    async *rows(table, tree) {
      const sql = sqlFor(table, tree);
      if (sql === undefined) return;
      const count = table === 'artifacts' ? 2 : 200;
      await line.run(`DECLARE copied NO SCROLL CURSOR FOR ${sql}`, [tree]);
      for (;;) {
        const page = await line.all<Record<string, Cell>>(`FETCH ${count} FROM copied`);
        if (page.length === 0) break;
        yield page.map((row) => columnsOf(table).map((name) => row[name] ?? null));
      }
      await line.run('CLOSE copied');
    },
    counts: async () => await countSource(line, isWhole),
    fault: line.fault,
    close: line.close,
  });
}

/** Counts the rows in the tables, independently of the queries that read them. */
async function countSource(line: Line, isWhole: boolean): Promise<RowCounts> {
  const mine = isWhole ? 'true' : 'thread IN (SELECT id FROM copied_trees)';
  const from: Readonly<Record<CopiedTable, string>> = {
    threads: 'copied_trees',
    thread_events: isWhole
      ? 'thread_events'
      : 'thread_events WHERE thread IN (SELECT number FROM threads JOIN copied_trees USING (id))',
    signals: `signals WHERE ${mine}`,
    approvals: `approvals WHERE ${mine}`,
    approval_uses: isWhole
      ? 'approval_uses'
      : `approval_uses WHERE approval IN (SELECT id FROM approvals WHERE ${mine})`,
    artifact_uses: `artifact_uses WHERE ${mine}`,
    artifacts: `artifacts WHERE hash IN (SELECT hash FROM artifact_uses WHERE ${mine})`,
    secrets: `secrets WHERE ${mine}`,
    search_texts: `search_texts WHERE ${mine}`,
    schedules: 'copied_schedules',
    schedule_fires: `schedule_fires WHERE ${COPIED_SCHEDULE('schedule')}`,
    audit: isWhole ? 'audit' : AUDIT_OF,
    memories: MEMORIES_OF.replace('$1', `''`),
    pruned: `budgets WHERE ${isWhole} AND thread NOT IN (SELECT id FROM threads)`,
  };
  return await countIn(line, (table) => from[table]);
}

async function countIn(line: Line, from: (table: CopiedTable) => string): Promise<RowCounts> {
  const counted: [string, number][] = [];
  for (const table of COPIED_TABLES) {
    const [row] = await line.all<{ n: number }>(`SELECT count(*) AS n FROM ${from(table)}`);
    counted.push([table, row?.n ?? 0]);
  }
  return Object.fromEntries<number>(counted) as RowCounts;
}

const SQL_TYPES = { text: 'text', int: 'bigint', bytes: 'bytea' } as const;
const typesOf = (table: CopiedTable): string[] =>
  Object.values<'text' | 'int' | 'bytes'>(COPIED[table]).map((kind) => SQL_TYPES[kind]);
const waiting = (table: CopiedTable): string => `copying_${table}`;

const MAKE = [
  'CREATE TABLE IF NOT EXISTS copying_trees (tree text PRIMARY KEY, mark text NOT NULL)',
  ...COPIED_TABLES.flatMap((table) => {
    const types = typesOf(table);
    const columns = columnsOf(table).map((name, index) => `${name} ${types[index]}`);
    return [
      `CREATE TABLE IF NOT EXISTS ${waiting(table)} (place bigint GENERATED ALWAYS AS IDENTITY,
        tree text NOT NULL, ${columns.join(', ')})`,
      `CREATE INDEX IF NOT EXISTS ${waiting(table)}_by_tree ON ${waiting(table)}(tree)`,
    ];
  }),
];
const REMOVE = ['copying_trees', ...COPIED_TABLES.map(waiting)];

const insertText = (table: CopiedTable): string => {
  const arrays = typesOf(table).map((type, index) => `$${index + 2}::${type}[]`);
  return `INSERT INTO ${waiting(table)} (tree, ${list(table)})
    SELECT $1, * FROM unnest(${arrays.join(', ')})`;
};

const insertRows = (line: Line, tree: string, table: CopiedTable, rows: readonly CopiedRow[]) => {
  const columns = columnsOf(table).map((_, index) =>
    rows.map((row) => {
      const cell = row[index] ?? null;
      // A file can contain characters that a server refuses.
      return typeof cell === 'string' ? storable(cell) : cell;
    }),
  );
  return line.run(insertText(table), [tree, ...columns]);
};

const OWN = columnsOf('threads').filter(
  (name) => !['budget', 'limits', 'inputs', 'result', 'birth'].includes(name),
);
const ARRIVING: Readonly<Record<string, string>> = {
  chain: 'ARRAY(SELECT json_array_elements_text(chain::json))',
  detached: 'detached = 1',
};
const same = (table: CopiedTable, more = ''): string =>
  `INSERT INTO ${table} (${list(table)}) SELECT ${list(table)} FROM ${waiting(table)} ORDER BY place ${more}`;

/** Statements that move the staged rows into the tables of the registry. */
const ARRIVE: Readonly<Record<CopiedTable, string>> = {
  threads: `INSERT INTO threads (${OWN.join(', ')}, killed) SELECT ${OWN.map((name) => ARRIVING[name] ?? name).join(', ')},
    EXISTS (SELECT 1 FROM copying_signals s WHERE s.thread = c.id AND s.kind = 'kill')
    FROM copying_threads c ORDER BY place`,
  thread_events: `INSERT INTO thread_events (thread, seq, ts, turn, type, data)
    SELECT t.number, c.seq, c.ts, c.turn, c.type, c.data FROM copying_thread_events c
    JOIN threads t ON t.id = c.thread`,
  signals: same('signals'),
  approvals: same('approvals'),
  approval_uses: same('approval_uses'),
  artifact_uses: same('artifact_uses'),
  artifacts: same('artifacts', 'ON CONFLICT (hash) DO NOTHING'),
  secrets: same('secrets'),
  search_texts: same('search_texts'),
  schedules: same('schedules'),
  schedule_fires: same('schedule_fires'),
  audit: same('audit'),
  memories: same('memories'),
  pruned: 'INSERT INTO budgets (thread, account) SELECT thread, budget::jsonb FROM copying_pruned',
};
const ARRIVE_TOO = [
  `INSERT INTO thread_data (thread, limits, inputs, result, birth)
    SELECT id, limits, inputs, result, birth FROM copying_threads`,
  'INSERT INTO budgets (thread, account) SELECT id, budget::jsonb FROM copying_threads',
];
const TAKEN = `SELECT id FROM (SELECT id FROM copying_threads UNION ALL SELECT thread FROM copying_pruned) c
  JOIN budgets b ON b.thread = c.id UNION ALL SELECT id FROM copying_approvals JOIN approvals USING (id) LIMIT 5`;

async function arrive(line: Line, counts: RowCounts): Promise<Outcome<null>> {
  const taken = await line.all<{ id: string }>(TAKEN);
  if (taken.length > 0) {
    const ids = taken.map(({ id }) => id);
    const message = `the target already has ${ids.map((id) => `\`${id}\``).join(', ')}; nothing was copied`;
    return fail('thread_exists', message, { ids });
  }
  const staged = await countIn(line, (table) =>
    table === 'artifacts' ? '(SELECT DISTINCT hash FROM copying_artifacts) a' : waiting(table),
  );
  const wrong = differing(counts, staged);
  if (wrong !== undefined) return fail('store_failed', `the copy is incomplete: ${wrong}`);
  for (const table of COPIED_TABLES) {
    const count = await line.run(ARRIVE[table]);
    // An artifact with the same hash is equal.
    if (table === 'artifacts' || count === counts[table]) continue;
    return fail('store_failed', `the copy is incomplete: ${count} rows of ${table} arrived`);
  }
  for (const sql of ARRIVE_TOO) await line.run(sql);
  await line.run(`DROP TABLE ${REMOVE.join(', ')}`);
  return ok(null);
}

export async function openServerTarget(options: OwnedDatabase): Answer<CopyTarget> {
  const opened = await openLine(options);
  if (!opened.ok) return opened;
  const line = opened.output;
  const name = `kernmantle copy ${options.place.schema}`;
  try {
    const [lock] = await line.all<{ got: boolean }>(
      'SELECT pg_try_advisory_lock(hashtext($1)) AS got',
      [name],
    );
    if (!lock?.got) {
      await line.close();
      return fail('store_busy', `another process copies into ${options.shown}; try again later`);
    }
    for (const sql of MAKE) await line.run(sql);
  } catch (error) {
    await line.close();
    return line.fault(error);
  }
  const remove = async (tree: string): Promise<void> => {
    for (const table of REMOVE) await line.run(`DELETE FROM ${table} WHERE tree = $1`, [tree]);
  };
  async function together<T>(work: () => Promise<T>, isGood: (result: T) => boolean): Promise<T> {
    await line.run('BEGIN');
    let isWritten = false;
    try {
      const result = await work();
      isWritten = isGood(result);
      return result;
    } finally {
      await line.run(isWritten ? 'COMMIT' : 'ROLLBACK');
    }
  }
  const always = () => true;
  return ok({
    async staged() {
      const rows = await line.all<CopyTree>('SELECT tree, mark FROM copying_trees');
      return new Map(rows.map(({ tree, mark }) => [tree, mark]));
    },
    stage: ({ tree, mark }, rows) =>
      together(async () => {
        await remove(tree);
        for await (const [table, page] of rows) await insertRows(line, tree, table, page);
        await line.run('INSERT INTO copying_trees (tree, mark) VALUES ($1, $2)', [tree, mark]);
      }, always),
    drop: (tree) => together(() => remove(tree), always),
    finish: (counts) =>
      together(
        () => arrive(line, counts),
        ({ ok: isDone }) => isDone,
      ),
    fault: line.fault,
    close: line.close,
  });
}
