// Searching forward again and again for something far away, or absent, is how readers become
// quadratic. This remembers the last answer for each needle.

export type Finder = (needle: string, from: number) => number;

/** `indexOf` over one text: linear in total for positions that only grow. */
export function createFinder(text: string): Finder {
  const last = new Map<string, { from: number; at: number }>();
  return (needle, from) => {
    const known = last.get(needle);
    if (known && from >= known.from && (known.at === -1 || known.at >= from)) return known.at;
    const at = text.indexOf(needle, from);
    last.set(needle, { from, at });
    return at;
  };
}
