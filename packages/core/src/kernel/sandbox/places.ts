// Which places of the project a sandboxed child sees, and which it may write: exactly where its caller
// holds `fs.read` and `fs.write`. Rights are globs that only a verifier can read, so it is asked, place
// by place: a folder is open when names nobody could have guessed are open in it, at every depth. The
// globs tell where answers can change; where they do not say, every entry is asked about, and what is
// too much to ask about is closed.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../../base/index.ts';

/** `none`: it shows as empty. */
export type PlaceAccess = 'none' | 'read' | 'write';

export interface MountPlace {
  /** From the project's root. */
  path: string;
  access: PlaceAccess;
}

/** What of the project a child sees and may write. */
export interface Places {
  root: PlaceAccess;
  /** Where the answer differs from that of the folder above; outer before inner. */
  places: readonly MountPlace[];
}

export interface FoundPlaces extends Places {
  /** Is there nothing of the project, its items aside, that may not be read? */
  readsAll: boolean;
  /** Can a child make something that it may not, by its name? */
  hasNames: boolean;
  /** Links and the like that may not be replaced; no mount can keep them. */
  links: readonly string[];
}

export interface AccessQuestion {
  mayRead(path: string): boolean;
  /** Absent: nothing is written at all. */
  mayWrite?: ((path: string) => boolean) | undefined;
  /** A fresh random name, of signs that no glob holds. */
  unguessable: string;
  /** Every glob that could decide; absent: nobody knows them. */
  globs?: readonly string[] | undefined;
  /** Not looked into, because it is hidden from everybody. */
  skipped?: ReadonlySet<string>;
  /** How many entries are asked about at most. */
  most?: number;
}

/** Whether it is written is not for rights over files to say: `project.ts` decides. */
const CLOSED = /^\.(ai|git)$/i;
const REPOSITORY = '.git';
/** Large, and seldom written by anything but an installer: asked about last. */
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

/** What a child may do at any path: the innermost place that holds it decides. */
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

/** Outer before inner; of two about one path the one that gives less. */
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
  /** By folder, in lower case: names in it at which, or below which, the answer can change. */
  names: Map<string, Set<string>>;
  /** Folders in which it can change anywhere. */
  regions: Set<string>;
}

const isSpecial = (segment: string): boolean => /[*?]/.test(segment);

/** The folder or file that a glob begins with, and whether it is all that matters of it. */
export function literalOf(glob: string): { literal: string; isWhole: boolean } {
  const segments = glob.split('/');
  const special = segments.findIndex(isSpecial);
  if (special === -1) return { literal: glob, isWhole: true };
  const isWhole = segments.slice(special).every((segment) => segment === '**');
  return { literal: segments.slice(0, special).join('/'), isWhole };
}

/** `src/**` changes the answer at `src` and nowhere below; `src/*.ts` anywhere in `src`. */
function shapeOf(globs: readonly string[]): Shape {
  const shape: Shape = { names: new Map(), regions: new Set() };
  for (const glob of globs) {
    // What denies does not look at the case of letters.
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

/** Answers about files and whole folders, and about what decides them. */
export function createJudge({ mayRead, mayWrite, unguessable, globs }: AccessQuestion) {
  // Items are no files to a right to write, which is one to read elsewhere: no glob says so.
  const items = mayRead(`${unguessable}/.ai/${unguessable}`) ? [] : ['**/.ai/**'];
  const relative = [...(globs ?? ['**/*']), ...items].filter((glob) => !glob.startsWith('/'));
  // A glob without `**` answers for one depth alone.
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
  /** A path that nothing but this glob, or one that covers it, was written for. */
  const sampleOf = (glob: string, depth = 2): string =>
    glob
      .split('/')
      .flatMap((segment) =>
        segment === '**'
          ? Array.from({ length: depth }, () => unguessable)
          : segment.replaceAll('*', unguessable).replaceAll('?', unguessable.slice(0, 1)),
      )
      .join('/');
  /** The same at every depth at which another glob could answer differently. */
  const samplesOf = (glob: string): string[] =>
    glob.includes('**')
      ? Array.from({ length: deepest }, (_, depth) => sampleOf(glob, depth + 1))
      : [sampleOf(glob)];
  /** Those that can change an answer, where everything else is open or everything else is closed. */
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
      // A link is never mounted: it could be made to point anywhere.
      isMountable: one.isDirectory() || one.isFile(),
    }));
  } catch {
    return []; // unreadable for us, unreadable in there
  }
}

