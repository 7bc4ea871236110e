// Matches globs. `*` and `?` match within a segment. `**` as a whole segment matches any number of
// segments, also none, so `src/**` covers `src`. Braces, negation and extglob are not supported: their
// characters are literal, and `globProblem` reports them in a glob that a person wrote. Both loops match
// with two pointers and return only to the latest star, so that the worst case of every pattern is
// quadratic in the text.

function matchSegment(pattern: string, text: string): boolean {
  let [p, t, star, mark] = [0, 0, -1, 0];
  while (t < text.length) {
    if (p < pattern.length && pattern[p] === '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.length && (pattern[p] === '?' || pattern[p] === text[t])) {
      p++;
      t++;
    } else if (star !== -1) {
      p = star + 1;
      t = ++mark;
    } else return false;
  }
  while (pattern[p] === '*') p++;
  return p === pattern.length;
}

export function matchGlob(pattern: string, text: string): boolean {
  const [patterns, segments] = [pattern.split('/'), text.split('/')];
  let [p, s, star, mark] = [0, 0, -1, 0];
  while (s < segments.length) {
    if (p < patterns.length && patterns[p] === '**') {
      star = p++;
      mark = s;
    } else if (
      p < patterns.length &&
      (patterns[p] === segments[s] || matchSegment(patterns[p] as string, segments[s] as string))
    ) {
      p++;
      s++;
    } else if (star !== -1) {
      p = star + 1;
      s = ++mark;
    } else return false;
  }
  while (patterns[p] === '**') p++;
  return p === patterns.length;
}

/** Returns the problem of a glob that a person wrote. Undefined for a valid one. */
export function globProblem(pattern: string): string | undefined {
  if (pattern === '') return 'is empty';
  if (pattern.length > 1024) return 'is longer than 1024 characters';
  const odd = /[{}[\]!]|[@+?*]\(/.exec(pattern)?.[0];
  if (odd !== undefined) return `may not use \`${odd}\` (only \`*\`, \`**\` and \`?\` are special)`;
  if (/[\u0000-\u001f\u007f]/.test(pattern)) return 'contains a control character';
  if (pattern.split('/').includes('..')) return 'may not contain `..`';
  if (pattern.split('/').some((part) => part !== '**' && part.includes('**'))) {
    return 'may use `**` only as a whole segment';
  }
  return undefined;
}

/** Returns the part before the first special character, which two overlapping globs must share. */
export const literalPrefix = (pattern: string): string => /^[^*?]*/.exec(pattern)?.[0] ?? '';
