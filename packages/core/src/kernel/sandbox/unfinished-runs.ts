// Cleans up after a child whose supervisor was killed. Before a child starts, the existing files are recorded
// in the user's folder. The next start in the project that finds the record of a dead process cleans up.
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { isObject, parseJson } from '../../base/index.ts';
import { newTraps, setTrapsAside, type Trap, type Traps } from './executable-names.ts';
import { type Holds, releaseHolds } from './file-locks.ts';
import type { Places } from './places.ts';

/** Data for the clean-up after the end of a child. */
interface Unfinished {
  places: Places;
  traps: Traps;
  holds: Holds;
}

const BEAT_MS = 2000;
/** Files created this long after the last sign of the process may still be the child's. */
const SLACK_MS = 5000;
/** A process of another namespace counts as dead after this time without a sign. */
const SILENT_MS = 60_000;

const textOf = (read: () => string): string => {
  try {
    return read();
  } catch {
    return '';
  }
};

const namespace = (): string => textOf(() => readlinkSync('/proc/self/ns/pid'));

/** A process id is reused. With its start time it is unique. */
function processName(pid: number): string {
  const stat = textOf(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  return `${pid}:${stat.slice(stat.lastIndexOf(')')).split(' ')[20] ?? ''}`;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

interface Note {
  pid: number;
  process: string;
  namespace: string;
  since: number;
  places: Places;
  known: string[];
  opened: string[];
  holds: Holds;
}

/**
 * Reads a note that this program wrote into a folder of the user. Its shape is checked only enough to
 * avoid exceptions.
 */
function readNote(file: string): Note | undefined {
  const parsed = parseJson(textOf(() => readFileSync(file, 'utf8')));
  const note = parsed.ok && isObject(parsed.output) ? parsed.output : undefined;
  return note && isObject(note['places']) && isObject(note['holds']) && Array.isArray(note['known'])
    ? (note as unknown as Note)
    : undefined;
}

const isOver = (note: Note, beat: number): boolean =>
  note.namespace === namespace()
    ? !isAlive(note.pid) || processName(note.pid) !== note.process
    : Date.now() - beat > SILENT_MS;

/** True for a trap that was created or renamed while the child ran. A later trap is the person's own. */
const isOfRun = (trap: Trap, since: number, until: number): boolean =>
  (trap.bornMs >= since && trap.bornMs <= until) || trap.changedMs <= until;

/**
 * Writes the note and returns the function that removes it. If it cannot be written, a crash leaves
 * files behind.
 */
export function noteUnfinished(folder: string, name: string, work: Unfinished): () => void {
  const file = join(folder, `${name}.json`);
  const note: Note = {
    pid: process.pid,
    process: processName(process.pid),
    namespace: namespace(),
    since: Date.now() - 1000,
    places: work.places,
    known: [...work.traps.known],
    opened: [...work.traps.opened],
    holds: work.holds,
  };
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(file, JSON.stringify(note), { mode: 0o600 });
  } catch {
    return () => undefined;
  }
  const beat = setInterval(() => {
    const now = new Date();
    try {
      utimesSync(file, now, now);
    } catch {
      // The note was removed by another process.
    }
  }, BEAT_MS);
  beat.unref();
  return () => {
    clearInterval(beat);
    rmSync(file, { force: true });
  };
}

/** Cleans up after dead processes. Returns the paths of moved files. */
export function finishOthers(projectRoot: string, folder: string, aside: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return []; // no run was ever recorded
  }
  return names.flatMap((name) => {
    const file = join(folder, name);
    const note = readNote(file);
    const beat = statSync(file, { throwIfNoEntry: false })?.mtimeMs;
    if (beat === undefined || (note && !isOver(note, beat))) return [];
    rmSync(file, { force: true });
    if (!note) return [];
    releaseHolds(projectRoot, note.holds);
    const traps = { known: new Set(note.known), opened: new Set(note.opened) };
    const remaining = newTraps(projectRoot, note.places, traps).filter((trap) =>
      isOfRun(trap, note.since, beat + SLACK_MS),
    );
    return setTrapsAside(projectRoot, remaining, aside);
  });
}
