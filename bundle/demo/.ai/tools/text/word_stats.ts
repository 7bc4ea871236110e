interface Config {
  /** How many frequent words to list. */
  top: number;
  /** Shorter words are not listed. */
  shortest: number;
}

export function wordStats({ text }: { text: string }, { top, shortest }: Config) {
  const words = text.toLowerCase().match(/\p{L}+/gu) ?? [];
  const counts = new Map<string, number>();
  for (const word of words) {
    if (word.length >= shortest) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const frequent = [...counts]
    .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    .slice(0, top)
    .map(([word, count]) => ({ word, count }));
  return {
    words: words.length,
    lines: text === '' ? 0 : text.replace(/\n$/, '').split('\n').length,
    characters: text.length,
    frequent,
  };
}
