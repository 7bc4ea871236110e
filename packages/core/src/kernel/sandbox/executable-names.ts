// Finds names that other programs act upon: a `.git` chooses commands that the person's next `git status`
// runs, and `.ai` contains what the runtime runs. Existing ones ("traps") are mounted read-only. A
// process cannot be kept from creating new ones where it may write, so they are moved out after its end.
import { chmodSync, existsSync, lstatSync, readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fail, isInside, type Outcome, ok } from '../../base/index.ts';
import { below, type PlaceAccess, type Places } from './places.ts';
import { inFolder, rename, statOf, takeAway } from './quarantine.ts';

export interface Trap {
  /** Path relative to the project's root. */
  path: string;
  /**
   * `name`: it acts by its name. `repository`: a folder that git treats as a repository because of its
   * content. `closed`: a folder that cannot be read.
   */
  kind: 'name' | 'repository' | 'closed';
  type: 'folder' | 'file' | 'link';
  /** Identity of the file. It stays the same under another path, and a new file has another one. */
  id: string;
  bornMs: number;
  changedMs: number;
}

export interface Traps {
  /** Ids of traps that existed before the child. */
  known: ReadonlySet<string>;
  /** Ids of repositories that are open to `git.write`. */
  opened: ReadonlySet<string>;
}

/** Entries of a repository that choose code or another configuration. The rest opens to `git.write`. */
const IN_GIT = ['hooks', 'config', 'config.worktree', 'commondir', 'modules', 'worktrees'];
const BY_NAME = /^\.(git|ai)$/i;

interface NamedFolder {
  inode: number;
  changed: number;
  folders: string[];
  names: string[];
  /** Names of sockets, FIFOs and devices. */
  endpoints: string[];
  isRepository: boolean;
  isClosed: boolean;
}

/** A younger time stamp may belong to two states of a folder. */
const SETTLED_MS = 50;
const MAX_CACHED = 100_000;
/** Cache of read folders. Reading a folder costs ten times as much as its time stamp. */
const folderCache = new Map<string, NamedFolder>();

/** Follows the rule of git, which ignores the type of the entries. */
const isRepository = (names: ReadonlySet<string>): boolean =>
  names.has('HEAD') && ((names.has('objects') && names.has('refs')) || names.has('commondir'));

function read(path: string): Omit<NamedFolder, 'inode' | 'changed'> {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    const names = entries.map(({ name }) => name);
    return {
      folders: entries
        .filter((entry) => entry.isDirectory() && !BY_NAME.test(entry.name))
        .map(({ name }) => name),
      names: names.filter((name) => BY_NAME.test(name)),
      endpoints: entries
        .filter((entry) => !entry.isFile() && !entry.isDirectory() && !entry.isSymbolicLink())
        .map(({ name }) => name),
      isRepository: isRepository(new Set(names)),
      isClosed: false,
    };
  } catch {
    return { folders: [], names: [], endpoints: [], isRepository: false, isClosed: true };
  }
}

function readFolder(path: string): NamedFolder | undefined {
  const stats = statOf(path);
  if (!stats?.isDirectory()) return undefined;
  const before = folderCache.get(path);
  if (before?.inode === stats.ino && before.changed === stats.ctimeMs) return before;
  const isSettled = Date.now() - stats.ctimeMs > SETTLED_MS;
  const folder = { ...read(path), inode: stats.ino, changed: stats.ctimeMs };
  folderCache.delete(path);
  if (folderCache.size >= MAX_CACHED) folderCache.clear();
  if (isSettled && !folder.isClosed) folderCache.set(path, folder);
  return folder;
}

function trapAt(projectRoot: string, path: string, kind: Trap['kind']): Trap[] {
  const stats = lstatSync(join(projectRoot, path), { bigint: true, throwIfNoEntry: false });
  if (!stats) return [];
  const id = [kind, stats.dev, stats.ino, stats.birthtimeNs].join(':');
  const type = stats.isSymbolicLink() ? 'link' : stats.isDirectory() ? 'folder' : 'file';
  const [bornMs, changedMs] = [Number(stats.birthtimeMs), Number(stats.ctimeMs)];
  return [{ path, kind, type, id, bornMs, changedMs }];
}

export const isRepositoryFolder = (projectRoot: string, { path, kind, type }: Trap): boolean =>
  kind !== 'closed' &&
  type === 'folder' &&
  !/(^|\/)\.ai$/i.test(path) &&
  existsSync(join(projectRoot, path, 'HEAD'));

export const closedIn = (projectRoot: string, repository: Trap): Trap[] =>
  IN_GIT.flatMap((name) => trapAt(projectRoot, below(repository.path, name), 'name'));

function trapsOf(projectRoot: string, path: string, folder: NamedFolder): Trap[] {
  if (folder.isClosed) return trapAt(projectRoot, path, 'closed');
  const named = folder.names.flatMap((name) => trapAt(projectRoot, below(path, name), 'name'));
  return folder.isRepository ? [...trapAt(projectRoot, path, 'repository'), ...named] : named;
}

