// Opening a place without losing it on the way. Between asking where a path leads and opening it, a
// folder on the way can be swapped for a link. So the folder is opened first, what was opened is
// compared with what was asked about, and everything else happens relative to that open folder:
// on Linux `/proc/self/fd/N/name` is what `openat` is in C. Elsewhere the full path is used and the
// comparison is the protection.
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = constants;

/** An open folder; `at(name)` is a path that stays inside it whatever happens to its name. */
export interface Folder {
  at(name: string): string;
  close(): Promise<void>;
}

const errnoOf = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code ?? (error as Error).message;

export const moved = (path: string): Failure =>
  fail('permission_denied', `\`${path}\` was replaced by another place while it was opened`);

/** What went wrong on disk, in words; `path` is shown as the caller knows it. */
export function diskFault(error: unknown, path: string): Failure {
  const code = errnoOf(error);
  if (code === 'ENOENT') return fail('not_found', `\`${path}\` does not exist`, { path });
  if (code === 'EISDIR') return fail('invalid_input', `\`${path}\` is a folder`, { path });
  if (code === 'ENOTDIR') return fail('invalid_input', `\`${path}\` is not a folder`, { path });
  if (code === 'EEXIST') return fail('invalid_input', `\`${path}\` exists already`, { path });
  if (code === 'ELOOP') return moved(path);
  const why: Record<string, string> = {
    ENOSPC: 'the disk is full',
    EDQUOT: 'the disk quota is used up',
    EROFS: 'the file system is read-only',
    EACCES: 'the operating system denies access',
    EPERM: 'the operating system denies access',
    EMFILE: 'too many files are open',
    ENAMETOOLONG: 'the name is too long',
  };
  return fail('tool_failed', `\`${path}\`: ${why[code] ?? code}`, { path, errno: code });
}

/** The real path behind an open handle: asked of the kernel, or compared by identity. */
async function isAt(handle: FileHandle, absolute: string): Promise<boolean> {
  try {
    return (await readlink(`/proc/self/fd/${handle.fd}`)) === absolute;
  } catch {
    const [held, there] = [await handle.stat(), await stat(absolute)];
    const same = held.dev === there.dev && held.ino === there.ino;
    return same && (await realpath(absolute)) === absolute;
  }
}

async function toFolder(handle: FileHandle, absolute: string): Promise<Folder> {
  const viaHandle = `/proc/self/fd/${handle.fd}`;
  const anchored = await readlink(viaHandle).then(
    () => true,
    () => false,
  );
  return {
    at: (name) => join(anchored ? viaHandle : absolute, name),
    close: () => handle.close(),
  };
}

/** Opens the folder at a real path; `shown` is the path for messages. The caller closes it. */
export async function openFolder(absolute: string, shown: string): Promise<Outcome<Folder>> {
  let handle: FileHandle;
  try {
    handle = await open(absolute, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    return diskFault(error, shown);
  }
  try {
    if (await isAt(handle, absolute)) return ok(await toFolder(handle, absolute));
    await handle.close();
    return moved(shown);
  } catch (error) {
    await handle.close();
    return diskFault(error, shown);
  }
}

/** Opens the folder a file is to be written to, making what is missing, one level after the other. */
export async function makeFolder(absolute: string, shown: string): Promise<Outcome<Folder>> {
  const existing = await openFolder(absolute, shown);
  if (existing.ok || existing.error.code !== 'not_found') return existing;
  const parent = await makeFolder(dirname(absolute), shown);
  if (!parent.ok) return parent;
  try {
    const path = parent.output.at(basename(absolute));
    await mkdir(path).catch((error: unknown) => {
      if (errnoOf(error) !== 'EEXIST') throw error; // somebody else made it: fine if it is a folder
    });
    return ok(await toFolder(await open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), absolute));
  } catch (error) {
    return diskFault(error, shown);
  } finally {
    await parent.output.close();
  }
}

/** Creates a file that did not exist, for writing only. Throws what the system says. */
export const createFile = (path: string, mode: number): Promise<FileHandle> =>
  open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
