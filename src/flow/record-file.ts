// Files that we append records to lie inside projects, and a project may be a stranger's. INVARIANT:
// a record goes into a regular file at exactly that place, or nowhere: a link there could send our
// lines into somebody's shell profile, a pipe could make us wait forever.
import { closeSync, constants, fstatSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

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

/** Opens for appending and closes again: throws now what an append would throw later. */
export function touchRecords(file: string): void {
  mkdirSync(dirname(file), { recursive: true });
  closeSync(openRegular(file, APPEND));
}

/** Appends with one write, whole or with an exception: a full disk writes short without an error. */
export function appendRecord(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  const descriptor = openRegular(file, APPEND);
  try {
    const bytes = Buffer.from(text);
    const written = writeSync(descriptor, bytes);
    if (written !== bytes.length) throw new Error(`only ${written} of ${bytes.length} bytes fit`);
  } finally {
    closeSync(descriptor);
  }
}
