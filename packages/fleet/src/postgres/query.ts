// Finding threads. Every text of the statement is ours; what a caller gives is only ever bound.
import { fail, type Outcome, ok, parseJson } from '@kernmantle/core/base';
import type { Answer, ThreadFilter, ThreadPage } from '@kernmantle/core/store';
import { MAX_LOOKED, searchForm, THREAD_STATUSES } from '@kernmantle/core/store';
import type { Database } from './connection.ts';
import { SUMMARY_COLUMNS, type SummaryColumns, summaryOf } from './rows.ts';

const DEFAULT_LIMIT = 10;
const MAX_LIMIT = 500;
const within = (
  at: string,
): string => `id IN (WITH RECURSIVE below(id) AS (SELECT ${at}::text COLLATE "C" UNION ALL
  SELECT t.id FROM threads t JOIN below ON t.parent = below.id) SELECT id FROM below)`;

const foundBy = (
  text: string,
): string => `(strpos(lower(id || ' ' || directive), ${text}) > 0 OR EXISTS (SELECT 1 FROM search_texts s
  WHERE s.thread = t.id AND (strpos(s.first, ${text}) > 0 OR strpos(s.last, ${text}) > 0)))`;

interface Conditions {
  readonly texts: string[];
  readonly values: unknown[];
}

/** The place of a value in the statement. */
function bind({ values }: Conditions, value: unknown): string {
  values.push(value);
  return `$${values.length}`;
}

function conditionsOf(filter: ThreadFilter): Outcome<Conditions> {
  const found: Conditions = { texts: [], values: [] };
  const { texts } = found;
  for (const column of ['directive', 'parent', 'root', 'kind', 'project'] as const) {
    const value = filter[column];
    if (value !== undefined) texts.push(`${column} = ${bind(found, value)}`);
  }
  if (filter.tenant === '') texts.push('tenant IS NULL');
  else if (filter.tenant !== undefined) texts.push(`tenant = ${bind(found, filter.tenant)}`);
  if (filter.within !== undefined) texts.push(within(bind(found, filter.within)));
  if (filter.status !== undefined) {
    const wanted = [filter.status].flat();
    const unknown = wanted.find((status) => !THREAD_STATUSES.includes(status));
    if (unknown !== undefined || wanted.length === 0) {
      const known = THREAD_STATUSES.join(', ');
      return fail('invalid_input', `\`${unknown ?? ''}\` is no status; known: ${known}`);
    }
    texts.push(`status = ANY (${bind(found, wanted)})`);
  }
  return ok(found);
}

const cursorOf = (at: number, id: string): string =>
  Buffer.from(JSON.stringify([at, id])).toString('base64url');

function readCursor(cursor: string): Outcome<[at: number, id: string]> {
  const read = parseJson(Buffer.from(cursor, 'base64url').toString());
  const [at, id] = read.ok && Array.isArray(read.output) ? read.output : [];
  return Number.isSafeInteger(at) && typeof id === 'string'
    ? ok([Number(at), id])
    : fail('invalid_input', 'this cursor is not one of ours; start again without it');
}

export async function queryThreads(database: Database, filter: ThreadFilter): Answer<ThreadPage> {
  const conditions = conditionsOf(filter);
  if (!conditions.ok) return conditions;
  const { texts, values } = conditions.output;
  const column = filter.order_by === 'updated' ? 'updated' : 'created';
  const isUp = filter.direction === 'asc';
  if (filter.cursor !== undefined) {
    const after = readCursor(filter.cursor);
    if (!after.ok) return after;
    const [at, id] = after.output.map((value) => bind(conditions.output, value));
    texts.push(`(${column}, id) ${isUp ? '>' : '<'} (${at}, ${id})`);
  }
  const limit = Math.max(1, Math.min(Math.trunc(filter.limit ?? DEFAULT_LIMIT), MAX_LIMIT));
  const where = texts.length === 0 ? '' : `WHERE ${texts.join(' AND ')}`;
  const way = isUp ? 'ASC' : 'DESC';
  const order = `ORDER BY ${column} ${way}, id ${way}`;
  const all = `SELECT ${SUMMARY_COLUMNS} FROM threads ${where} ${order}`;
  const search = searchForm(filter.search ?? '');
  const sql =
    search === ''
      ? all
      : `SELECT * FROM (${all} LIMIT ${MAX_LOOKED}) t WHERE ${foundBy(`$${values.length + 1}`)} ${order}`;
  const bound = search === '' ? values : [...values, search];
  const isCut = `${all} OFFSET ${MAX_LOOKED - 1} LIMIT 1`;
  const read = await database.read(async (on) => {
    const found = await on.all<SummaryColumns>(`${sql} LIMIT ${limit + 1}`, ...bound);
    // Without a further row, a search goes on after the last thread that it looked at.
    const next = found.length > limit ? found[limit - 1] : undefined;
    const last =
      next ?? (search === '' ? undefined : await on.get<SummaryColumns>(isCut, ...values));
    return { rows: found.slice(0, limit).map(summaryOf), last };
  });
  if (!read.ok) return read;
  const { rows, last } = read.output;
  return ok(last ? { rows, next_cursor: cursorOf(last[column], last.id) } : { rows });
}
