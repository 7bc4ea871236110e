// How the project looks from inside the sandbox: what its caller may read, and writable where it may
// write. `.ai/` is read-only whatever was granted, its transcripts and registry are not there at all, and
// git's own folder opens only to tools that need it and to `git.write`.
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

/** The whole of what a child sees of the project: outer places before inner, the later over the earlier. */
export interface ProjectView extends Places {
  /** Absolute real paths that show as empty. */
  hidden: readonly string[];
}

/** What a child made and may not keep where it was. */
export interface SetAside {
  /** From the project's root, as it was called there. */
  paths: string[];
  folder: string;
}

export interface OpenView extends ProjectView {
  /** May everything be read, so that the history of a repository tells nothing more? */
  readsAll: boolean;
  /** To be called when the child has ended. */
  close(): SetAside;
}

interface ProjectRights extends AccessQuestion {
  /** Of a tool that needs a right over repositories: they are shown to it. */
  usesGit: boolean;
  mayWriteGit(): boolean;
  /** Folder of the user for what is set aside and for notes about children that run. */
  aside: string;
  /** Of this child; part of file names. */
  name: string;
}

const HIDDEN = RECORD_NAMES.map((name) => join('.ai', name));
const SKIPPED = new Set(HIDDEN);
const MAX_TRAPS = 500;

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

interface Closed {
  places: MountPlace[];
  traps: Traps;
}

/** What exists and must stay as it is, as mounts; repositories open to `git.write`, in part. */
function closeTraps(
  projectRoot: string,
  found: Places,
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

/** Repositories tell what stood in files that may not be read: they are hidden with them. */
function withoutHistory(projectRoot: string, view: Places): Outcome<MountPlace[]> {
  const paths = findRepositories(projectRoot, view);
  if (paths.includes('') || paths.length > MAX_TRAPS) {
    return fail(
      'permission_denied',
      'part of the project may not be read, and the history of its repositories cannot be left out; grant `fs.read` for whole folders without repositories',
      { missing: 'fs.read' },
    );
  }
  return ok(paths.map((path): MountPlace => ({ path, access: 'none' })));
}

type Viewed = Pick<OpenView, 'root' | 'places' | 'readsAll' | 'close'>;

/** What is only read needs no care: nothing can be made. */
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
  const kept = git.length > 0 ? places.filter(({ path }) => path !== '.git') : places;
  return ok({
    root,
    places: inOrder([...kept, ...git, ...history.output]),
    readsAll,
    close: () => ({ paths: [], folder: '' }),
  });
}

// INVARIANT: no `.ai` and no configuration of git is ever writable from inside. Where they do not
// exist they are made, because what is not there cannot be mounted read-only and could be created.
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
    // Where we cannot make one, neither can a child.
    if (kindOf(join(projectRoot, '.ai')) !== 'none') own.push({ path: '.ai', access: 'read' });
  }
  const read = readOnlyView(projectRoot, found.output, rights);
  if (!read.ok) return read;
  const closed = closeTraps(projectRoot, found.output, () => rights.mayWriteGit());
  if (!closed.ok) return closed;
  const { traps, places: shut } = closed.output;
  const opened = new Set(shut.filter(({ access }) => access === 'write').map(({ path }) => path));
  const kept = read.output.places.filter(({ path }) => !opened.has(path));
  const view: Places = { root: found.output.root, places: inOrder([...kept, ...own, ...shut]) };
  const written: Places = found.output;
  const done = noteUnfinished(notes, rights.name, { places: written, traps, holds });
  const { hasNames } = found.output;
  const links = linksAt(projectRoot, found.output.links);
  const close = (): SetAside => {
    holds.release();
    const left = setTrapsAside(projectRoot, newTraps(projectRoot, written, traps), to);
    const denied = hasNames ? takeDenied(projectRoot, rights, { view, links }, to) : [];
    done();
    return { paths: [...left, ...denied], folder: to };
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
  const wished = [...HIDDEN.map((path) => join(projectRoot, path)), ...alsoHidden];
  // What does not exist cannot be seen.
  return ok({ ...viewed.output, hidden: wished.flatMap((path) => realOf(path) ?? []) });
}

/** What was made for a child that then does not start is taken away. */
function openedFor(projectRoot: string, rights: ProjectRights): Outcome<Viewed> {
  const holds = createHolds(projectRoot, rights.name);
  let view: Outcome<Viewed>;
  try {
    view = writableView(projectRoot, rights, holds);
  } catch (error) {
    view = fail('sandbox_missing', `the sandbox could not be set up: ${messageOf(error)}`);
  }
  if (!view.ok) {
    holds.release();
    return view;
  }
  const { close } = view.output;
  let left: SetAside | undefined;
  return ok({ ...view.output, close: () => (left ??= close()) });
}

function onlyRead(projectRoot: string, rights: ProjectRights): Outcome<Viewed> {
  const found = findPlaces(projectRoot, rights);
  return found.ok ? readOnlyView(projectRoot, found.output, rights) : found;
}

/** Does any of these folders contain the path? */
export const isCovered = (folders: readonly string[], path: string): boolean =>
  folders.some((folder) => isInside(path, folder));