interface PlacedFolder {
  path: string;
  access: PlaceAccess;
  /** Can the answer about reading, or about writing, change anywhere in it? */
  read: boolean;
  write: boolean;
  isClosed: boolean;
}

/** One step to fewer and larger: the deepest are closed with all that is around them. */
function coarser(shut: readonly MountPlace[]): MountPlace[] {
  const deepest = Math.max(...shut.map(({ path }) => depthOf(path)));
  return inOrder(
    shut.map((place) =>
      depthOf(place.path) === deepest ? { ...place, path: above(place.path) } : place,
    ),
  );
}

/** Closes what was not asked about, and forgets what was found out inside it. */
function closing({ root, places }: Places, shut: readonly MountPlace[]): Places {
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

/** With the writable folders above what is closed: a folder that is a mount cannot be renamed. */
function pinned(found: Places): MountPlace[] {
  const pins = found.places
    .filter(({ access }) => access !== 'write')
    .flatMap(({ path }) => {
      const folders: string[] = [];
      for (let folder = above(path); folder !== ''; folder = above(folder)) folders.push(folder);
      return folders;
    });
  const accessOf = accessIn(found);
  const wanted = [...new Set(pins)].filter((path) => accessOf(path) === 'write');
  return inOrder([
    ...found.places,
    ...wanted.map((path): MountPlace => ({ path, access: 'write' })),
  ]);
}

/** What cannot be closed one by one is closed together; what cannot be opened so is refused. */
function bounded(given: Places): Outcome<Places> {
  for (let found = given; ; ) {
    const places = pinned(found);
    if (places.length <= MAX_PLACES) return ok({ root: found.root, places });
    const accessOf = accessIn(found);
    const closed = found.places.filter(
      ({ path, access }) => RANK[access] < RANK[accessOf(above(path))],
    );
    if (closed.length === 0) {
      return fail(
        'permission_denied',
        `the rights over files cover more than ${MAX_PLACES} separate places, too many to mount; grant whole folders`,
        { missing: '', rule: 'sandbox' },
      );
    }
    found = closing(found, coarser(closed));
  }
}

const isItem = (path: string): boolean => /^(\*\*\/)?\.ai(\/|$)/i.test(path);

interface Walked extends Places {
  places: MountPlace[];
  /** What was too much to ask about, and what is left of it. */
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
  let left = question.most ?? MAX_ENTRIES;
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
    left -= entries.length;
    if (left < 0) {
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
      const said = isFolder ? judge.folder(path) : judge.file(path);
      const kept: PlaceAccess = folder.access === 'write' ? 'write' : 'read';
      const access = isClosed && said !== 'none' ? kept : said;
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

/** Everything that may not be written, though its folder may, mountable or not. */
export function findUnwritable(projectRoot: string, question: AccessQuestion): string[] {
  const { places, links } = walk(projectRoot, { ...question, most: Number.POSITIVE_INFINITY });
  const closed = places.filter(({ access }) => access !== 'write');
  return [...closed.map(({ path }) => path), ...links];
}

export function findPlaces(projectRoot: string, question: AccessQuestion): Outcome<FoundPlaces> {
  const { unasked, links, reading, writing, ...walked } = walk(projectRoot, question);
  let shut: readonly MountPlace[] = unasked;
  while (shut.length > MAX_UNASKED) shut = coarser(shut);
  const found = bounded(closing(walked, shut));
  if (!found.ok) return found;
  const { root, places } = found.output;
  const isKnown = question.globs !== undefined;
  const readsAll =
    root !== 'none' &&
    (isKnown
      ? reading.every(isItem)
      : places.every(({ path, access }) => access !== 'none' || isItem(path)));
  const hasNames = !isKnown || ![...reading, ...writing].every(isItem);
  return ok({ root, places, readsAll, hasNames, links });
}
