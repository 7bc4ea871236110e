// Answers a query with a page of items that match its words, filtered and ranked. The order does not depend
// on the time at which a file was read.
import { lastSegment } from '../../base/index.ts';
import type { Item } from '../item.ts';
import { type ItemKind, KINDS, SOURCES, type Source } from '../item-kinds.ts';
import { sha256Hex } from '../signature.ts';
import type { FileRecord } from './record.ts';
import { createSearchIndex, queryWords, readerOf, wordsOf } from './search-index.ts';

export interface SearchQuery {
  text: string;
  kind?: ItemKind;
  category?: string;
  /** Sources of the items, which can be hidden by other items. Absent: only items that no other item hides. */
  source?: Source | readonly Source[];
  limit?: number;
  cursor?: string;
  categories?: (kind: ItemKind, category: string, id: string) => boolean;
}

export interface SearchPage {
  hits: { item: Item; score: number }[];
  total: number;
  next_cursor?: string;
  /** Reason for which the query is invalid and has no hits. Absent: the query is valid. */
  problem?: string;
}

const DEFAULT_LIMIT = 10;
const MAX_LIMIT = 1000;
/** Number of the best hits that are searched for the words in their order. */
const PHRASE_DEPTH = 300;
const PHRASE_FACTOR = { whole: 2, head: 1.5, body: 1.25 } as const;

/** A searchable item: a file, or an item of a program, which has no source. */
export interface Searchable extends Pick<FileRecord, 'kind' | 'id' | 'file' | 'item' | 'text'> {
  facts(): Pick<Item, 'title' | 'description' | 'category' | 'tags'>;
  root?: Pick<FileRecord['root'], 'source'>;
}

const rank = ({ root }: Searchable): number => (root ? SOURCES.indexOf(root.source) : -1);

interface Candidate {
  record: Searchable;
  score: number;
}

const order = (a: Candidate, b: Candidate): number =>
  b.score - a.score ||
  KINDS.indexOf(a.record.kind) - KINDS.indexOf(b.record.kind) ||
  (a.record.id < b.record.id ? -1 : a.record.id > b.record.id ? 1 : 0) ||
  rank(a.record) - rank(b.record) ||
  (a.record.file < b.record.file ? -1 : 1);

/**
 * Returns the lowest score among the best `count`, because a sort of ten thousand hits for a page of ten
 * would be slow.
 */
function leastOfBest(documents: readonly number[], score: Float64Array, count: number): number {
  if (documents.length <= count) return Number.NEGATIVE_INFINITY;
  const scores = Float64Array.from(documents, (document) => score[document] ?? 0).sort();
  return scores[scores.length - count] ?? 0;
}

/** Returns the key that binds a cursor to its query, because it would skip hits of another query. */
const cursorKey = ({ text, kind, category, source }: SearchQuery): string =>
  sha256Hex(JSON.stringify([text, kind, category, source])).slice(0, 12);

function readCursor(query: SearchQuery): number | undefined {
  if (query.cursor === undefined) return 0;
  const [, offset, key] = /^(\d{1,9})-([0-9a-f]{12})$/.exec(query.cursor) ?? [];
  return key === cursorKey(query) ? Number(offset) : undefined;
}

/** Returns the factor for a document that contains the words in their order. */
function phraseFactor(record: Searchable, words: readonly string[], phrase: RegExp): number {
  const { title, description, category, tags } = record.facts();
  const whole = words.join(' ');
  const names = [record.id, lastSegment(record.id), title];
  if (names.some((name) => wordsOf(name).join(' ') === whole)) return PHRASE_FACTOR.whole;
  if (words.length < 2) return 1;
  const head = [record.id, title, description, category, ...tags].join('\n');
  if (phrase.test(head)) return PHRASE_FACTOR.head;
  return phrase.test(record.text()) ? PHRASE_FACTOR.body : 1;
}

