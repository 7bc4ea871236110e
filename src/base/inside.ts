import { isAbsolute, resolve, sep } from 'node:path';

/** Most paths are as `resolve` would leave them, which is much faster to see than to do. */
const settled = (path: string): string =>
  !isAbsolute(path) || /(?:^|[/\\])\.{0,2}(?:[/\\]|$)/.test(path.slice(1)) ? resolve(path) : path;

/** Is `path` this folder or below it? A `..` in either is followed, a link is not. */
export function isInside(path: string, folder: string): boolean {
  const [at, base] = [settled(path), settled(folder)];
  return at === base || at.startsWith(base.endsWith(sep) ? base : `${base}${sep}`);
}
