// Creates folders that exist only during the run of a child, because a mount needs a target. A denied path that
// does not exist is created and closed, because a child could create it. A granted path that does not
// exist is created and opened, because a child could not. Empty ones are removed afterwards.
import { lstatSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errnoOf } from '../../base/index.ts';
import { HOLDER, isProtectedFolder, realOf } from '../rights/project-path.ts';
import { type AccessQuestion, createJudge, literalOf } from './places.ts';

const HOLD_TRIES = 20;
/** Errors of a folder that this process cannot write. None of its children can write there either. */
const NOT_OURS = new Set(['EACCES', 'EPERM', 'EROFS']);

export const kindOf = (path: string): 'folder' | 'file' | 'link' | 'none' => {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (!stats) return 'none';
  if (stats.isSymbolicLink()) return 'link';
  return stats.isDirectory() ? 'folder' : 'file';
};

const removeEmpty = (path: string): boolean => {
  try {
    rmdirSync(path);
    return true;
  } catch {
    return false; // it is not empty, because another process uses it
  }
};

/** Number of children of this process that use each folder. */
const shared = new Map<string, number>();

/** The folders that one child uses. They are removed after its end, or after a crash by the next child. */
export interface Holds {
  /** Mark files in shared folders, relative to the project's root. */
  readonly marks: readonly string[];
  /** Folders that were created, outer before inner. */
  readonly made: readonly string[];
}

/** Removes the folders and marks of a child that was killed. */
export function releaseHolds(projectRoot: string, { marks, made: created }: Holds): void {
  for (const mark of marks) {
    rmSync(join(projectRoot, mark), { force: true });
    removeEmpty(dirname(join(projectRoot, mark)));
  }
  for (const path of created.toReversed()) removeEmpty(join(projectRoot, path));
}

export function createHolds(projectRoot: string, name: string) {
  const marks: string[] = [];
  const created: string[] = [];

  /** Creates a folder and its missing parents, never through a link. */
  function make(path: string): boolean {
    const segments = path.split('/');
    for (let count = 1; count <= segments.length; count++) {
      const part = segments.slice(0, count).join('/');
      const place = join(projectRoot, part);
      if (kindOf(place) === 'none') {
        mkdirSync(place);
        created.push(part);
      } else if (kindOf(place) !== 'folder') return false;
    }
    return true;
  }

  return {
    marks,
    made: created,
    /**
     * Closes a path that does not exist, or that other children closed. Each child puts a mark into the
     * folder, so that only the last one removes it.
     */
    close(path: string): void {
      const place = join(projectRoot, path);
      if (kindOf(place) !== 'none' && !isProtectedFolder(place)) return;
      const mark = `${path}/${HOLDER}${name}`;
      for (let tries = 1; ; tries++) {
        try {
          if (!make(path)) return;
          writeFileSync(join(projectRoot, mark), '');
          break;
        } catch (error) {
          if (NOT_OURS.has(errnoOf(error))) return;
          // The last child removed the folder between the two steps.
          if (tries === HOLD_TRIES) throw error;
        }
      }
      marks.push(mark);
    },
    /** Opens a path for writing. It gets no mark, because the child would see it. */
    open(path: string): void {
      const place = join(projectRoot, path);
      if (kindOf(place) !== 'none' && !shared.has(place)) return;
      try {
        if (!make(path)) return;
      } catch {
        return; // a child that writes there gets an error
      }
      if (!created.includes(path)) created.push(path);
      shared.set(place, (shared.get(place) ?? 0) + 1);
    },
    release(): void {
      for (const path of created) {
        const place = join(projectRoot, path);
        const others = (shared.get(place) ?? 1) - 1;
        if (others > 0) shared.set(place, others);
        else shared.delete(place);
      }
      releaseHolds(projectRoot, {
        marks,
        made: created.filter((path) => !shared.has(join(projectRoot, path))),
      });
    },
  };
}

/** Returns the deepest existing folder above the path. Undefined if a link is on the way. */
function existingAbove(projectRoot: string, path: string): string | undefined {
  const segments = path.split('/');
  for (let count = segments.length - 1; count >= 0; count--) {
    const folder = segments.slice(0, count).join('/');
    const place = join(projectRoot, folder);
    if (kindOf(place) !== 'none') return realOf(place) === place ? folder : undefined;
  }
  return undefined;
}

const isClosed = (path: string): boolean =>
  path.split('/').some((name) => /^\.(ai|git)$/i.test(name));

/** Creates missing paths that whole globs name, where the right differs from that of their folder. */
export function holdMissing(
  projectRoot: string,
  question: AccessQuestion,
  holds: Pick<ReturnType<typeof createHolds>, 'open' | 'close'>,
): void {
  const judge = createJudge(question);
  for (const glob of question.globs ?? []) {
    const { literal, isWhole } = literalOf(glob);
    if (!isWhole || literal === '' || !glob.endsWith('/**') || glob.startsWith('/')) continue;
    const place = join(projectRoot, literal);
    if (
      isClosed(literal) ||
      (kindOf(place) !== 'none' && !isProtectedFolder(place) && !shared.has(place))
    ) {
      continue;
    }
    const above = existingAbove(projectRoot, literal);
    if (above === undefined) continue;
    const [around, inside] = [judge.folder(above), judge.folder(literal)];
    if (around === 'write' && inside !== 'write') holds.close(literal);
    if (around !== 'write' && inside === 'write') holds.open(literal);
  }
}
