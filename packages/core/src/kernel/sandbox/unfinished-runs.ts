// A child whose supervisor was killed leaves what nobody looked at. Before a child starts, what was
// there is written down in the user's folder; the next start in the project that finds the note of a
// dead process puts things right.
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

/** What is to be done when a child has ended, whoever does it. */
interface Unfinished {
  places: Places;
  traps: Traps;
  holds: Holds;
}

const BEAT_MS = 2000;
/** So long after the last sign of life what was made may still be the child's. */
const SLACK_MS = 5000;
/** Of a process that cannot be seen from here. */
const SILENT_MS = 60_000;

const textOf = (read: () => string): string => {
  try {
    return read();
  } catch {
    return '';
  }
};

const namespace = (): string => textOf(() => readlinkSync('/proc/self/ns/pid'));

/** A process id is used again; with the time of its start it is not. */
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

/** Our own writing, in a folder of the user: the shape is checked so far that nothing breaks. */
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

/** Made, or renamed, while the child ran: what a person made later is theirs. */
const isOfRun = (trap: Trap, since: number, until: number): boolean =>
  (trap.bornMs >= since && trap.bornMs <= until) || trap.changedMs <= until;

/** Notes begin; the answer ends them. Where nothing can be noted, a crash leaves what it leaves. */
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
      // gone
    }
  }, BEAT_MS);
  beat.unref();
  return () => {
    clearInterval(beat);
    rmSync(file, { force: true });
  };
}

/** Does what the dead could not. Answers with what was set aside. */
export function finishOthers(projectRoot: string, folder: string, aside: string): string[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return []; // nothing was ever noted
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
    const left = newTraps(projectRoot, note.places, traps).filter((trap) =>
      isOfRun(trap, note.since, beat + SLACK_MS),
    );
    return setTrapsAside(projectRoot, left, aside);
  });
}
