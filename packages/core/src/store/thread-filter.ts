// Builds the statement that finds threads, for every store. Values of a caller are only bound to it.
import { fail, type Outcome, ok, parseJson } from '../base/index.ts';
import { MAX_LOOKED, searchForm } from './encode.ts';
import type { ThreadFilter, ThreadPage, ThreadSummary } from './port.ts';
import { THREAD_STATUSES } from './thread-id.ts';

const [DEFAULT_LIMIT, MAX_LIMIT] = [10, 500];

/** The parts of the statement that differ between databases. */
interface SqlForm {
  /** Character before the number of a bound value. */
  readonly mark: '?' | '$';
  /** Type cast after a bound value that is the first row of a column of ids. */
  readonly idType: string;
  /** Returns the position of a text in another one, 0 if it does not occur. */
  readonly position: 'instr' | 'strpos';
}

interface Statement {
  readonly sql: string;
  readonly values: readonly (string | number)[];
}

interface ThreadQuery {
  /** Returns at most one row more than a page has. */
  readonly find: Statement;
  /** Returns the last thread that a search reads. It is needed if `find` returns no row beyond the page. */
  readonly cut: Statement | undefined;
  readonly limit: number;
  /** Makes the page, with the row of `cut` if that was read. */
  pageOf(
    matches: readonly ThreadSummary[],
    last?: Pick<ThreadSummary, 'id' | 'created' | 'updated'>,
  ): ThreadPage;
}

function statusesOf({ status = [] }: ThreadFilter): Outcome<readonly string[]> {
  const statuses = [status].flat();
  const unknown = statuses.find((one) => !THREAD_STATUSES.includes(one));
  if (unknown === undefined && statuses.length > 0) return ok(statuses);
  const names = THREAD_STATUSES.join(', ');
  return fail('invalid_input', `invalid status \`${unknown ?? ''}\`; use one of: ${names}`);
}

function readCursor(cursor: string): Outcome<[at: number, id: string]> {
  const read = parseJson(Buffer.from(cursor, 'base64url').toString());
  const [at, id] = read.ok && Array.isArray(read.output) ? read.output : [];
  return Number.isSafeInteger(at) && typeof id === 'string'
    ? ok([Number(at), id])
    : fail('invalid_input', 'invalid cursor; list again without a cursor');
}

export function threadQuery(
  filter: ThreadFilter,
  columns: string,
  { mark, idType, position }: SqlForm,
): Outcome<ThreadQuery> {
  const [texts, values]: [string[], (string | number)[]] = [[], []];
  const bind = (value: string | number): string => `${mark}${values.push(value)}`;
  for (const column of [
    'directive',
    'parent',
    'root',
    'kind',
    'project',
    'tenant',
    'runner',
  ] as const) {
    const value = filter[column];
    if (column === 'tenant' && value === '') texts.push('tenant IS NULL');
    else if (value !== undefined) texts.push(`${column} = ${bind(value)}`);
  }
  if (filter.within !== undefined) {
    texts.push(`id IN (WITH RECURSIVE below(id) AS (SELECT ${bind(filter.within)}${idType} UNION ALL
      SELECT t.id FROM threads t JOIN below ON t.parent = below.id) SELECT id FROM below)`);
  }
  if (filter.status !== undefined) {
    const statuses = statusesOf(filter);
    if (!statuses.ok) return statuses;
    texts.push(`status IN (${statuses.output.map(bind).join(', ')})`);
  }
  const column = filter.order_by === 'updated' ? 'updated' : 'created';
  const isUp = filter.direction === 'asc';
  if (filter.cursor !== undefined) {
    const after = readCursor(filter.cursor);
    if (!after.ok) return after;
    texts.push(`(${column}, id) ${isUp ? '>' : '<'} (${after.output.map(bind).join(', ')})`);
  }
  const way = isUp ? 'ASC' : 'DESC';
  const order = `ORDER BY ${column} ${way}, id ${way}`;
  const where = texts.length === 0 ? '' : `WHERE ${texts.join(' AND ')}`;
  const all = `SELECT ${columns} FROM threads ${where} ${order}`;
  const cut = { sql: `${all} LIMIT 1 OFFSET ${MAX_LOOKED - 1}`, values: [...values] };
  const search = searchForm(filter.search ?? '');
  let sql = all;
  if (search !== '') {
    const text = bind(search);
    sql = `SELECT * FROM (${all} LIMIT ${MAX_LOOKED}) t
      WHERE ${position}(lower(id || ' ' || directive), ${text}) > 0 OR EXISTS (SELECT 1 FROM search_texts s
        WHERE s.thread = t.id AND (${position}(s.first, ${text}) > 0 OR ${position}(s.last, ${text}) > 0))
      ${order}`;
  }
  const limit = Math.max(1, Math.min(Math.trunc(filter.limit ?? DEFAULT_LIMIT), MAX_LIMIT));
  const find = { sql: `${sql} LIMIT ${bind(limit + 1)}`, values };
  return ok({
    find,
    cut: search === '' ? undefined : cut,
    limit,
    pageOf(matches, last) {
      const rows = matches.slice(0, limit);
      // Without a further row, a search continues after the last thread that it read.
      const next = matches.length > limit ? rows.at(-1) : last;
      if (!next) return { rows };
      const cursor = JSON.stringify([next[column], next.id]);
      return { rows, next_cursor: Buffer.from(cursor).toString('base64url') };
    },
  });
}
