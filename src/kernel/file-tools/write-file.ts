// `write_file` and the one way content reaches a file: a temporary file beside the target, flushed,
// then renamed over it. Whoever reads, and a crash at any byte, sees the old content or the new one.
import { createHash, randomBytes } from 'node:crypto';
import { link, lstat, rename, unlink } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { errnoOf, type Failure, fail, getOwn, type Outcome, ok } from '../../base/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../primitive.ts';
import type { ProjectPath } from '../rights/project-path.ts';
import { cancelled, createFile, diskFault, type Folder, makeFolder, textOf } from './content.ts';
import { placeFor } from './read-file.ts';

export const MAX_WRITTEN_BYTES = 32 * 1024 * 1024;

// INVARIANT: no file tool changes an item or git's own files, whatever a grant's glob says. Items
// change through `execute`; a hook or a setting under `.git` would be run by the next git command.
export function protectedPlace(relative: string): Failure | undefined {
  const parts = relative.toLowerCase().split('/');
  if (parts[0] === '.ai') {
    const message = `\`${relative}\` is under \`.ai/\`; items change through \`execute\` with \`create\`, \`update\` or \`delete\``;
    return fail('permission_denied', message, { missing: 'fs.write', attempted: relative });
  }
  if (parts.includes('.git')) {
    const message = `\`${relative}\` belongs to git; file tools never write there`;
    return fail('permission_denied', message, { missing: 'fs.write', attempted: relative });
  }
  return undefined;
}

/** What is there now; anything but a regular file is refused. */
async function standing(path: string, shown: string): Promise<Outcome<StandingFile | undefined>> {
  try {
    const info = await lstat(path);
    if (info.isFile()) return ok({ mode: info.mode, mtimeMs: info.mtimeMs, size: info.size });
    const what = info.isDirectory() ? 'a folder' : 'not a regular file';
    return fail('invalid_input', `\`${shown}\` is ${what} and cannot be written`, { path: shown });
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return ok(undefined);
    return diskFault(error, shown);
  }
}

interface StandingFile {
  mode: number;
  mtimeMs: number;
  size: number;
}

export interface WriteOptions {
  /** Refuse when the file exists. */
  onlyNew?: boolean;
  /** Refuse when the file is no longer this one: somebody else wrote it in between. */
  replaces?: { mtimeMs: number; size: number };
  /** Told the content's hash before it takes its place; a failure stops the write. */
  willWrite?: (sha256: string) => Outcome<null>;
}

async function putInPlace(
  folder: Folder,
  name: string,
  bytes: Uint8Array,
  mode: number | undefined,
  onlyNew: boolean,
): Promise<void> {
  const temporary = folder.at(`.${name.slice(0, 100)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    const handle = await createFile(temporary, mode ?? 0o666);
    try {
      // The process's umask narrowed the mode at creation; an existing file keeps exactly its own.
      if (mode !== undefined) await handle.chmod(mode & 0o777);
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (onlyNew)
      await link(temporary, folder.at(name)); // fails when the name is taken, unlike rename
    else await rename(temporary, folder.at(name));
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  if (onlyNew) await unlink(temporary);
}

/** Writes content to a place the caller was already allowed to write. Never follows a link. */
export async function writeWhole(
  place: ProjectPath,
  bytes: Uint8Array,
  options: WriteOptions = {},
): Promise<Outcome<{ created: boolean; sha256: string }>> {
  const { absolute, relative } = place;
  const folder = await makeFolder(dirname(absolute), relative);
  if (!folder.ok) return folder;
  try {
    const name = basename(absolute);
    const before = await standing(folder.output.at(name), relative);
    if (!before.ok) return before;
    const { replaces, onlyNew = false } = options;
    if (onlyNew && before.output) return diskFault({ code: 'EEXIST' }, relative);
    const changed =
      replaces &&
      (before.output?.mtimeMs !== replaces.mtimeMs || before.output.size !== replaces.size);
    if (changed) {
      const message = `\`${relative}\` was changed by somebody else in the meantime; read it again`;
      return fail('tool_failed', message, { path: relative, reason: 'changed' });
    }
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const told = options.willWrite?.(sha256) ?? ok(null);
    if (!told.ok) return told;
    await putInPlace(folder.output, name, bytes, before.output?.mode, onlyNew);
    return ok({ created: before.output === undefined, sha256 });
  } catch (error) {
    return diskFault(error, relative);
  } finally {
    await folder.output.close();
  }
}

export const tooLarge = (path: string, size: number): Failure =>
  fail(
    'invalid_input',
    `content for \`${path}\` has ${size} bytes, more than ${MAX_WRITTEN_BYTES}`,
  );

export async function writeFile(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const place = placeFor(call, textOf(call.parameters, 'path'), 'fs.write');
  if (!place.ok) return place;
  const { absolute, relative } = place.output;
  const refused = protectedPlace(relative);
  if (refused) return refused;
  const bytes = Buffer.from(textOf(call.parameters, 'content'), 'utf8');
  if (bytes.length > MAX_WRITTEN_BYTES) return tooLarge(relative, bytes.length);
  if (call.signal.aborted) return cancelled();
  const onlyNew = getOwn(call.parameters, 'overwrite') === false;
  const written = await writeWhole(place.output, bytes, {
    onlyNew,
    willWrite: (sha256) => call.willWrite?.(absolute, sha256) ?? ok(null),
  });
  if (!written.ok) return written;
  const { created, sha256 } = written.output;
  return ok({
    output: { path: relative, bytes: bytes.length, created },
    files: [{ access: 'written', absolute, relative, sha256 }],
  });
}
