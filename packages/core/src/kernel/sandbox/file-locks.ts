// Folders that are there for the time of a child: a mount needs something to lie over. What is denied
// and does not exist is made and closed, because a child could make it; what is granted and does not
// exist is made and opened, because a child could not. Empty ones are taken away again.
import { lstatSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { errnoOf } from '../../base/index.ts';
import { HOLDER, isHeldFolder, realOf } from '../rights/project-path.ts';
import { type AccessQuestion, createJudge, literalOf } from './places.ts';

const HOLD_TRIES = 20;
/** Where we may not write, no child of ours may. */
const NOT_OURS = new Set(['EACCES', 'EPERM', 'EROFS']);

export const kindOf = (path: string): 'folder' | 'file' | 'link' | 'none' => {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found) return 'none';
  if (found.isSymbolicLink()) return 'link';
  return found.isDirectory() ? 'folder' : 'file';
};

const removeEmpty = (path: string): boolean => {
  try {
    rmdirSync(path);
    return true;
  } catch {
    return false; // somebody else counts on it, or put something in it
  }
};

/** Folders that several children of this process count on, and how many. */
const shared = new Map<string, number>();

/** What one child counts on, to be undone when it has ended, or by the next after a crash. */
export interface Holds {
  /** Marks in folders that are held, from the project's root. */
  readonly marks: readonly string[];
  /** Folders that were made, outer before inner. */
  readonly made: readonly string[];
}

/** Undoes what a child that was cut off counted on. */
export function releaseHolds(projectRoot: string, { marks, made }: Holds): void {
  for (const mark of marks) {
    rmSync(join(projectRoot, mark), { force: true });
    removeEmpty(dirname(join(projectRoot, mark)));
  }
  for (const path of made.toReversed()) removeEmpty(join(projectRoot, path));
}

export function createHolds(projectRoot: string, name: string) {
  const marks: string[] = [];
  const made: string[] = [];

  /** Makes a folder and those above it that are missing; never through a link. */
  function make(path: string): boolean {
    const segments = path.split('/');
    for (let count = 1; count <= segments.length; count++) {
      const part = segments.slice(0, count).join('/');
      const place = join(projectRoot, part);
      if (kindOf(place) === 'none') {
        mkdirSync(place);
        made.push(part);
      } else if (kindOf(place) !== 'folder') return false;
    }
    return true;
  }

  return {
    marks,
    made,
    /**
     * A folder that is not there, or that others hold: whoever counts on it leaves a mark in it, so
     * that only the last one can take it away.
     */
    close(path: string): void {
      const place = join(projectRoot, path);
      if (kindOf(place) !== 'none' && !isHeldFolder(place)) return;
      const mark = `${path}/${HOLDER}${name}`;
      for (let tries = 1; ; tries++) {
        try {
          if (!make(path)) return;
          writeFileSync(join(projectRoot, mark), '');
          break;
        } catch (error) {
          if (NOT_OURS.has(errnoOf(error))) return;
          // The last of the others took it away between the two steps.
          if (tries === HOLD_TRIES) throw error;
        }
      }
      marks.push(mark);
    },
    /** One to be written in: a mark would be in the way. */
    open(path: string): void {
      const place = join(projectRoot, path);
      if (kindOf(place) !== 'none' && !shared.has(place)) return;
      try {
        if (!make(path)) return;
      } catch {
        return; // a child that writes there is told so
      }
      if (!made.includes(path)) made.push(path);
      shared.set(place, (shared.get(place) ?? 0) + 1);
    },
    release(): void {
      for (const path of made) {
        const place = join(projectRoot, path);
        const others = (shared.get(place) ?? 1) - 1;
        if (others > 0) shared.set(place, others);
        else shared.delete(place);
      }
      releaseHolds(projectRoot, {
        marks,
        made: made.filter((path) => !shared.has(join(projectRoot, path))),
      });
    },
  };
}

/** The folder above it that exists, unless a link stands on the way. */
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

/** Makes what whole globs name and nobody has made yet, where the answer differs there. */
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
      (kindOf(place) !== 'none' && !isHeldFolder(place) && !shared.has(place))
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
