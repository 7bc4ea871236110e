// Makes all `dir:` labels. INVARIANT: a path in the project is always named from its root, and any other path
// by its absolute path, so that one policy applies to scripts, tools and commands.
import { isAbsolute, posix, relative, resolve, sep } from 'node:path';

const LABEL = 'dir:';
const IN_PLACE_OF_ALL = 'src:file';

/**
 * Returns the path relative to the project's root, with `/`, `''` for the root. Undefined for a path outside.
 */
export function placeIn(root: string, path: string): string | undefined {
  const way = relative(root, resolve(root, path));
  if (way === '..' || way.startsWith(`..${sep}`) || isAbsolute(way)) return undefined;
  return sep === '/' ? way : way.replaceAll(sep, '/');
}

/** Returns the folders of a file as labels name them, the nearest first. `/` and the root have no name. */
function foldersOf(root: string, path: string): string[] {
  const place = placeIn(root, path) ?? resolve(root, path).replaceAll(sep, '/');
  const folders: string[] = [];
  for (let dir = posix.dirname(place); dir !== '.' && dir !== '/'; dir = posix.dirname(dir)) {
    folders.push(dir);
    if (dir === posix.dirname(dir)) break;
  }
  return folders;
}

/**
 * Returns `src:file` and `dir:` for each folder of a file, the nearest first. `path`: absolute, or
 * relative to the root.
 */
export function fileLabels(root: string, path: string): string[] {
  const labels = ['src:file'];
  for (const folder of foldersOf(root, path)) labels.push(LABEL + folder);
  return labels;
}

/** Returns `src:file` and `dir:` for a listed folder and the folders above it. */
export const listingLabels = (root: string, folder: string): string[] =>
  fileLabels(root, `${folder}/*`);

/**
 * Normalizes a `dir:` label of a person to the form of files. Other labels are unchanged. The project
 * and the folders around it contain every file of the project.
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

/** Returns an identity that all names of a file share. Undefined for a file with one name. */
export const inodeOf = (info: {
  dev: number | bigint;
  ino: number | bigint;
  nlink: number | bigint;
}) => (Number(info.nlink) > 1 ? `${info.dev}:${info.ino}` : undefined);
