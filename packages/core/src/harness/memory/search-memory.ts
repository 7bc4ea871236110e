// Searches rows of memory: the best rows by the words of a query, in lists by what they are worth.
import type { JsonObject } from '../../base/index.ts';
import {
  judgeMemory,
  type MemoryStanding,
  mergeAll,
  type ResultFacts,
  removeLabels,
} from '../../flow/index.ts';
import { createSearchIndex, queryWords, readerOf } from '../../items/index.ts';
import type { PrimitiveResult } from '../../kernel/index.ts';
import { type MemoryRow, wordOf } from '../../store/index.ts';

/** Fields of a search that vouch for nothing. Strangers' rows are untrusted besides. */
const FACTS: ResultFacts = {
  free_text: ['from strangers'],
  unvouched: ['from strangers', 'notes', 'subject', 'id', 'scope', 'written'],
};

/** Returns the rows that match the query, the best first. Without words all rows match, the newest first. */
function rankMemories(rows: readonly MemoryRow[], query: string): MemoryRow[] {
  const words = queryWords(query);
  const index = createSearchIndex(readerOf(words));
  for (const { subject, text } of rows) {
    index.add({ name: subject, description: '', tags: '', body: text });
  }
  const { documents, score } = index.match(words);
  return documents
    .toSorted((a, b) => (score[b] ?? 0) - (score[a] ?? 0) || a - b)
    .flatMap((document) => rows[document] ?? []);
}

/** Returns the best rows by their standing. Rows of strangers never displace others. */
export function searchMemories(
  rows: readonly MemoryRow[],
  query: string,
  count: number,
): PrimitiveResult {
  const judged = rankMemories(rows, query).map((row) => ({
    row,
    ...judgeMemory(row.marks, wordOf(row)),
  }));
  const foreign = judged.filter(({ standing }) => standing === 'stranger');
  const own = judged.filter(({ standing }) => standing !== 'stranger').slice(0, count);
  const best = [...own, ...foreign.slice(0, count - own.length)];
  const rowsWith = (of: MemoryStanding) =>
    best.flatMap(({ row, standing }) => (standing === of ? [shownMemory(row, standing)] : []));
  const strangers = rowsWith('stranger');
  return {
    output: {
      confirmed: rowsWith('confirmed'),
      notes: rowsWith('note'),
      ...(strangers.length > 0 && { 'from strangers': strangers }),
    },
    // `untrusted` is on the rows of strangers, by the facts. All other marks are on the whole answer.
    marks: removeLabels(mergeAll(best.map(({ marks }) => marks)), ['untrusted']),
    facts: FACTS,
  };
}

function shownMemory(
  { id, scope, text, subject, created, thread, marks }: MemoryRow,
  standing: MemoryStanding,
): JsonObject {
  return {
    id,
    scope,
    ...(subject !== '' && { subject }),
    text,
    written: new Date(created).toISOString(),
    ...(standing === 'stranger' && { thread, taint: [...marks.taint] }),
  };
}
