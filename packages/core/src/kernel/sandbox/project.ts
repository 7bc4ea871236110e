// Computes the view of the project inside of the sandbox: readable and writable where its caller may read
// and write. `.ai/` is always read-only, without its transcripts and registry. Git's own folder opens only
// to tools that need it and to `git.write`.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fail, isInside, messageOf, type Outcome, ok } from '../../base/index.ts';
import { RECORD_NAMES } from '../../items/index.ts';
import { realOf } from '../rights/project-path.ts';
import { linksAt, takeDenied } from './denied-names.ts';
import {
  closedIn,
  findRepositories,
  findTraps,
  isRepositoryFolder,
  newTraps,
  setTrapsAside,
  type Traps,
} from './executable-names.ts';
import { createHolds, holdMissing, kindOf } from './file-locks.ts';
import {
  type AccessQuestion,
  accessAt,
  type FoundPlaces,
  findPlaces,
  inOrder,
  type MountPlace,
  type Places,
} from './places.ts';
import { finishOthers, noteUnfinished } from './unfinished-runs.ts';

/**
 * Everything of the project that a child can see, outer places before inner. A later place covers an
 * earlier one.
 */
export interface ProjectView extends Places {
  /** Absolute real paths that appear empty. */
  hidden: readonly string[];
}

/** Files that a child created and that were moved out of the project. */
export interface SetAside {
  /** Original paths, relative to the project's root. */
  paths: string[];
  folder: string;
}

export interface OpenView extends ProjectView {
  /** True if everything may be read, so that the history of a repository reveals nothing more. */
  readsAll: boolean;
  /** Called after the child has ended. Returns the files that were moved out. */
  close(): SetAside;
}

interface ProjectRights extends AccessQuestion {
  /** True for a tool that needs a right over repositories, which it then can read. */
  usesGit: boolean;
  mayWriteGit(): boolean;
  /** Folder of the user for moved files and for notes about running children. */
  aside: string;
  /** Random name of this child, a part of file names. */
  name: string;
}

const HIDDEN = RECORD_NAMES.map((name) => join('.ai', name));
const SKIPPED = new Set(HIDDEN);
const MAX_TRAPS = 500;

/** Fails with `permission_denied` if `.ai` or `.git` is a link, which a child could replace during a check. */
function swappable(projectRoot: string): Outcome<null> {
  const link = ['.ai', '.git'].find((name) => kindOf(join(projectRoot, name)) === 'link');
  return link === undefined
    ? ok(null)
    : fail(
        'permission_denied',
        `\`${link}\` is a symbolic link, which a process that may write beside it could replace; make it a folder, or set \`sandbox: strict\` on the tool`,
      );
}

interface Closed {
  places: MountPlace[];
  traps: Traps;
}

/**
 * Returns mounts that protect existing traps. Repositories that are open to `git.write` are protected in part.
 */
function closeTraps(
  projectRoot: string,
  found: Places,
  mayWriteGit: () => boolean,
): Outcome<Closed> {
  const traps = findTraps(projectRoot, found);
  if (traps.some(({ path }) => path === '')) {
    return fail(
      'permission_denied',
      'the project is a repository without a working tree, so no file in it can be opened for writing; set `sandbox: strict` on the tool',
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
      `more than ${MAX_TRAPS} repositories are in folders with \`fs.write\`, too many to mount read-only; grant narrower folders`,
      { missing: '', rule: 'sandbox' },
    );
  }
  const isOpenGit = found.root !== 'write' && [...opened].some(({ path }) => path === '.git');
  const places = closed.map(({ path }): MountPlace => ({ path, access: 'read' }));
  return ok({
    places: isOpenGit ? [{ path: '.git', access: 'write' }, ...places] : places,
    traps: {
      known: new Set([...traps, ...inside].map(({ id }) => id)),
      opened: new Set([...opened].map(({ id }) => id)),
    },
  });
}

/** Hides repositories, because they reveal the content of files that may not be read. */
function withoutHistory(projectRoot: string, view: Places): Outcome<MountPlace[]> {
  const paths = findRepositories(projectRoot, view);
  if (paths.includes('') || paths.length > MAX_TRAPS) {
    return fail(
      'permission_denied',
      'part of the project may not be read, and the history of its repositories cannot be hidden; grant `fs.read` for whole folders without repositories',
      { missing: 'fs.read' },
    );
  }
  return ok(paths.map((path): MountPlace => ({ path, access: 'none' })));
}

type Viewed = Pick<OpenView, 'root' | 'places' | 'readsAll' | 'close'>;

