// Appends to record files. They are in projects, and a project may be untrusted.
// INVARIANT: a record is always written to a regular file at exactly this path, or not at all. A link
// could redirect lines into a person's shell profile, and a pipe could block for ever.
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
import { errnoOf, isMissing } from '../../base/index.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

/** Combines flags. A flag is undefined on a system that does not have it. */
const flags = (...list: (number | undefined)[]): number =>
  list.reduce<number>((all, flag) => all | (flag ?? 0), 0);

function openRegular(file: string, mode: number): number {
  const descriptor = openSync(file, mode, 0o600);
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  throw new Error('the record is not a regular file');
}

/** Opens a record file for reading. Throws errors of the file system. The caller closes it. */
export const openRecords = (file: string): number =>
  openRegular(file, flags(O_RDONLY, O_NOFOLLOW, O_NONBLOCK));

const APPEND = flags(O_WRONLY, O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK);

interface OpenRecord {
  descriptor: number;
  device: number;
  inode: number;
}

function openForAppend(file: string): OpenRecord {
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

/** Opens a file for many records. It stays open, and its path is checked before each write. */
export function createRecordFile(file: string) {
  let opened: OpenRecord | undefined;

  /** Closes the descriptor. The next append opens the file again. */
  function close(): void {
    if (opened) closeSync(opened.descriptor);
    opened = undefined;
  }

  /** INVARIANT: the open file is always the file at the path; a moved or replaced file is closed. */
  function current(): OpenRecord {
    const there = opened && lstatSync(file, { throwIfNoEntry: false });
    if (opened && there?.ino === opened.inode && there.dev === opened.device) return opened;
    close();
    opened = openForAppend(file);
    return opened;
  }

  return {
    /** Throws the error that an append would throw. */
    touch: () => void current(),
    /**
     * Appends with one write. Throws if a part was not written, because a full disk reports no error.
     * `isChecked`: the caller has just checked the path.
     */
    append(text: string, isChecked = false) {
      const { descriptor } = (isChecked ? opened : undefined) ?? current();
      const length = Buffer.byteLength(text);
      const written = writeSync(descriptor, text);
      if (written !== length) throw new Error(`only ${written} of ${length} bytes were written`);
    },
    close,
  };
}

const CHUNK = 1 << 16;

/** Reads lines that other processes appended since the last call. Starts over if the file was replaced. */
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
    /** True if the last line has no end, because its writer was killed. */
    isTorn: () => rest.length > 0,
    /** Throws errors of the file system, except that a missing file counts as empty. */
    catchUp(): void {
      // This check runs for every file that is read, and mostly there is nothing new.
      const there = lstatSync(file, { throwIfNoEntry: false });
      if (!there || (there.isFile() && there.ino === inode && there.size === offset)) return;
      let descriptor: number;
      try {
        descriptor = openRecords(file);
      } catch (error) {
        if (isMissing(errnoOf(error))) return;
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
