// Finding threads. Every text of the statement is ours; what a caller gives is only ever bound.
import type { SQLInputValue } from 'node:sqlite';
import { fail, type Outcome, ok, parseJson } from '../../base/index.ts';
import { MAX_LOOKED, searchForm } from '../encode.ts';
import type { ThreadFilter, ThreadPage } from '../port.ts';
import { THREAD_STATUSES } from '../thread-id.ts';
import type { Connection } from './file/connection.ts';
import { SUMMARY, type SummaryRow, toSummary } from './threads.ts';

const DEFAULT_LIMIT = 10;
const MAX_LIMIT = 500;
const WITHIN = `id IN (WITH RECURSIVE below(id) AS (SELECT ? UNION ALL
  SELECT t.id FROM threads t JOIN below ON t.parent = below.id) SELECT id FROM below)`;

interface Conditions {
  texts: string[];
  values: SQLInputValue[];
}

function conditionsOf(filter: ThreadFilter): Outcome<Conditions> {
  const found: Conditions = { texts: [], values: [] };
  for (const column of ['directive', 'parent', 'root', 'kind', 'project'] as const) {
    const value = filter[column];
    if (value === undefined) continue;
    found.texts.push(`${column} = ?`);
    found.values.push(value);
  }
  if (filter.tenant !== undefined) {
    found.texts.push('tenant IS ?');
    found.values.push(filter.tenant || null);
  }
  if (filter.within !== undefined) {
    found.texts.push(WITHIN);
    found.values.push(filter.within);
  }
  if (filter.status !== undefined) {
    const wanted = [filter.status].flat();
    const unknown = wanted.find((status) => !THREAD_STATUSES.includes(status));
    if (unknown !== undefined || wanted.length === 0) {
      const known = THREAD_STATUSES.join(', ');
      return fail('invalid_input', `\`${unknown ?? ''}\` is no status; known: ${known}`);
    }
    found.texts.push(`status IN (${wanted.map(() => '?').join(', ')})`);
    found.values.push(...wanted);
  }
  return ok(found);
}

const toCursor = (at: number, id: string): string =>
  Buffer.from(JSON.stringify([at, id])).toString('base64url');

function readCursor(cursor: string): Outcome<[at: number, id: string]> {
  const read = parseJson(Buffer.from(cursor, 'base64url').toString());
  const [at, id] = read.ok && Array.isArray(read.output) ? read.output : [];
  return typeof at === 'number' && typeof id === 'string'
    ? ok([at, id])
    : fail('invalid_input', 'this cursor is not one of ours; start again without it');
}

const FOUND = `instr(lower(id || ' ' || directive), ?) > 0 OR EXISTS (SELECT 1 FROM search_texts
  WHERE thread = id AND (instr(first, ?) > 0 OR instr(last, ?) > 0))`;

export function query(connection: Connection, filter: ThreadFilter): Outcome<ThreadPage> {
  const conditions = conditionsOf(filter);
  if (!conditions.ok) return conditions;
  const { texts, values } = conditions.output;
  const column = filter.order_by === 'updated' ? 'updated' : 'created';
  const isUp = filter.direction === 'asc';
  if (filter.cursor !== undefined) {
    const after = readCursor(filter.cursor);
    if (!after.ok) return after;
    texts.push(`(${column}, id) ${isUp ? '>' : '<'} (?, ?)`);
    values.push(...after.output);
  }
  const limit = Math.max(1, Math.min(Math.trunc(filter.limit ?? DEFAULT_LIMIT), MAX_LIMIT));
  const where = texts.length === 0 ? '' : `WHERE ${texts.join(' AND ')}`;
  const way = isUp ? 'ASC' : 'DESC';
  const order = `ORDER BY ${column} ${way}, id ${way}`;
  const all = `SELECT ${SUMMARY} FROM threads ${where} ${order}`;
  const search = searchForm(filter.search ?? '');
  const sql =
    search === '' ? all : `SELECT * FROM (${all} LIMIT ${MAX_LOOKED}) WHERE ${FOUND} ${order}`;
  const bound = search === '' ? values : [...values, search, search, search];
  const found = connection.all<SummaryRow>(`${sql} LIMIT ?`, ...bound, limit + 1).map(toSummary);
  const rows = found.slice(0, limit);
  // Without a further row, a search goes on after the last thread that it looked at.
  const last =
    found.length > limit
      ? rows.at(-1)
      : search !== '' &&
        connection.get<SummaryRow>(`${all} LIMIT 1 OFFSET ?`, ...values, MAX_LOOKED - 1);
  return ok(last ? { rows, next_cursor: toCursor(last[column], last.id) } : { rows });
}
