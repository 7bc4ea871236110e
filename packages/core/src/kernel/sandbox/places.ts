// Computes which paths of the project a sandboxed child can read and write: exactly those for which its caller
// has `fs.read` and `fs.write`. Rights are globs that only a verifier can evaluate, so it is called path by
// path. A folder is open if random names are open in it at every depth. The globs tell where answers can
// change. Without them every entry is checked, and entries beyond the bound are closed.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../../base/index.ts';

/** Access of a child to a path. `none`: the path appears empty. */
export type PlaceAccess = 'none' | 'read' | 'write';

export interface MountPlace {
  /** Path relative to the project's root. */
  path: string;
  access: PlaceAccess;
}

/** The part of the project that a child can read and write. */
export interface Places {
  root: PlaceAccess;
  /** Paths whose access differs from that of their parent folder, outer before inner. */
  places: readonly MountPlace[];
}

export interface FoundPlaces extends Places {
  /** True if everything in the project except its items may be read. */
  readsAll: boolean;
  /** True if a child could create a file that its name forbids. */
  hasNames: boolean;
  /** Links and special files that may not be replaced. No mount can protect them. */
  links: readonly string[];
}

export interface AccessQuestion {
  mayRead(path: string): boolean;
  /** Judges whether a path may be written. Absent: the child writes nothing. */
  mayWrite?: ((path: string) => boolean) | undefined;
  /** A random name that no glob contains. */
  unguessable: string;
  /** Every glob that could decide. Absent: the globs are not known. */
  globs?: readonly string[] | undefined;
  /** Paths that are not visited, because they are always hidden. */
  skipped?: ReadonlySet<string>;
  /** Maximum number of entries that are checked. */
  most?: number;
}

/** Rights over files do not decide about these names; `project.ts` does. */
const CLOSED = /^\.(ai|git)$/i;
const REPOSITORY = '.git';
/** Large folders that mostly installers write. They are checked last. */
const LAST = new Set(['node_modules', '.ai']);
const MAX_ENTRIES = 10_000;
const MAX_PLACES = 256;
const MAX_UNASKED = 32;
const MAX_DEPTH = 40;
const RANK: Readonly<Record<PlaceAccess, number>> = { none: 0, read: 1, write: 2 };

const least = (a: PlaceAccess, b: PlaceAccess): PlaceAccess => (RANK[a] < RANK[b] ? a : b);
export const below = (folder: string, name: string): string =>
  folder === '' ? name : `${folder}/${name}`;
export const isWithin = (folder: string, path: string): boolean =>
  folder === '' || path === folder || path.startsWith(`${folder}/`);
const depthOf = (path: string): number => path.split('/').length;
const above = (path: string): string => path.split('/').slice(0, -1).join('/');

/** Returns the access at any path: the innermost place that contains the path decides. */
export function accessIn({ root, places }: Places): (path: string) => PlaceAccess {
  const byPath = new Map(places.map(({ path, access }) => [path, access]));
  return (path) => {
    for (let folder = path; folder !== ''; folder = above(folder)) {
      const access = byPath.get(folder);
      if (access !== undefined) return access;
    }
    return root;
  };
}

export const accessAt = (view: Places, path: string): PlaceAccess => accessIn(view)(path);

/** Sorts places, outer before inner. Of two with the same path the lower access stays. */
export function inOrder(places: readonly MountPlace[]): MountPlace[] {
  const byPath = new Map<string, PlaceAccess>();
  for (const { path, access } of places) {
    byPath.set(path, least(byPath.get(path) ?? 'write', access));
  }
  return [...byPath]
    .map(([path, access]) => ({ path, access }))
    .sort((a, b) => depthOf(a.path) - depthOf(b.path));
}

interface Shape {
  /** By folder, in lower case: names at which, or below which, the answer can change. */
  names: Map<string, Set<string>>;
  /** Folders in which the answer can change anywhere. */
  regions: Set<string>;
}

const isSpecial = (segment: string): boolean => /[*?]/.test(segment);

/** Returns the literal prefix of a glob, and whether it is the whole path of the glob. */
export function literalOf(glob: string): { literal: string; isWhole: boolean } {
  const segments = glob.split('/');
  const special = segments.findIndex(isSpecial);
  if (special === -1) return { literal: glob, isWhole: true };
  const isWhole = segments.slice(special).every((segment) => segment === '**');
  return { literal: segments.slice(0, special).join('/'), isWhole };
}

/**
 * Finds where answers can change: for `src/**` at `src` and nowhere below, for `src/*.ts` anywhere in `src`.
 */
function shapeOf(globs: readonly string[]): Shape {
  const shape: Shape = { names: new Map(), regions: new Set() };
  for (const glob of globs) {
    // Denials ignore the case of letters.
    const { literal, isWhole } = literalOf(glob.toLowerCase());
    const segments = literal === '' ? [] : literal.split('/');
    segments.forEach((name, index) => {
      const folder = segments.slice(0, index).join('/');
      shape.names.set(folder, (shape.names.get(folder) ?? new Set()).add(name));
    });
    if (!isWhole) shape.regions.add(literal);
  }
  return shape;
}

