// Files that we append records to lie inside projects, and a project may be a stranger's. INVARIANT:
// a record goes into a regular file at exactly that place, or nowhere: a link there could send our
// lines into somebody's shell profile, a pipe could make us wait forever.
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf } from '../../base/index.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** Undefined on systems that have no such flag. */
const flags = (...list: (number | undefined)[]): number =>
  list.reduce<number>((all, flag) => all | (flag ?? 0), 0);

function openRegular(file: string, mode: number): number {
  const descriptor = openSync(file, mode, 0o600);
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  throw new Error('it is not a regular file');
}

/** Opens a record file for reading. Throws what the file system throws; the caller closes it. */
export const openRecords = (file: string): number =>
  openRegular(file, flags(O_RDONLY, O_NOFOLLOW, O_NONBLOCK));

const APPEND = flags(O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK);

interface OpenRecord {
  descriptor: number;
  device: number;
  inode: number;
}

function openHeld(file: string): OpenRecord {
  let descriptor: number;
  try {
    descriptor = openRegular(file, APPEND);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    mkdirSync(dirname(file), { recursive: true });
    descriptor = openRegular(file, APPEND);
  }
  const { dev, ino } = fstatSync(descriptor);
  return { descriptor, device: dev, inode: ino };
}

/** One file for many records. It stays open, and is still looked at before they are written. */
export function createRecordFile(file: string) {
  let held: OpenRecord | undefined;

  /** Gives the descriptor back; the next append opens the file again. */
  function close(): void {
    if (held) closeSync(held.descriptor);
    held = undefined;
  }

  /** INVARIANT: what is open is what stands at the place now; a moved or replaced file is let go. */
  function current(): OpenRecord {
    const there = held && lstatSync(file, { throwIfNoEntry: false });
    if (held && there?.ino === held.inode && there.dev === held.device) return held;
    close();
    held = openHeld(file);
    return held;
  }

  return {
    /** Throws now what an append would throw. */
    touch: () => void current(),
    /**
     * Appends with one write, whole or with an exception: a full disk writes short without an error.
     * `isLooked`: somebody has just looked that what is open stands at its place.
     */
    append(text: string, isLooked = false) {
      const { descriptor } = (isLooked ? held : undefined) ?? current();
      const length = Buffer.byteLength(text);
      const written = writeSync(descriptor, text);
      if (written !== length) throw new Error(`only ${written} of ${length} bytes fit`);
    },
    close,
  };
}

const CHUNK = 1 << 16;

/** Reads what others have appended since the last look; starts over when the file was replaced. */
export function createTail(file: string, onLine: (text: string) => void, onReset: () => void) {
  let [offset, inode] = [0, 0];
  let rest: Buffer = Buffer.alloc(0);

  function readFrom(descriptor: number, size: number): void {
    while (offset < size) {
      const chunk = Buffer.alloc(Math.min(CHUNK, size - offset));
      const count = readSync(descriptor, chunk, 0, chunk.length, offset);
      if (count === 0) return;
      offset += count;
      rest = Buffer.concat([rest, chunk.subarray(0, count)]);
      for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10)) {
        onLine(rest.subarray(0, end).toString('utf8'));
        rest = rest.subarray(end + 1);
      }
    }
  }

  return {
    /** True when the last line has no end: somebody was cut off while writing it. */
    isTorn: () => rest.length > 0,
    /** Throws what the file system throws, except that a missing file is an empty one. */
    catchUp(): void {
      // Asked at every file that is read: mostly there is nothing, or nothing new.
      const there = lstatSync(file, { throwIfNoEntry: false });
      if (!there || (there.isFile() && there.ino === inode && there.size === offset)) return;
      let descriptor: number;
      try {
        descriptor = openRecords(file);
      } catch (error) {
        if (errnoOf(error) === 'ENOENT') return;
        throw error;
      }
      try {
        const { size, ino } = fstatSync(descriptor);
        if (size < offset || ino !== inode) {
          [offset, inode, rest] = [0, ino, Buffer.alloc(0)];
          onReset();
        }
        readFrom(descriptor, size);
      } finally {
        closeSync(descriptor);
      }
    },
  };
}