/** Returns every trap in these places, outer before inner. */
function searchPlaces(
  projectRoot: string,
  { root, places }: Places,
  counts: (access: PlaceAccess) => boolean,
): Trap[] {
  const listed = new Set(places.map(({ path }) => path));
  const open = places.filter(({ access }) => counts(access)).map(({ path }) => path);
  const others = open.filter((path) => path !== '.git');
  const queue = counts(root) ? ['', ...others] : others;
  const traps: Trap[] = [];
  for (const path of queue) {
    const folder = readFolder(join(projectRoot, path));
    if (!folder) continue;
    traps.push(...trapsOf(projectRoot, path, folder));
    const inside = folder.folders.map((name) => below(path, name));
    queue.push(...inside.filter((one) => !listed.has(one)));
  }
  return traps;
}

/** Returns every trap in the writable places, and the repository of the project itself. */
export const findTraps = (projectRoot: string, places: Places): Trap[] => [
  ...(places.root === 'write' ? [] : trapAt(projectRoot, '.git', 'name')),
  ...searchPlaces(projectRoot, places, (access) => access === 'write'),
];

/** Returns the readable folders in which git could reveal the content of other files. */
export const findRepositories = (projectRoot: string, places: Places): string[] =>
  searchPlaces(projectRoot, places, (access) => access !== 'none')
    .filter(({ path, type }) => type === 'folder' && !/(^|\/)\.ai$/i.test(path))
    .map(({ path }) => path);

function disarm(projectRoot: string, { path, kind, type }: Trap, aside: string): void {
  const place = join(projectRoot, path);
  if (kind === 'closed') return inFolder(place, (folder) => chmodSync(folder, 0));
  // Without `HEAD` git does not treat a folder as a repository, whatever its name.
  if (kind === 'repository') return takeAway(place, 'HEAD', join(aside, path));
  if (type === 'folder') rename(place, 'HEAD');
  takeAway(dirname(place), basename(place), join(aside, dirname(path)));
}

/** Returns the traps that did not exist before, outer before inner. */
export function newTraps(
  projectRoot: string,
  places: Places,
  { known: presentIds, opened }: Traps,
): Trap[] {
  const traps = findTraps(projectRoot, places);
  const inside = traps
    .filter(({ id }) => opened.has(id))
    .flatMap((repository) => closedIn(projectRoot, repository));
  return [...traps, ...inside].filter(({ id }) => !presentIds.has(id));
}

/**
 * Moves traps out of the project, so that nothing acts upon them. Returns all of their paths, also of
 * those that could not be moved.
 */
export function setTrapsAside(
  projectRoot: string,
  traps: readonly Trap[],
  aside: string,
): string[] {
  // Inner ones come first, because the path of an inner one contains the name of the outer one.
  for (const trap of traps.toReversed()) {
    try {
      disarm(projectRoot, trap, aside);
    } catch {
      // The trap was removed or cannot be renamed. The result of the call lists it.
    }
  }
  return traps.map(({ path }) => path);
}

/** Maximum number of folders that are searched. */
const MAX_FOLDERS = 100_000;
const MAX_UNKNOWN = 32;
const MAX_ENDPOINTS = 256;

/** Replaces the deepest folders by their parents until the list is short. */
function fewer(folders: readonly string[]): string[] {
  let closed = [...new Set(folders)];
  while (closed.length > MAX_UNKNOWN) {
    const depth = (path: string): number => path.split('/').length;
    const deepest = Math.max(...closed.map(depth));
    closed = [...new Set(closed.map((path) => (depth(path) === deepest ? dirname(path) : path)))];
  }
  return closed;
}

/**
 * Returns every socket, FIFO and device below these folders: a process outside may be at the other end,
 * and a read-only mount does not prevent its use. Also returns the folders whose content is not known,
 * because they cannot be listed or because there are more than `most`. Installed packages come last.
 * Paths are absolute. Fails with `permission_denied` if there are too many to close.
 */
export function findEndpoints(
  roots: readonly string[],
  isLeftOut: (path: string) => boolean,
  most = MAX_FOLDERS,
): Outcome<string[]> {
  const endpoints: string[] = [];
  const unknown: string[] = [];
  const [first, last]: [string[], string[]] = [[...roots], []];
  let budget = most;
  for (const list of [first, last]) {
    for (const path of list) {
      budget -= 1;
      const folder = budget < 0 ? undefined : readFolder(path);
      if (budget < 0 || folder?.isClosed) unknown.push(path);
      if (!folder) continue;
      endpoints.push(...folder.endpoints.map((name) => `${path}/${name}`));
      for (const name of [...folder.folders, ...folder.names]) {
        const inside = `${path}/${name}`;
        if (!isLeftOut(inside)) (name === 'node_modules' ? last : list).push(inside);
      }
    }
  }
  const closed = fewer(unknown);
  const whole = closed.find((path) =>
    roots.some((root) => isInside(root, path) && (budget < 0 || root !== path)),
  );
  if (whole !== undefined) {
    return fail(
      'permission_denied',
      `folder \`${basename(whole)}\` has more than ${most} folders, too many to search for sockets; list the needed paths under \`sees\` of the tool, or grant \`fs.read\` for fewer folders`,
      { missing: '', rule: 'sandbox' },
    );
  }
  const open = endpoints.filter((path) => !closed.some((folder) => isInside(path, folder)));
  if (open.length > MAX_ENDPOINTS) {
    return fail(
      'permission_denied',
      `more than ${MAX_ENDPOINTS} sockets, FIFOs and devices are visible, such as \`${basename(open[0] ?? '')}\`; move them out of the project`,
      { missing: '', rule: 'sandbox' },
    );
  }
  return ok([...closed, ...open]);
}