/** Returns functions that judge the access to a file or a whole folder, and the globs that decide about it. */
export function createJudge({ mayRead, mayWrite, unguessable, globs }: AccessQuestion) {
  // A right to write does not cover items, which are only read; no glob expresses this.
  const items = mayRead(`${unguessable}/.ai/${unguessable}`) ? [] : ['**/.ai/**'];
  const relative = [...(globs ?? ['**/*']), ...items].filter((glob) => !glob.startsWith('/'));
  // A glob without `**` answers for one depth only.
  const ofOneDepth = relative.filter((glob) => isSpecial(glob) && !glob.includes('**'));
  const deepest = Math.min(MAX_DEPTH, Math.max(1, ...ofOneDepth.map(depthOf)) + 1);
  const file = (path: string): PlaceAccess =>
    mayRead(path) ? (mayWrite?.(path) ? 'write' : 'read') : 'none';
  function folder(path: string): PlaceAccess {
    let [inside, access]: [string, PlaceAccess] = [path, 'write'];
    for (let depth = 0; depth < deepest && access !== 'none'; depth++) {
      inside = below(inside, unguessable);
      access = least(access, file(inside));
    }
    return access;
  }
  /** Returns a path that only this glob, or one that covers it, can match. */
  const sampleOf = (glob: string, depth = 2): string =>
    glob
      .split('/')
      .flatMap((segment) =>
        segment === '**'
          ? Array.from({ length: depth }, () => unguessable)
          : segment.replaceAll('*', unguessable).replaceAll('?', unguessable.slice(0, 1)),
      )
      .join('/');
  /** Returns such a path for every depth at which another glob could answer differently. */
  const samplesOf = (glob: string): string[] =>
    glob.includes('**')
      ? Array.from({ length: deepest }, (_, depth) => sampleOf(glob, depth + 1))
      : [sampleOf(glob)];
  /** Returns the globs that can change the answer of a fully open or fully closed folder. */
  const deciding = (isOpen: boolean, may: (path: string) => boolean): readonly string[] =>
    globs === undefined || !isOpen
      ? relative
      : relative.filter((glob) => glob !== '**' && !may(sampleOf(glob)));
  return { file, folder, deciding, sampleOf, samplesOf };
}

function entriesOf(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true }).map((one) => ({
      name: one.name,
      isFolder: one.isDirectory(),
      // A link is never mounted, because its target could be changed.
      isMountable: one.isDirectory() || one.isFile(),
    }));
  } catch {
    return []; // the child cannot read it either
  }
}

interface PlacedFolder {
  path: string;
  access: PlaceAccess;
  /** True if the answer about reading, or about writing, can change inside of it. */
  read: boolean;
  write: boolean;
  isClosed: boolean;
}

/** Replaces the deepest closed places by their parent folders, which gives fewer places. */
function mergeDeepest(shut: readonly MountPlace[]): MountPlace[] {
  const deepest = Math.max(...shut.map(({ path }) => depthOf(path)));
  return inOrder(
    shut.map((place) =>
      depthOf(place.path) === deepest ? { ...place, path: above(place.path) } : place,
    ),
  );
}

/** Closes the unchecked places and drops everything that was found inside of them. */
function closePlaces({ root, places }: Places, shut: readonly MountPlace[]): Places {
  if (shut.length === 0) return { root, places };
  const isCovered = (place: MountPlace): boolean =>
    shut.some(
      (one) =>
        one !== place &&
        isWithin(one.path, place.path) &&
        RANK[one.access] <= RANK[place.access] &&
        (one.path !== place.path || RANK[one.access] < RANK[place.access]),
    );
  const whole = shut.find(({ path }) => path === '');
  return {
    root: whole ? least(root, whole.access) : root,
    places: inOrder([...places, ...shut].filter((one) => one.path !== '' && !isCovered(one))),
  };
}

/** Adds the writable folders above closed places, because a mounted folder cannot be renamed. */
function withParents(current: Places): MountPlace[] {
  const pins = current.places
    .filter(({ access }) => access !== 'write')
    .flatMap(({ path }) => {
      const folders: string[] = [];
      for (let folder = above(path); folder !== ''; folder = above(folder)) folders.push(folder);
      return folders;
    });
  const accessOf = accessIn(current);
  const writableParents = [...new Set(pins)].filter((path) => accessOf(path) === 'write');
  return inOrder([
    ...current.places,
    ...writableParents.map((path): MountPlace => ({ path, access: 'write' })),
  ]);
}

/**
 * Limits the number of mounts. Closed places are merged; if too many open places remain, the start is refused.
 */
