// Ranks rows of memory by the words of a query.
import { createSearchIndex, isFormOf, wordsOf } from '../../items/index.ts';
import type { MemoryRow } from '../../store/index.ts';

/** Returns the rows that match the query, the best first. Without words all rows match, the newest first. */
export function rankMemories(rows: readonly MemoryRow[], query: string): MemoryRow[] {
  const words = wordsOf(query);
  // Only words of the query are indexed, because the index serves one query.
  const index = createSearchIndex(isFormOf(words));
  for (const { subject, text } of rows) {
    index.add({ name: subject, description: '', tags: '', body: text });
  }
  const { documents, score } = index.match(words);
  return documents
    .toSorted((a, b) => (score[b] ?? 0) - (score[a] ?? 0) || a - b)
    .flatMap((document) => rows[document] ?? []);
}