/** Creates an index that maps each document to its record. */
function createIndexed(readWords?: (text: string) => string[]) {
  const index = createSearchIndex(readWords);
  const documents = new Map<Searchable, number>();
  const records: (Searchable | undefined)[] = [];
  return {
    records: records as readonly (Searchable | undefined)[],
    match: index.match,
    add(record: Searchable): void {
      const { title, description, category, tags } = record.facts();
      const document = index.add({
        name: `${record.id} ${title}`,
        description,
        tags: `${category} ${tags.join(' ')}`,
        body: record.text(),
      });
      documents.set(record, document);
      records[document] = record;
    },
    remove(record: Searchable): void {
      const document = documents.get(record);
      if (document === undefined) return;
      documents.delete(record);
      records[document] = undefined;
      index.remove(document);
    },
  };
}

export function createLibrarySearch() {
  const whole = createIndexed();
  const waiting = new Set<Searchable>();
  let hasSearched = false;

  /**
   * Returns the index for a query. Most commands search once, so the first query gets an index of only
   * its own words. The second query gets an index of all words, which later queries reuse.
   */
  function indexFor(words: readonly string[]): ReturnType<typeof createIndexed> {
    const indexed = hasSearched ? whole : createIndexed(readerOf(words));
    for (const record of waiting) indexed.add(record);
    if (hasSearched) waiting.clear();
    hasSearched = true;
    return indexed;
  }

  function best(
    records: readonly (Searchable | undefined)[],
    matched: readonly number[],
    score: Float64Array,
    count: number,
  ): Candidate[] {
    const least = leastOfBest(matched, score, count);
    const ranked = matched
      .filter((document) => (score[document] ?? 0) >= least)
      .map((document) => ({
        record: records[document] as Searchable,
        score: score[document] ?? 0,
      }));
    return ranked.sort(order).slice(0, count);
  }

  function accepts(query: SearchQuery, isEffective: (record: Searchable) => boolean) {
    const sources = query.source === undefined ? undefined : [query.source].flat();
    return (record: Searchable): boolean => {
      if (query.kind !== undefined && record.kind !== query.kind) return false;
      const isThere = sources
        ? record.root !== undefined && sources.includes(record.root.source)
        : isEffective(record);
      if (!isThere) return false;
      const { category } = record.facts();
      if (query.category !== undefined && category !== query.category) return false;
      return query.categories?.(record.kind, category, record.id) ?? true;
    };
  }

  return {
    /** Adds a file, whose words are read at the next search. */
    add: (record: Searchable) => void waiting.add(record),
    remove(record: Searchable): void {
      waiting.delete(record);
      whole.remove(record);
    },
    search(query: SearchQuery, isEffective: (record: Searchable) => boolean): SearchPage {
      const offset = readCursor(query);
      if (offset === undefined) {
        return { hits: [], total: 0, problem: 'the cursor does not belong to this query' };
      }
      const words = queryWords(query.text);
      const isAccepted = accepts(query, isEffective);
      const { records, match } = indexFor(words);
      const { documents: matched, score } = match(words);
      const accepted = matched.filter((document) => isAccepted(records[document] as Searchable));
      const limit = Math.max(1, Math.min(MAX_LIMIT, query.limit ?? DEFAULT_LIMIT));
      const end = offset + limit;
      const phrase = new RegExp(wordsOf(query.text).join('[^\\p{L}\\p{N}]+'), 'iu');
      const ranked = best(records, accepted, score, Math.max(end, PHRASE_DEPTH)).map((one, at) =>
        at < PHRASE_DEPTH && words.length > 0
          ? { ...one, score: one.score * phraseFactor(one.record, words, phrase) }
          : one,
      );
      const page = ranked.sort(order).slice(offset, end);
      return {
        hits: page.map(({ record, score }) => ({ item: record.item, score })),
        total: accepted.length,
        ...(end < accepted.length ? { next_cursor: `${end}-${cursorKey(query)}` } : {}),
      };
    },
  };
}
