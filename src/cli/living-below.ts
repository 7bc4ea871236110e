import { type Outcome, ok } from '../base/index.ts';
import { isEnded, type Store } from '../store/index.ts';

/** Threads below, deepest first, that have not ended. */
export function livingBelow(store: Store, id: string): Outcome<string[]> {
  const page = store.query({ within: id, limit: 500 });
  if (!page.ok) return page;
  return ok(
    page.output.rows
      .filter((row) => row.id !== id && !isEnded(row.status))
      .sort((a, b) => b.depth - a.depth)
      .map((row) => row.id),
  );
}
