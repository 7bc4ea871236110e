// Finding threads. Every text of the statement is ours; what a caller gives is only ever bound.
import type { SQLInputValue } from 'node:sqlite';
import { fail, type Outcome, ok, parseJson } from '../../base/index.ts';
import type { Database } from '../database/database.ts';
import { THREAD_STATUSES, type ThreadStatus } from '../thread-id.ts';
import { SUMMARY, type ThreadSummary, toSummary } from './threads.ts';

export interface ThreadFilter {
  status?: ThreadStatus | readonly ThreadStatus[];
  directive?: string;
  parent?: string;
  /** The whole tree of this root. */
  root?: string;
  /** This thread and everything below it. */
  within?: string;
  kind?: 'thread' | 'hook';
  project?: string;
  /** Newest first by default. */
  order_by?: 'created' | 'updated';
  direction?: 'desc' | 'asc';
  /** 10 by default, 500 at most. */
  limit?: number;
  cursor?: string;
}

export interface ThreadPage {
  rows: ThreadSummary[];
  /** There is more when present. */
  next_cursor?: string;
}

export interface Query {
  query(filter?: ThreadFilter): Outcome<ThreadPage>;
}

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

export function createQuery(database: Database): Query {
  return {
    query(filter = {}) {
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
      const sql = `SELECT ${SUMMARY} FROM threads ${where} ORDER BY ${column} ${way}, id ${way} LIMIT ?`;
      return database.read(() => {
        const rows = database.all(sql, ...values, limit + 1).map(toSummary);
        const last = rows[limit - 1];
        if (rows.length <= limit || !last) return ok({ rows });
        return ok({ rows: rows.slice(0, limit), next_cursor: toCursor(last[column], last.id) });
      });
    },
  };
}
