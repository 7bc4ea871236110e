// Lists the threads of a registry, page by page.
import { type Outcome, ok } from '../base/index.ts';
import type { Store, ThreadFilter, ThreadSummary } from './port.ts';

const PAGE = 500;

/** Yields pages of the threads that match, in order. It ends after a page that cannot be read. */
export async function* threadPages(
  store: Pick<Store, 'query'>,
  filter: ThreadFilter,
): AsyncGenerator<Outcome<readonly ThreadSummary[]>, undefined> {
  for (let page: ThreadFilter | undefined = { limit: PAGE, ...filter }; page; ) {
    const result: Awaited<ReturnType<Store['query']>> = await store.query(page);
    if (!result.ok) {
      yield result;
      return;
    }
    const { rows, next_cursor: cursor } = result.output;
    yield ok(rows);
    page = cursor === undefined ? undefined : { ...page, cursor };
  }
}

/** Returns all matching threads. INVARIANT: an unreadable page is a failure, never a shorter list. */
export async function allThreads(
  store: Pick<Store, 'query'>,
  filter: ThreadFilter,
): Promise<Outcome<ThreadSummary[]>> {
  const rows: ThreadSummary[] = [];
  for await (const page of threadPages(store, filter)) {
    if (!page.ok) return page;
    rows.push(...page.output);
  }
  return ok(rows);
}
