// Errors of the file system in the words of this project. Every fault about a file is made here.
import { type ErrorCode, errnoOf, type Failure, fail, type JsonObject } from './outcome.ts';

/** `ELOOP` is what the system answers when a link stands where the caller allows none. */
const FAULTS: Readonly<Record<string, readonly [ErrorCode, string, JsonObject?]>> = {
  ENOENT: ['not_found', 'does not exist'],
  EISDIR: ['invalid_input', 'is a folder'],
  ENOTDIR: ['invalid_input', 'is not a folder'],
  EEXIST: ['invalid_input', 'exists already', { reason: 'exists' }],
  ELOOP: [
    'permission_denied',
    'is a link, or was replaced while it was opened',
    { rule: 'place_changed' },
  ],
};
const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'the file system is read-only',
  EACCES: 'the operating system denies access',
  EPERM: 'the operating system denies access',
  EMFILE: 'too many files are open',
  ENAMETOOLONG: 'the name is too long',
};

/** Why the file system refuses, for a message that names the file itself. */
export const diskReason = (error: unknown): string => {
  const errno = errnoOf(error);
  return REASONS[errno] ?? errno;
};

/** The fault of an operation on a file; `path` is shown as the caller knows it. */
export function diskFault(error: unknown, path: string): Failure {
  const errno = errnoOf(error);
  const [code, message, detail] = FAULTS[errno] ?? [];
  if (code !== undefined) return fail(code, `\`${path}\` ${message}`, { path, ...detail });
  return fail('tool_failed', `\`${path}\`: ${diskReason(error)}`, { path, errno });
}
