// Routes of threads: list, view, tree, cost, items that ran; and the start of a thread.
import { fail, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import { reports } from '@kernmantle/core/reports';
import {
  allThreads,
  isEnded,
  parseThreadId,
  type Store,
  THREAD_STATUSES,
  type ThreadFilter,
  type ThreadRow,
  type ThreadStatus,
  type ThreadSummary,
} from '@kernmantle/core/store';
import type { Context } from 'hono';
import type { DataObject, ListedRun, ThreadList, ThreadView } from '../../model/api.ts';
import { answer } from '../answer.ts';
import type { AddRoutes, ApiEnv, WebParts } from '../context.ts';
import { needs } from '../roles.ts';
import { callIndexesOf } from '../thread/call-index.ts';
import { threadCost } from '../thread/thread-cost.ts';
import { viewThread } from '../thread/thread-view.ts';
import { createOnce } from './idempotency.ts';
import { findRow, readCount, readQuery, readWish } from './request-bodies.ts';

const PAGE = 500;
const DEFAULT_ROWS = 50;
const MAX_TIME = 8.64e15;
const OPEN: readonly ThreadStatus[] = THREAD_STATUSES.filter((status) => !isEnded(status));
const QUERY = [
  'status',
  'directive',
  'within',
  'since',
  'hooks',
  'q',
  'order',
  'limit',
  'cursor',
] as const;

interface ListQuery {
  readonly filter: ThreadFilter;
  readonly since: number;
  readonly limit: number;
  readonly cursor: string | undefined;
}

function statusesIn(text: string | undefined): Outcome<readonly ThreadStatus[] | undefined> {
  if (text === undefined) return ok(undefined);
  const words = text.split(',');
  const list = words.flatMap((word) => THREAD_STATUSES.find((one) => one === word) ?? []);
  if (list.length === words.length && words.length <= THREAD_STATUSES.length) return ok(list);
  return fail('invalid_input', `\`status\` must be one or more of ${THREAD_STATUSES.join(', ')}`);
}

function readListQuery(context: Context<ApiEnv>): Outcome<ListQuery> {
  const query = readQuery(context, QUERY);
  if (!query.ok) return query;
  const {
    status,
    directive,
    within,
    order = 'created',
    hooks = 'no',
    q = '',
    cursor,
  } = query.output;
  const statuses = statusesIn(status);
  if (!statuses.ok) return statuses;
  const limit = readCount(query.output.limit, { name: 'limit', min: 1, max: PAGE });
  if (!limit.ok) return limit;
  const since = readCount(query.output.since, { name: 'since', max: MAX_TIME });
  if (!since.ok) return since;
  if (order !== 'created' && order !== 'updated') {
    return fail('invalid_input', '`order` must be `created` or `updated`');
  }
  if (!/^(yes|no|true|false|1|0)$/.test(hooks)) {
    return fail('invalid_input', '`hooks` must be `yes` or `no`');
  }
  const id = within === undefined ? ok(undefined) : parseThreadId(within);
  if (!id.ok) return id;
  return ok({
    filter: {
      order_by: order,
      ...(statuses.output && { status: statuses.output }),
      ...(directive !== undefined && { directive }),
      ...(id.output !== undefined && { within: id.output }),
      ...(/^(no|false|0)$/.test(hooks) && { kind: 'thread' as const }),
      ...(q !== '' && { search: q }),
    },
    since: since.output ?? 0,
    limit: limit.output ?? DEFAULT_ROWS,
    cursor,
  });
}

async function pageOf(store: Store, query: ListQuery) {
  const { filter, limit, cursor, since } = query;
  const page = await store.query({ ...filter, limit, ...(cursor !== undefined && { cursor }) });
  if (!page.ok || since === 0) return page;
  const time = filter.order_by === 'updated' ? 'updated' : 'created';
  const rows = page.output.rows.filter((row) => row[time] >= since);
  // Rows are sorted newest first, so all rows after the first old one are old.
  return ok(rows.length < page.output.rows.length ? { rows } : page.output);
}

/** Returns the threads that have not ended. The first page contains all of them, at any age. */
async function openRows(
  store: Store,
  { filter, cursor, since }: ListQuery,
): Promise<Outcome<ThreadSummary[]>> {
  const { search, status } = filter;
  if (cursor !== undefined || search !== undefined || status !== undefined || since > 0)
    return ok([]);
  const page = await store.query({ ...filter, status: OPEN, limit: PAGE });
  return page.ok ? ok(page.output.rows) : page;
}

/** Returns the names of directives for a filter. They are read once, then extended by new rows. */
function createNames() {
  const names = new Set<string>();
  let hasRead: Store | undefined;
  return async (store: Store, rows: readonly ThreadSummary[]): Promise<readonly string[]> => {
    for (const { directive } of rows) names.add(directive);
    const all = hasRead === store ? ok([]) : await allThreads(store, { kind: 'thread' });
    // The next list reads them again if they cannot be read now.
    if (all.ok) hasRead = store;
    for (const { directive } of all.ok ? all.output : []) names.add(directive);
    return [...names].toSorted().slice(0, PAGE);
  };
}

const NOTHING = { waits: 0, at_work: 0, ended: 0, due: 0 };

function createListing({ hub, store }: WebParts) {
  const namesOf = createNames();
  return async (context: Context<ApiEnv>): Promise<Outcome<ThreadList>> => {
    const query = readListQuery(context);
    if (!query.ok) return query;
    const position = hub.position();
    const opened = await store();
    if (!opened.ok) {
      if (opened.error.code !== 'not_found') return opened;
      return ok({ rows: [], totals: NOTHING, directives: [], position });
    }
    const page = await pageOf(opened.output, query.output);
    if (!page.ok) return page;
    const open = await openRows(opened.output, query.output);
    if (!open.ok) return open;
    const listed = new Set(page.output.rows.map(({ id }) => id));
    const all = [...page.output.rows, ...open.output.filter(({ id }) => !listed.has(id))];
    const rows = await hub.rows(all);
    if (!rows.ok) return rows;
    const totals = await hub.totals();
    if (!totals.ok) return totals;
    const { next_cursor } = page.output;
    return ok({
      rows: rows.output,
      totals: totals.output,
      directives: await namesOf(opened.output, all),
      ...(next_cursor !== undefined && { next_cursor }),
      position,
    });
  };
}

/** Returns all threads with the same root, oldest first. */
async function treeOf(
  { hub }: WebParts,
  store: Store,
  { root }: ThreadRow,
): Promise<Outcome<{ rows: ListedRun[] }>> {
  const page = await store.query({ root, limit: PAGE, direction: 'asc' });
  if (!page.ok) return page;
  const rows = await hub.rows(page.output.rows);
  return rows.ok ? ok({ rows: rows.output }) : rows;
}

/** Describes the items that ran. Only the check against the current files can change. */
async function ranOf(
  { runtime }: WebParts,
  store: Store,
  row: ThreadRow,
): Promise<Outcome<ThreadView['ran']>> {
  const { explainThread } = await reports.whatRan();
  const explanation: Outcome<JsonObject> = await explainThread(runtime, store, row);
  return explanation.ok ? ok(explanation.output as DataObject) : explanation;
}

export const addThreadsRoutes: AddRoutes = (api, parts) => {
  const books = callIndexesOf(parts.runtime);
  const list = createListing(parts);
  const once = createOnce();
  api.get('/threads', needs('view'), async (context) => answer(context, await list(context)));
  api.post('/threads', needs('steer'), (context) =>
    once(context, async () => {
      const request = await readWish(context, 'run');
      if (!request.ok) return request;
      return await parts.runs.start({ inputs: {}, ...request.output }, context.get('asker'));
    }),
  );
  /** Adds a route that reads one thread. */
  const one = (
    path: string,
    work: (store: Store, row: ThreadRow) => Promise<Outcome<unknown>>,
  ): void => {
    api.get(`/threads/:id${path}`, needs('view'), async (context) => {
      const query = readQuery(context, []);
      const hit = query.ok ? await findRow(parts, context) : query;
      return answer(context, hit.ok ? await work(hit.output.store, hit.output.row) : hit);
    });
  };
  one('', async (store, row) => {
    const ran = await ranOf(parts, store, row);
    return ran.ok ? await viewThread(parts, books, store, row, ran.output) : ran;
  });
  one('/tree', (store, row) => treeOf(parts, store, row));
  one('/explain', (store, row) => ranOf(parts, store, row));
  one('/cost', (store, row) => threadCost(store, row));
};