function limitPlaces(start: Places): Outcome<Places> {
  for (let current = start; ; ) {
    const places = withParents(current);
    if (places.length <= MAX_PLACES) return ok({ root: current.root, places });
    const accessOf = accessIn(current);
    const closed = current.places.filter(
      ({ path, access }) => RANK[access] < RANK[accessOf(above(path))],
    );
    if (closed.length === 0) {
      return fail(
        'permission_denied',
        `the rights over files cover more than ${MAX_PLACES} separate paths, too many to mount; grant whole folders`,
        { missing: '', rule: 'sandbox' },
      );
    }
    current = closePlaces(current, mergeDeepest(closed));
  }
}

const isItem = (path: string): boolean => /^(\*\*\/)?\.ai(\/|$)/i.test(path);

interface Walked extends Places {
  places: MountPlace[];
  /** Places that were not checked because of the bound. */
  unasked: MountPlace[];
  links: string[];
  /** The globs that decide about reading, and about writing. */
  reading: readonly string[];
  writing: readonly string[];
}

function walk(projectRoot: string, question: AccessQuestion): Walked {
  const judge = createJudge(question);
  const root = judge.folder('');
  const { mayRead, mayWrite, skipped } = question;
  const reading = judge.deciding(root !== 'none', mayRead);
  const writing = mayWrite ? judge.deciding(root === 'write', mayWrite) : [];
  const [readShape, writeShape] = [shapeOf(reading), shapeOf(writing)];
  const places: MountPlace[] = [];
  const unasked: MountPlace[] = [];
  const links: string[] = [];
  let budget = question.most ?? MAX_ENTRIES;
  const isIn = ({ regions }: Shape, path: string) => regions.has(path.toLowerCase());
  const top: PlacedFolder = {
    path: '',
    access: root,
    read: isIn(readShape, ''),
    write: isIn(writeShape, ''),
    isClosed: false,
  };
  const [queue, last] = [[top], [] as PlacedFolder[]];
  for (let next = queue.shift(); next; next = queue.shift() ?? last.shift()) {
    const folder = next;
    const lower = folder.path.toLowerCase();
    const names = [readShape.names.get(lower), writeShape.names.get(lower)];
    const isRegion = folder.read || (folder.write && !folder.isClosed);
    if (!isRegion && names.every((set) => set === undefined)) continue;
    const entries = entriesOf(join(projectRoot, folder.path)).filter(
      ({ name }) => isRegion || names.some((set) => set?.has(name.toLowerCase())),
    );
    budget -= entries.length;
    if (budget < 0) {
      const access = folder.read ? 'none' : least('read', folder.access);
      if (access !== folder.access) unasked.push({ path: folder.path, access });
      continue;
    }
    for (const { name, isFolder, isMountable } of entries) {
      const path = below(folder.path, name);
      if (!isMountable) {
        if (folder.access === 'write' && judge.file(path) !== 'write') links.push(path);
        continue;
      }
      const isClosed = folder.isClosed || CLOSED.test(name);
      const ownAccess = isFolder ? judge.folder(path) : judge.file(path);
      const inherited: PlaceAccess = folder.access === 'write' ? 'write' : 'read';
      const access = isClosed && ownAccess !== 'none' ? inherited : ownAccess;
      if (access !== folder.access) places.push({ path, access });
      if (!isFolder || name.toLowerCase() === REPOSITORY || skipped?.has(path)) continue;
      (LAST.has(name) ? last : queue).push({
        path,
        access,
        read: folder.read || isIn(readShape, path),
        write: folder.write || isIn(writeShape, path),
        isClosed,
      });
    }
  }
  return { root, places, unasked, links, reading, writing };
}

/** Returns all paths that may not be written although their folder may, mountable or not. */
export function findUnwritable(projectRoot: string, question: AccessQuestion): string[] {
  const { places, links } = walk(projectRoot, { ...question, most: Number.POSITIVE_INFINITY });
  const closed = places.filter(({ access }) => access !== 'write');
  return [...closed.map(({ path }) => path), ...links];
}

export function findPlaces(projectRoot: string, question: AccessQuestion): Outcome<FoundPlaces> {
  const { unasked, links, reading, writing, ...walked } = walk(projectRoot, question);
  let shut: readonly MountPlace[] = unasked;
  while (shut.length > MAX_UNASKED) shut = mergeDeepest(shut);
  const limited = limitPlaces(closePlaces(walked, shut));
  if (!limited.ok) return limited;
  const { root, places } = limited.output;
  const isKnown = question.globs !== undefined;
  const readsAll =
    root !== 'none' &&
    (isKnown
      ? reading.every(isItem)
      : places.every(({ path, access }) => access !== 'none' || isItem(path)));
  const hasNames = !isKnown || ![...reading, ...writing].every(isItem);
  return ok({ root, places, readsAll, hasNames, links });
}
