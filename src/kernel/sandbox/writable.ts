// Which places of the project a sandboxed child may write: exactly where its caller holds `fs.write`.
// Rights are globs that only a verifier can read, so it is asked, place by place: a folder is
// writable when a name nobody could have guessed may be written in it and below it. The globs tell
// where answers can change; where they do not say, every entry is asked about, and what is too much
// to ask about is not writable.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../../base/index.ts';

export interface MountPlace {
  /** From the project's root. */
  path: string;
  access: 'read' | 'write';
}

export interface WritablePlaces {
  root: 'read' | 'write';
  /** Where the answer differs from that of the folder above; outer before inner. */
  places: MountPlace[];
}

export interface AccessQuestion {
  /** Answers for one path. */
  mayWrite(path: string): boolean;
  /** A fresh random name. */
  unguessable: string;
  /** Every glob that could decide; absent: nobody knows them. */
  globs?: readonly string[] | undefined;
  /** How many entries are asked about at most. */
  most?: number;
}

/** Not looked into: `project.ts` decides. */
const CLOSED = new Set(['.ai', '.git']);
/** Large, and seldom written by anything but an installer: asked about last. */
const LAST = 'node_modules';
const MAX_ENTRIES = 10_000;
const MAX_PLACES = 64;

export const below = (folder: string, name: string): string =>
  folder === '' ? name : `${folder}/${name}`;
const isInside = (folder: string, path: string): boolean =>
  folder === '' || path === folder || path.startsWith(`${folder}/`);

interface Shape {
  /** By folder, in lower case: names in it at which, or below which, the answer can change. */
  names: Map<string, Set<string>>;
  /** Folders in which it can change anywhere. */
  regions: Set<string>;
}

/** `src/**` changes the answer at `src` and nowhere below; `src/*.ts` anywhere in `src`. */
function shapeOf(globs: readonly string[]): Shape {
  const shape: Shape = { names: new Map(), regions: new Set() };
  for (const glob of globs.filter((one) => !one.startsWith('/'))) {
    // What denies does not look at the case of letters.
    const segments = glob.toLowerCase().split('/');
    const special = segments.findIndex((segment) => /[*?]/.test(segment));
    const literal = special === -1 ? segments : segments.slice(0, special);
    literal.forEach((name, index) => {
      const folder = literal.slice(0, index).join('/');
      const names = shape.names.get(folder) ?? new Set();
      shape.names.set(folder, names.add(name));
    });
    const isWhole = special === -1 || segments.slice(special).every((segment) => segment === '**');
    if (!isWhole) shape.regions.add(literal.join('/'));
  }
  return shape;
}

function entriesOf(folder: string) {
  try {
    // A link is never mounted: it could be made to point anywhere.
    return readdirSync(folder, { withFileTypes: true })
      .filter((one) => !CLOSED.has(one.name) && (one.isDirectory() || one.isFile()))
      .map((one) => ({ name: one.name, isFolder: one.isDirectory() }));
  } catch {
    return []; // unreadable for us, unreadable in there
  }
}

interface Folder {
  path: string;
  access: MountPlace['access'];
  isRegion: boolean;
}

/** Fewer and larger: what cannot be closed one by one is closed together. */
function together(folders: readonly string[], most: number): string[] {
  let closed = [...new Set(folders)];
  while (closed.length > most) {
    const deepest = Math.max(...closed.map((path) => path.split('/').length));
    closed = [
      ...new Set(
        closed.map((path) =>
          path.split('/').length === deepest ? path.split('/').slice(0, -1).join('/') : path,
        ),
      ),
    ];
  }
  return closed;
}

/** Closes what was not asked about, and forgets what was found out inside it. */
function closing(found: WritablePlaces, unasked: readonly string[]): WritablePlaces {
  if (unasked.length === 0) return found;
  const closed = together(unasked, MAX_PLACES / 2);
  if (closed.includes('')) return { root: 'read', places: [] };
  const kept = found.places.filter(({ path }) => !closed.some((folder) => isInside(folder, path)));
  return {
    root: found.root,
    places: [...kept, ...closed.map((path): MountPlace => ({ path, access: 'read' }))],
  };
}

export function writablePlaces(
  projectRoot: string,
  question: AccessQuestion,
): Outcome<WritablePlaces> {
  const { mayWrite, unguessable } = question;
  const shape = shapeOf(question.globs ?? ['**/*']);
  const folderAccess = (path: string): MountPlace['access'] => {
    const inside = below(path, unguessable);
    return mayWrite(inside) && mayWrite(`${inside}/${unguessable}`) ? 'write' : 'read';
  };
  const root = folderAccess('');
  const places: MountPlace[] = [];
  const unasked: string[] = [];
  let left = question.most ?? MAX_ENTRIES;
  const queue: Folder[] = [{ path: '', access: root, isRegion: shape.regions.has('') }];
  const last: Folder[] = [];
  for (let next = queue.shift(); next; next = queue.shift() ?? last.shift()) {
    const folder = next;
    const names = shape.names.get(folder.path.toLowerCase());
    if (!folder.isRegion && names === undefined) continue;
    const entries = entriesOf(join(projectRoot, folder.path)).filter(
      ({ name }) => folder.isRegion || names?.has(name.toLowerCase()),
    );
    left -= entries.length;
    if (left < 0) {
      if (folder.access === 'write') unasked.push(folder.path);
      continue;
    }
    for (const { name, isFolder } of entries) {
      const path = below(folder.path, name);
      const access = isFolder ? folderAccess(path) : mayWrite(path) ? 'write' : 'read';
      if (access !== folder.access) places.push({ path, access });
      const isRegion = folder.isRegion || shape.regions.has(path.toLowerCase());
      if (isFolder) (name === LAST ? last : queue).push({ path, access, isRegion });
    }
  }
  const found = closing({ root, places }, unasked);
  if (found.places.length > MAX_PLACES) {
    return fail(
      'permission_denied',
      `\`fs.write\` covers more than ${MAX_PLACES} separate places, too many to mount; grant whole folders`,
      { missing: 'fs.write' },
    );
  }
  return ok(found);
}