/** Returns the view without any writable place, in which nothing can be created. */
function readOnlyView(
  projectRoot: string,
  found: FoundPlaces,
  rights: ProjectRights,
): Outcome<Viewed> {
  const { root, places, readsAll } = found;
  const history = readsAll || rights.usesGit ? ok([]) : withoutHistory(projectRoot, found);
  if (!history.ok) return history;
  const isGitMissing = rights.usesGit && accessAt(found, '.git') === 'none';
  const git: MountPlace[] =
    isGitMissing && kindOf(join(projectRoot, '.git')) === 'folder'
      ? [{ path: '.git', access: 'read' }]
      : [];
  const visible = git.length > 0 ? places.filter(({ path }) => path !== '.git') : places;
  return ok({
    root,
    places: inOrder([...visible, ...git, ...history.output]),
    readsAll,
    close: () => ({ paths: [], folder: '' }),
  });
}

// INVARIANT: no `.ai` and no configuration of git is ever writable from inside. Missing ones are
// created, because a missing path cannot be mounted read-only and a child could create it.
function writableView(
  projectRoot: string,
  rights: ProjectRights,
  holds: ReturnType<typeof createHolds>,
): Outcome<Viewed> {
  const notes = join(rights.aside, 'running');
  const to = join(rights.aside, rights.name);
  finishOthers(projectRoot, notes, to);
  holdMissing(projectRoot, rights, holds);
  const found = findPlaces(projectRoot, rights);
  if (!found.ok) return found;
  const own: MountPlace[] = [];
  if (found.output.root === 'write') {
    const safe = swappable(projectRoot);
    if (!safe.ok) return safe;
    holds.close('.ai');
    holds.close('.git');
    // If this process cannot create it, no child can either.
    if (kindOf(join(projectRoot, '.ai')) !== 'none') own.push({ path: '.ai', access: 'read' });
  }
  const read = readOnlyView(projectRoot, found.output, rights);
  if (!read.ok) return read;
  const closed = closeTraps(projectRoot, found.output, () => rights.mayWriteGit());
  if (!closed.ok) return closed;
  const { traps, places: shut } = closed.output;
  const opened = new Set(shut.filter(({ access }) => access === 'write').map(({ path }) => path));
  const mounts = read.output.places.filter(({ path }) => !opened.has(path));
  const view: Places = { root: found.output.root, places: inOrder([...mounts, ...own, ...shut]) };
  const written: Places = found.output;
  const removeNote = noteUnfinished(notes, rights.name, { places: written, traps, holds });
  const { hasNames } = found.output;
  const links = linksAt(projectRoot, found.output.links);
  const close = (): SetAside => {
    holds.release();
    const moved = setTrapsAside(projectRoot, newTraps(projectRoot, written, traps), to);
    const denied = hasNames ? takeDenied(projectRoot, rights, { view, links }, to) : [];
    removeNote();
    return { paths: [...moved, ...denied], folder: to };
  };
  return ok({ ...view, readsAll: read.output.readsAll, close });
}

export function projectView(
  projectRoot: string,
  rights: Omit<ProjectRights, 'skipped'>,
  alsoHidden: readonly string[],
): Outcome<OpenView> {
  const question = { ...rights, skipped: SKIPPED };
  const viewed = question.mayWrite
    ? openedFor(projectRoot, question)
    : onlyRead(projectRoot, question);
  if (!viewed.ok) return viewed;
  const hiddenPaths = [...HIDDEN.map((path) => join(projectRoot, path)), ...alsoHidden];
  // A path that does not exist cannot be seen.
  return ok({ ...viewed.output, hidden: hiddenPaths.flatMap((path) => realOf(path) ?? []) });
}

/** Returns a view with writable places. If this fails, the created folders are removed. */
function openedFor(projectRoot: string, rights: ProjectRights): Outcome<Viewed> {
  const holds = createHolds(projectRoot, rights.name);
  let view: Outcome<Viewed>;
  try {
    view = writableView(projectRoot, rights, holds);
  } catch (error) {
    view = fail('sandbox_missing', `the sandbox cannot be set up: ${messageOf(error)}`);
  }
  if (!view.ok) {
    holds.release();
    return view;
  }
  const { close } = view.output;
  let moved: SetAside | undefined;
  return ok({ ...view.output, close: () => (moved ??= close()) });
}

function onlyRead(projectRoot: string, rights: ProjectRights): Outcome<Viewed> {
  const found = findPlaces(projectRoot, rights);
  return found.ok ? readOnlyView(projectRoot, found.output, rights) : found;
}

/** True if one of these folders contains the path. */
export const isCovered = (folders: readonly string[], path: string): boolean =>
  folders.some((folder) => isInside(path, folder));
