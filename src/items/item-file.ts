// Reading one file of a stranger's project: never a pipe or a device, never through a symlink that
// was not asked for, never more than a bound, and always as text or as a reason why not.
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/** Larger than any honest item; beyond it a file is reported, not read. */
export const MAX_ITEM_BYTES = 256 * 1024;

export type FileText = { text: string } | { problem: { code: string; message: string } };

const problem = (code: string, message: string): FileText => ({ problem: { code, message } });

// A pipe would block on opening, a symlink could be swapped in after it was checked.
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

function readAll(descriptor: number, max: number): Buffer | undefined {
  const buffer = Buffer.allocUnsafe(Math.min(max, fstatSync(descriptor).size) + 1);
  let length = 0;
  for (;;) {
    const read = readSync(descriptor, buffer, length, buffer.length - length, null);
    if (read === 0) return buffer.subarray(0, length);
    length += read;
    if (length >= buffer.length) return undefined;
  }
}

function decode(bytes: Buffer): FileText {
  if (bytes.includes(0)) {
    return problem('nul_byte', 'the file holds a NUL byte, so it is not text');
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return problem('not_utf8', 'the file is not valid UTF-8');
  }
}

/** Never throws. `path` must not be a symlink: resolve it first. */
export function readItemFile(path: string, max = MAX_ITEM_BYTES): FileText {
  let descriptor: number;
  try {
    descriptor = openSync(path, FLAGS);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
    return problem('unreadable', `the file cannot be read (${reason})`);
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return problem('not_a_file', 'this is not an ordinary file');
    const tooLarge = `the file is larger than ${max / 1024} KiB`;
    if (stats.size > max) return problem('too_large', tooLarge);
    const bytes = readAll(descriptor, max);
    return bytes === undefined ? problem('too_large', tooLarge) : decode(bytes);
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown reason';
    return problem('unreadable', `the file cannot be read (${reason})`);
  } finally {
    closeSync(descriptor);
  }
}
