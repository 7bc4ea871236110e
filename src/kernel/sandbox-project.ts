// How the project looks from inside the sandbox. `.ai/` is read-only whatever was granted, its
// transcripts and registry are not there at all, and git's own folder opens only to `git.write`.
import { lstatSync, mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Outcome, ok } from '../base/index.ts';
import { isInside } from './process-env.ts';
import { type Place, writablePlaces } from './sandbox-writable.ts';

export interface ProjectView {
  root: 'read' | 'write';
  /** Outer before inner: the later mount lies over the earlier. */
  places: Place[];
  /** Absolute real paths that show as empty. */
  hidden: string[];
}

export interface ProjectRights {
  mode: 'strict' | 'workspace';
  mayWrite(path: string): boolean;
  mayWriteGit(): boolean;
  unguessable: string;
}

const HIDDEN = ['threads', 'keys', 'trust', 'state', 'audit.jsonl', 'labels.jsonl'].map((name) =>
  join('.ai', name),
);
/** Code that git runs by itself, later and outside: never for a sandboxed child to change. */
const GIT_GUARDED = ['.git/hooks', '.git/config'];

const kindOf = (path: string): 'folder' | 'file' | 'link' | 'none' => {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return 'none';
  if (found.isSymbolicLink()) return 'link';
  return found.isDirectory() ? 'folder' : 'file';
};

export function hiddenPaths(projectRoot: string, more: readonly string[]): string[] {
  const all = [...HIDDEN.map((path) => join(projectRoot, path)), ...more];
  return all.flatMap((path) => {
    try {
      return [realpathSync.native(path)];
    } catch {
      return []; // what does not exist cannot be seen
    }
  });
}

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

function gitPlaces(projectRoot: string, root: Place['access'], mayWrite: boolean): Place[] {
  const kind = kindOf(join(projectRoot, '.git'));
  if (kind === 'none' || kind === 'link') return [];
  if (kind === 'file' || !mayWrite)
    return root === 'write' ? [{ path: '.git', access: 'read' }] : [];
  mkdirSync(join(projectRoot, '.git/hooks'), { recursive: true });
  const guarded = GIT_GUARDED.filter((path) => kindOf(join(projectRoot, path)) !== 'none');
  return [
    { path: '.git', access: 'write' },
    ...guarded.map((path): Place => ({ path, access: 'read' })),
  ];
}

// INVARIANT: `.ai/` is never writable from inside. Where it does not exist yet it is made, because
// a folder that is not there cannot be mounted read-only and could be created by the child.
export function projectView(
  projectRoot: string,
  rights: ProjectRights,
  alsoHidden: readonly string[],
): Outcome<ProjectView> {
  const hidden = () => hiddenPaths(projectRoot, alsoHidden);
  if (rights.mode === 'strict') return ok({ root: 'read', places: [], hidden: hidden() });
  const found = writablePlaces(projectRoot, (path) => rights.mayWrite(path), rights.unguessable);
  if (!found.ok) return found;
  const { root, places } = found.output;
  if (root === 'write') {
    const safe = swappable(projectRoot);
    if (!safe.ok) return safe;
    mkdirSync(join(projectRoot, '.ai'), { recursive: true });
    places.push({ path: '.ai', access: 'read' });
  }
  places.push(...gitPlaces(projectRoot, root, rights.mayWriteGit()));
  return ok({ root, places, hidden: hidden() });
}

/** Does any of these folders contain the path? */
export const isCovered = (folders: readonly string[], path: string): boolean =>
  folders.some((folder) => isInside(folder, path));
