// How the project looks from inside the sandbox. `.ai/` is read-only whatever was granted, its
// transcripts and registry are not there at all, and git's own folder opens only to `git.write`.
import { lstatSync, mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fail, isInside, type Outcome, ok } from '../../base/index.ts';
import { realOf } from '../rights/project-path.ts';
import { closedIn, findTraps, isRepositoryFolder, setTrapsAside, type Traps } from './traps.ts';
import {
  type AccessQuestion,
  type MountPlace,
  type WritablePlaces,
  writablePlaces,
} from './writable.ts';

export interface ProjectView {
  root: 'read' | 'write';
  /** Outer before inner: the later mount lies over the earlier. */
  places: MountPlace[];
  /** Absolute real paths that show as empty. */
  hidden: string[];
}

export interface OpenView extends ProjectView {
  /** To be called when the child has ended. Answers with what it made and must not keep its name. */
  close(): string[];
}

interface ProjectRights extends AccessQuestion {
  mode: 'strict' | 'workspace';
  mayWriteGit(): boolean;
}

const HIDDEN = ['threads', 'keys', 'trust', 'state', 'audit.jsonl', 'labels.jsonl'].map((name) =>
  join('.ai', name),
);
const MAX_TRAPS = 500;

const kindOf = (path: string): 'folder' | 'file' | 'link' | 'none' => {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return 'none';
  if (found.isSymbolicLink()) return 'link';
  return found.isDirectory() ? 'folder' : 'file';
};

/** A link in a writable folder could be replaced by a real one while we look away. */
function swappable(projectRoot: string): Outcome<null> {
  const link = ['.ai', '.git'].find((name) => kindOf(join(projectRoot, name)) === 'link');
  return link === undefined
    ? ok(null)
    : fail(
        'permission_denied',
        `\`${link}\` is a symbolic link, which a process that may write beside it could replace; make it a folder, or set \`sandbox: strict\` on the tool`,
      );
}

const HOLDER = 'sandbox-';
const HOLD_TRIES = 20;

/** Made by us: a folder `.git` with nothing in it but the marks of those who count on it. */
function isHeldGit(path: string): boolean {
  const names = kindOf(path) === 'folder' ? readdirSync(path) : [];
  return names.length > 0 && names.every((name) => name.startsWith(HOLDER));
}

/**
 * A `.git` that is not there could be made from inside; one without a `HEAD` is no repository to
 * git. Whoever counts on it leaves a mark in it, so that only the last one can take it away.
 */
function holdEmptyGit(path: string, unguessable: string): () => void {
  if (kindOf(path) !== 'none' && !isHeldGit(path)) return () => undefined;
  const mark = join(path, `${HOLDER}${unguessable}`);
  for (let tries = 1; ; tries++) {
    try {
      mkdirSync(path, { recursive: true });
      writeFileSync(mark, '');
      break;
    } catch (error) {
      // The last of the others took it away between the two steps.
      if (tries === HOLD_TRIES) throw error;
    }
  }
  return () => {
    rmSync(mark, { force: true });
    try {
      rmdirSync(path);
    } catch {
      // somebody else counts on it, or made a repository of it
    }
  };
}

interface Closed {
  places: MountPlace[];
  traps: Traps;
}

/** What exists and must stay as it is, as mounts; repositories open to `git.write`, in part. */
function closeTraps(
  projectRoot: string,
  found: WritablePlaces,
  mayWriteGit: () => boolean,
): Outcome<Closed> {
  const traps = findTraps(projectRoot, found);
  if (traps.some(({ path }) => path === '')) {
    return fail(
      'permission_denied',
      'the project is itself a repository without a working tree, so nothing in it can be opened for writing; set `sandbox: strict` on the tool',
    );
  }
  const repositories = traps.filter((trap) => isRepositoryFolder(projectRoot, trap));
  const opened = new Set(repositories.length > 0 && mayWriteGit() ? repositories : []);
  for (const { path } of opened) mkdirSync(join(projectRoot, path, 'hooks'), { recursive: true });
  const inside = [...opened].flatMap((repository) => closedIn(projectRoot, repository));
  const closed = [...traps.filter((trap) => !opened.has(trap)), ...inside].filter(
    ({ type, path }) =>
      type !== 'link' && path !== '.ai' && (found.root === 'write' || path !== '.git'),
  );
  if (closed.length > MAX_TRAPS) {
    return fail(
      'permission_denied',
      `more than ${MAX_TRAPS} repositories lie where \`fs.write\` is held, too many to mount read-only; grant narrower folders`,
      { missing: 'fs.write' },
    );
  }
  const isOpenGit = found.root === 'read' && [...opened].some(({ path }) => path === '.git');
  const places = closed.map(({ path }): MountPlace => ({ path, access: 'read' }));
  return ok({
    places: isOpenGit ? [{ path: '.git', access: 'write' }, ...places] : places,
    traps: {
      known: new Set([...traps, ...inside].map(({ id }) => id)),
      opened: new Set([...opened].map(({ id }) => id)),
    },
  });
}

// INVARIANT: no `.ai` and no configuration of git is ever writable from inside. Where they do not
// exist they are made, because what is not there cannot be mounted read-only and could be created.
export function projectView(
  projectRoot: string,
  rights: ProjectRights,
  alsoHidden: readonly string[],
): Outcome<OpenView> {
  const wished = [...HIDDEN.map((path) => join(projectRoot, path)), ...alsoHidden];
  // What does not exist cannot be seen.
  const hidden = () => wished.flatMap((path) => realOf(path) ?? []);
  if (rights.mode === 'strict') {
    return ok({ root: 'read', places: [], hidden: hidden(), close: () => [] });
  }
  const found = writablePlaces(projectRoot, rights);
  if (!found.ok) return found;
  const { root, places } = found.output;
  let letGo = (): void => undefined;
  if (root === 'write') {
    const safe = swappable(projectRoot);
    if (!safe.ok) return safe;
    mkdirSync(join(projectRoot, '.ai'), { recursive: true });
    letGo = holdEmptyGit(join(projectRoot, '.git'), rights.unguessable);
    places.push({ path: '.ai', access: 'read' });
  }
  const closed = closeTraps(projectRoot, found.output, () => rights.mayWriteGit());
  if (!closed.ok) {
    letGo();
    return closed;
  }
  const close = (): string[] => {
    letGo();
    return setTrapsAside(projectRoot, found.output, closed.output.traps);
  };
  return ok({ root, places: [...places, ...closed.output.places], hidden: hidden(), close });
}

/** Does any of these folders contain the path? */
export const isCovered = (folders: readonly string[], path: string): boolean =>
  folders.some((folder) => isInside(path, folder));
