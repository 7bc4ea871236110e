// Reading one file of a stranger's project, as text or as a reason why not.
import { readRegularFile } from '../base/index.ts';

/** Larger than any honest item; beyond it a file is reported, not read. */
export const MAX_ITEM_BYTES = 256 * 1024;

export type FileText = { text: string } | { problem: { code: string; message: string } };

const problem = (code: string, message: string): FileText => ({ problem: { code, message } });

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
  const read = readRegularFile(path, { max });
  return 'bytes' in read ? decode(read.bytes) : problem(read.problem.code, read.problem.message);
}
