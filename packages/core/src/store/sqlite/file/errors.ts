// Maps errors of SQLite to codes that a caller can act on.
import { type Failure, fail } from '../../../base/index.ts';

const [BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB] = [
  5, 6, 8, 10, 11, 13, 14, 26,
];
/** Code of a shared-memory file that could not grow, because the disk is full. */
const IOERR_SHMSIZE = 4874;

const codeOf = (error: unknown): number => {
  const { errcode } = error as { errcode?: unknown };
  return typeof errcode === 'number' ? errcode : 0;
};

export function isBusy(error: unknown): boolean {
  const code = codeOf(error) & 0xff;
  return code === BUSY || code === LOCKED;
}

const FAULTS: ReadonlyMap<number, readonly [code: string, what: string]> = new Map([
  [BUSY, ['store_busy', 'is in use by other processes; try again']],
  [LOCKED, ['store_busy', 'is in use by other processes; try again']],
  [FULL, ['disk_full', 'cannot grow: the disk is full; free some space and resume']],
  [READONLY, ['store_failed', 'cannot be written; check the rights of the file and its folder']],
  [CANTOPEN, ['store_failed', 'cannot be opened; check the rights of its folder']],
  [CORRUPT, ['store_failed', 'is damaged; move it away and start a new one']],
  [NOTADB, ['store_failed', 'is not a registry; move it away and start a new one']],
  [IOERR, ['store_failed', 'cannot be read or written: the disk reports an error']],
]);

/** Never throws. An error that is not from SQLite is a bug and gets `internal_error`. */
export function faultOf(error: unknown, file: string): Failure {
  const code = codeOf(error);
  const entry = FAULTS.get(code === IOERR_SHMSIZE ? FULL : code & 0xff);
  if (entry) return fail(entry[0], `the registry \`${file}\` ${entry[1]}`, { file });
  const text = error instanceof Error ? error.message : String(error);
  if (text === 'database is not open') {
    return fail('store_closed', `the registry \`${file}\` was closed`, { file });
  }
  return fail('internal_error', `the registry \`${file}\` failed: ${text}`, { file });
}
