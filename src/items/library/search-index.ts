// Ranked full text in memory: for every word, the documents it stands in and how much it says about
// each. Documents come and go one at a time; a removed one leaves a gap that is closed later.

// Words in order, so that those beginning with a prefix stand together. New ones are put in when
// they are first asked for: one sort for a thousand files, not a thousand.

export interface Vocabulary {
  add(word: string): void;
  /** The longer words that begin with this one, at most `max`. */
  longerThan(prefix: string, max: number): string[];
  /** Forgets all and takes these. */
  reset(words: Iterable<string>): void;
}

/** Two sorted lists as one. */
function merge(a: readonly string[], b: readonly string[]): string[] {
  const merged: string[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const takeA = j >= b.length || (i < a.length && (a[i] ?? '') < (b[j] ?? ''));
    merged.push(takeA ? (a[i++] ?? '') : (b[j++] ?? ''));
  }
  return merged;
}

/** Where the first word that is not smaller stands. */
function firstFrom(words: readonly string[], word: string): number {
  let [low, high] = [0, words.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((words[middle] ?? '') < word) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function createVocabulary(): Vocabulary {
  let words: string[] = [];
  let fresh: string[] = [];

  function sorted(): readonly string[] {
    if (fresh.length > 0) {
      words = merge(words, fresh.sort());
      fresh = [];
    }
    return words;
  }

  return {
    add(word) {
      fresh.push(word);
    },
    longerThan(prefix, max) {
      const found: string[] = [];
      const all = sorted();
      for (let at = firstFrom(all, prefix); at < all.length && found.length < max; at++) {
        const word = all[at] ?? '';
        if (!word.startsWith(prefix)) break;
        if (word !== prefix) found.push(word);
      }
      return found;
    },
    reset(all) {
      words = [...all].sort();
      fresh = [];
    },
  };
}

/** What a word is worth by where it stands. */
export const WEIGHTS = { name: 5, description: 2, tags: 1.5, body: 1 } as const;
export type Field = keyof typeof WEIGHTS;
export type Fields = Readonly<Record<Field, string>>;

export interface Scores {
  /** Documents that hold at least one word of the query, in no particular order. */
  documents: number[];
  /** By document number. */
  score: Float64Array;
}

export interface SearchIndex {
  add(fields: Fields): number;
  remove(document: number): void;
  /** Every document that holds a word of the query or a longer form of it. */
  match(words: readonly string[]): Scores;
  size(): number;
}

/** Texts beyond this are found by their beginning. */
const MAX_BODY = 32 * 1024;
const MAX_FORMS = 200;
const MIN_PREFIX = 3;
/** How much a longer form counts: `deploy` finds `deployment`, below a `deploy` of the same place. */
const FORM_FACTOR = 0.5;

/** Lower-case words of letters and digits: `read_file`, `read-file` and `fs/read` are two words each. */
export const wordsOf = (text: string): string[] =>
  text.toLowerCase().match(/[\p{L}\p{N}]{1,64}/gu) ?? [];

/** Repetition says more, but ten times is not ten times as much. */
const repeated = (count: number): number => Math.min(3, 1 + Math.log(count));

function weigh(fields: Fields): Map<string, number> {
  const weights = new Map<string, number>();
  for (const field of Object.keys(WEIGHTS) as Field[]) {
    const counts = new Map<string, number>();
    for (const word of wordsOf(fields[field].slice(0, MAX_BODY))) {
      counts.set(word, (counts.get(word) ?? 0) + 1);
    }
    for (const [word, count] of counts) {
      weights.set(word, (weights.get(word) ?? 0) + WEIGHTS[field] * repeated(count));
    }
  }
  return weights;
}

interface Posting {
  documents: number[];
  weights: number[];
}

export function createSearchIndex(): SearchIndex {
  const postings = new Map<string, Posting>();
  const vocabulary = createVocabulary();
  /** Not removed; by document number. */
  const alive: boolean[] = [];
  let count = 0;
  /** Removed, but still in the lists; and numbers that no list holds any more. */
  let gaps: number[] = [];
  const free: number[] = [];

  /** The word itself, then longer forms of it. */
  function formsOf(word: string): string[] {
    const own = postings.has(word) ? [word] : [];
    return word.length < MIN_PREFIX ? own : [...own, ...vocabulary.longerThan(word, MAX_FORMS)];
  }

  /** Gaps in the lists are closed when there are many, and their numbers used again. */
  function tidy(): void {
    if (gaps.length < 100 || gaps.length < count / 2) return;
    for (const [word, { documents, weights }] of postings) {
      const kept = documents.flatMap((document, at) => (alive[document] ? [at] : []));
      if (kept.length === 0) postings.delete(word);
      else {
        postings.set(word, {
          documents: kept.map((at) => documents[at] ?? 0),
          weights: kept.map((at) => weights[at] ?? 0),
        });
      }
    }
    vocabulary.reset(postings.keys());
    for (const gap of gaps) free.push(gap);
    gaps = [];
  }

  return {
    size: () => count,
    add(fields) {
      const document = free.pop() ?? alive.length;
      alive[document] = true;
      count++;
      for (const [word, weight] of weigh(fields)) {
        let posting = postings.get(word);
        if (!posting) {
          posting = { documents: [], weights: [] };
          postings.set(word, posting);
          vocabulary.add(word);
        }
        posting.documents.push(document);
        posting.weights.push(weight);
      }
      return document;
    },
    remove(document) {
      if (!alive[document]) return;
      alive[document] = false;
      count--;
      gaps.push(document);
      tidy();
    },
    match(words) {
      const score = new Float64Array(alive.length);
      const matched = new Uint16Array(alive.length);
      const best = new Float64Array(alive.length);
      const documents: number[] = [];
      for (const word of words) {
        // A document counts once per word of the query, by the form that says most.
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
      // What holds all words of a query stands before what repeats one of them.
      for (const document of documents) {
        score[document] = ((score[document] ?? 0) * (matched[document] ?? 0)) / words.length;
      }
      return { documents, score };
    },
  };
}
