// Threads of a registry, a page at a time.
import { type Outcome, ok } from '../base/index.ts';
import type { Store, ThreadFilter, ThreadSummary } from './port.ts';

const PAGE = 500;

/** Pages of the threads that fit, in their order. A page that cannot be read is the last. */
export async function* threadPages(
  store: Pick<Store, 'query'>,
  filter: ThreadFilter,
): AsyncGenerator<Outcome<readonly ThreadSummary[]>, undefined> {
  for (let page: ThreadFilter | undefined = { limit: PAGE, ...filter }; page; ) {
    const found: Awaited<ReturnType<Store['query']>> = await store.query(page);
    if (!found.ok) {
      yield found;
      return;
    }
    const { rows, next_cursor: cursor } = found.output;
    yield ok(rows);
    page = cursor === undefined ? undefined : { ...page, cursor };
  }
}

/** Every thread that fits. INVARIANT: a page that cannot be read is a failure, never a shorter list. */
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
