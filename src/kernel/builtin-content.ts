// The content of a file, at a place that was judged before. What a model reads is small: opening and
// reading it here costs less than handing each step to another thread, so only what is large waits.
import {
  closeSync,
  constants,
  fstatSync,
  openSync,
  read,
  readlinkSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';
import { diskFault, moved } from './builtin-place.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

const CHUNK = 64 * 1024;
/** What is read before anything else gets a turn. */
const AT_ONCE = 256 * 1024;
/** Beyond this a file is for `grep` or a program, not for a model. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** An open regular file; whoever opened it closes it. */
export interface OpenFile {
  descriptor: number;
  size: number;
  mode: number;
  mtimeMs: number;
}

/** Where to look for the names of an open folder; undefined when it is not the one that was meant. */
function anchorOf(folder: number, absolute: string): string | undefined {
  const via = `/proc/self/fd/${folder}`;
  try {
    return readlinkSync(via) === absolute ? via : undefined;
  } catch {
    // No such place on this system: the same folder by identity, at a path without links.
    const [held, there] = [fstatSync(folder), statSync(absolute)];
    const same = held.dev === there.dev && held.ino === there.ino;
    return same && realpathSync.native(absolute) === absolute ? absolute : undefined;
  }
}

function openIn(folder: string, name: string, shown: string): Outcome<OpenFile> {
  const descriptor = openSync(join(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  const stats = fstatSync(descriptor);
  const { size, mode, mtimeMs } = stats;
  if (stats.isFile()) return ok({ descriptor, size, mode, mtimeMs });
  closeSync(descriptor);
  const what = stats.isDirectory() ? 'a folder' : 'not a regular file';
  return fail('invalid_input', `\`${shown}\` is ${what}`, { path: shown });
}

/** Opens a regular file for reading. A pipe or device neither blocks nor gets read. */
export function openFile(absolute: string, shown: string): Outcome<OpenFile> {
  let folder: number | undefined;
  try {
    folder = openSync(dirname(absolute), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    const anchor = anchorOf(folder, dirname(absolute));
    return anchor === undefined ? moved(shown) : openIn(anchor, basename(absolute), shown);
  } catch (error) {
    return diskFault(error, shown);
  } finally {
    if (folder !== undefined) closeSync(folder);
  }
}

const readLater = promisify(read);

/**
 * Hands the content on in pieces, which are gone afterwards; ends early with what `take` answers.
 * Stops at the bound even when the file grows while it is read. Throws what the system says.
 */
export async function eachChunk(
  { descriptor, size }: OpenFile,
  take: (chunk: Uint8Array) => Failure | undefined,
): Promise<Failure | undefined> {
  const buffer = Buffer.allocUnsafe(Math.min(CHUNK, size + 1));
  for (let position = 0; position < MAX_FILE_BYTES; ) {
    const count =
      position < AT_ONCE
        ? readSync(descriptor, buffer, 0, buffer.length, position)
        : (await readLater(descriptor, buffer, 0, buffer.length, position)).bytesRead;
    if (count === 0) return undefined;
    position += count;
    const ended = take(buffer.subarray(0, count));
    if (ended) return ended;
  }
  return undefined;
}
