// The one maker of `dir:` labels. INVARIANT: what lies in the project is named from its root, all else
// by its absolute path, whoever reads it; so one policy holds for scripts, tools and commands alike.
import { isAbsolute, posix, relative, resolve, sep } from 'node:path';

const LABEL = 'dir:';
const IN_PLACE_OF_ALL = 'src:file';

/** From the project's root, with `/`, `''` for the root; undefined for what lies outside. */
export function placeIn(root: string, path: string): string | undefined {
  const way = relative(root, resolve(root, path));
  if (way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way)) return undefined;
  return sep === '/' ? way : way.replaceAll(sep, '/');
}

/** The folders that hold a file, the nearest first, as labels name them; `/` and the root have no name. */
function foldersOf(root: string, path: string): string[] {
  const place = placeIn(root, path) ?? resolve(root, path).replaceAll(sep, '/');
  const folders: string[] = [];
  for (let dir = posix.dirname(place); dir !== '.' && dir !== '/'; dir = posix.dirname(dir)) {
    folders.push(dir);
    if (dir === posix.dirname(dir)) break;
  }
  return folders;
}

/** `src:file` and `dir:` for each folder above a file, the nearest first. `path`: absolute, or from the root. */
export function fileLabels(root: string, path: string): string[] {
  const labels = ['src:file'];
  for (const folder of foldersOf(root, path)) labels.push(LABEL + folder);
  return labels;
}

/** The same for a look at the names in a folder. */
export const listingLabels = (root: string, folder: string): string[] =>
  fileLabels(root, `${folder}/*`);

/**
 * A `dir:` label as somebody wrote it, in the form that files carry; other labels as they are. The
 * project itself, and what it lies in, hold every file of it.
 */
export function folderLabel(root: string, label: string): string {
  if (!label.startsWith(LABEL) || label === LABEL) return label;
  const absolute = resolve(root, label.slice(LABEL.length));
  const place = placeIn(root, absolute);
  if (place) return LABEL + place;
  return place === '' || placeIn(absolute, root) !== undefined
    ? IN_PLACE_OF_ALL
    : LABEL + absolute.replaceAll(sep, '/');
}

/** The same for all names of a file; undefined where it has one name only. */
export const inodeOf = (info: {
  dev: number | bigint;
  ino: number | bigint;
  nlink: number | bigint;
}) => (Number(info.nlink) > 1 ? `${info.dev}:${info.ino}` : undefined);
