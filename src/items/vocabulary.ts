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
    const takeA = j >= b.length || (i < a.length && (a[i] as string) < (b[j] as string));
    merged.push(takeA ? (a[i++] as string) : (b[j++] as string));
  }
  return merged;
}

/** Where the first word that is not smaller stands. */
function firstFrom(words: readonly string[], word: string): number {
  let [low, high] = [0, words.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((words[middle] as string) < word) low = middle + 1;
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
        const word = all[at] as string;
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
