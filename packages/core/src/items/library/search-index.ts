// Indexes documents for ranked full text search in memory. Each word has a list of the documents that contain
// it, with weights. A removed document leaves a gap, which is closed later.
import { countBefore } from '../../base/index.ts';

/** Weight of a word by the field that contains it. */
const WEIGHTS = { name: 5, description: 2, tags: 1.5, body: 1 } as const;
type Field = keyof typeof WEIGHTS;
type Fields = Readonly<Record<Field, string>>;

interface Scores {
  /** Documents with at least one word of the query, unordered. */
  documents: number[];
  /** Score of each document, indexed by its number. */
  score: Float64Array;
}

/** Number of characters of a text that are indexed. */
const MAX_BODY = 32 * 1024;
const MAX_FORMS = 200;
/** Number of characters of a query that are searched. */
const MAX_QUERY = 1000;
const MIN_PREFIX = 3;
/** Factor for a longer form of a word: `deploy` finds `deployment`, which ranks below `deploy`. */
const FORM_FACTOR = 0.5;

/** Number of characters of a word that are indexed. */
const MAX_WORD = 64;
const WORD = new RegExp(`(?<![\\p{L}\\p{N}])[\\p{L}\\p{N}]{1,${MAX_WORD}}`, 'gu');

/**
 * Returns lower-case words of letters and digits: `read_file`, `read-file` and `fs/read` are two words each.
 */
export const wordsOf = (text: string): string[] => text.toLowerCase().match(WORD) ?? [];

/** Returns the factor for a repeated word, which grows less than the number of repetitions. */
const repeated = (count: number): number => Math.min(3, 1 + Math.log(count));

/** Returns the words of a query, each once. A query has a bound, because each word costs a pass over the texts. */
export const queryWords = (text: string): string[] => [
  ...new Set(wordsOf(text.slice(0, MAX_QUERY))),
];

/**
 * Returns a reader of texts that returns only these words and longer forms of them. It is several times as fast as
 * reading all words. Words of a query contain nothing that is special in a pattern.
 */
export function readerOf(words: readonly string[]): (text: string) => string[] {
  if (words.length === 0) return () => [];
  const forms = words.map((word) =>
    word.length < MIN_PREFIX
      ? `${word}(?![\\p{L}\\p{N}])`
      : `${word}[\\p{L}\\p{N}]{0,${MAX_WORD - Array.from(word).length}}`,
  );
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${forms.join('|')})`, 'gu');
  return (text) => text.toLowerCase().match(pattern) ?? [];
}

function weigh(fields: Fields, readWords: (text: string) => string[]): Map<string, number> {
  const weights = new Map<string, number>();
  for (const field of Object.keys(WEIGHTS) as Field[]) {
    const counts = new Map<string, number>();
    for (const word of readWords(fields[field].slice(0, MAX_BODY))) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    for (const [word, count] of counts) {
      weights.set(word, (weights.get(word) ?? 0) + WEIGHTS[field] * repeated(count));
    }
  }
  return weights;
}

/** Returns the longer words with this prefix from a sorted list. */
function longerThan(word: string, words: readonly string[]): string[] {
  const from = countBefore(words.length, (at) => (words[at] ?? '') <= word);
  const near = words.slice(from, from + MAX_FORMS);
  const end = near.findIndex((longer) => !longer.startsWith(word));
  return end === -1 ? near : near.slice(0, end);
}

interface Posting {
  documents: number[];
  weights: number[];
}

/** Returns a posting without removed documents. */
function alivePart({ documents, weights }: Posting, alive: readonly boolean[]): Posting {
  const isAlive = (_: number, at: number) => alive[documents[at] ?? 0];
  return { documents: documents.filter(isAlive), weights: weights.filter(isAlive) };
}

/** Creates an index. An index for one query needs only its words, so it reads texts with `readerOf`. */
export function createSearchIndex(readWords = wordsOf) {
  const postings = new Map<string, Posting>();
  /**
   * Sorted words, so that words with a common prefix are neighbours. New words in `fresh` are added on demand.
   */
  let vocabulary: readonly string[] = [];
  let fresh: string[] = [];
  /** True for each number of an existing document. */
  const alive: boolean[] = [];
  let count = 0;
  /** Numbers of removed documents that postings still contain. `free` contains reusable numbers. */
  let gaps: number[] = [];
  const free: number[] = [];

  /** Returns the word itself, then longer forms of it. */
  function formsOf(word: string): string[] {
    const forms = postings.has(word) ? [word] : [];
    if (word.length < MIN_PREFIX) return forms;
    // The sort merges two sorted runs in one pass.
    if (fresh.length > 0) [vocabulary, fresh] = [[...vocabulary, ...fresh.sort()].sort(), []];
    return [...forms, ...longerThan(word, vocabulary)];
  }

  /** Closes gaps if there are many, and frees their numbers. */
  function tidy(): void {
    if (gaps.length < 100 || gaps.length < count / 2) return;
    for (const [word, posting] of postings) {
      const rest = alivePart(posting, alive);
      if (rest.documents.length === 0) postings.delete(word);
      else postings.set(word, rest);
    }
    [vocabulary, fresh] = [[...postings.keys()].sort(), []];
    for (const gap of gaps) free.push(gap);
    gaps = [];
  }

  return {
    add(fields: Fields): number {
      const document = free.pop() ?? alive.length;
      alive[document] = true;
      count++;
      for (const [word, weight] of weigh(fields, readWords)) {
        let posting = postings.get(word);
        if (!posting) {
          posting = { documents: [], weights: [] };
          postings.set(word, posting);
          fresh.push(word);
        }
        posting.documents.push(document);
        posting.weights.push(weight);
      }
      return document;
    },
    remove(document: number): void {
      if (!alive[document]) return;
      alive[document] = false;
      count--;
      gaps.push(document);
      tidy();
    },
    /** Returns every document with a word of the query or a longer form of one. Without words it returns all. */
    match(words: readonly string[]): Scores {
      const score = new Float64Array(alive.length);
      if (words.length === 0) {
        return { documents: alive.flatMap((isAlive, at) => (isAlive ? [at] : [])), score };
      }
      const matched = new Uint16Array(alive.length);
      const best = new Float64Array(alive.length);
      const documents: number[] = [];
      for (const word of words) {
        // A document counts once per word of the query, by its best form.
        const touched: number[] = [];
        for (const form of formsOf(word)) {
          const posting = postings.get(form);
          if (!posting) continue;
          const rarity = Math.log(1 + count / posting.documents.length);
          const factor = form === word ? rarity : rarity * FORM_FACTOR;
          for (let at = 0; at < posting.documents.length; at++) {
            const document = posting.documents[at] ?? 0;
            if (!alive[document]) continue;
            const value = factor * (posting.weights[at] ?? 0);
            if (best[document] === 0) touched.push(document);
            if (value > (best[document] ?? 0)) best[document] = value;
          }
        }
        for (const document of touched) {
          if (matched[document] === 0) documents.push(document);
          score[document] = (score[document] ?? 0) + (best[document] ?? 0);
          best[document] = 0;
          matched[document] = (matched[document] ?? 0) + 1;
        }
      }
      // A document with all words of a query ranks above one that repeats a single word.
      for (const document of documents) {
        score[document] = ((score[document] ?? 0) * (matched[document] ?? 0)) / words.length;
      }
      return { documents, score };
    },
  };
}
