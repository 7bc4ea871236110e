// Implements `write_file` and all other writes: content goes to a temporary file beside the target, which is
// flushed and renamed over it. A reader sees the old or the new content, also after a crash at any byte.
import { hash, randomBytes } from 'node:crypto';
import { closeSync, constants, type Stats } from 'node:fs';
import { link, lstat, open, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import {
  diskFault,
  errnoOf,
  type Failure,
  fail,
  getOwn,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { MaybePromise } from '../../flow/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../primitive.ts';
import type { ProjectPath } from '../rights/project-path.ts';
import { cancelled, makeFolder, type OpenFolder, openFolder, textOf } from './content.ts';
import { lookedMarks } from './list.ts';
import { placeFor } from './read-file.ts';

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = constants;

export const MAX_WRITTEN_BYTES = 32 * 1024 * 1024;

// INVARIANT: no file tool changes an item or git's own files, whatever a grant's glob says. Items
// change through `execute`; a hook or a setting under `.git` would be run by the next git command.
export function protectedPlace(relative: string): Failure | undefined {
  const parts = relative.toLowerCase().split('/');
  const why =
    parts[0] === '.ai'
      ? 'is under `.ai/`; items change through `execute` with `create`, `update` or `delete`'
      : 'belongs to git; file tools never write there';
  if (parts[0] !== '.ai' && !parts.includes('.git')) return undefined;
  const detail = { missing: '', rule: 'closed_place', attempted: relative };
  return fail('permission_denied', `\`${relative}\` ${why}`, detail);
}

/** Returns the present file, or undefined. Anything but a regular file is refused. */
async function presentFile(path: string, displayPath: string): Promise<Outcome<Stats | undefined>> {
  try {
    const info = await lstat(path);
    if (info.isFile()) return ok(info);
    const what = info.isDirectory() ? 'a folder' : 'not a regular file';
    return fail('invalid_input', `\`${displayPath}\` is ${what} and cannot be written`, {
      path: displayPath,
    });
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return ok(undefined);
    return diskFault(error, displayPath);
  }
}

interface WriteOptions {
  onlyNew?: boolean;
  /** Refuses if the file does not have this time and size, because another process wrote it. */
  replaces?: { mtimeMs: number; size: number };
  /** Refuses unless the present content is this: `new` for no file, or the content with this hash. */
  holds?: string | undefined;
  /**
   * Content that a person approved overwriting. The write is also allowed if the file already has the
   * new content.
   */
  approved?: string | undefined;
  /**
   * Receives the hash of the new content and of the present content (null: no file) before the file is
   * replaced. A failure stops the write.
   */
  willWrite?: (sha256: string, before: string | null) => MaybePromise<Outcome<null>>;
  /** Hash of the replaced content, if known. */
  before?: string;
}

/** Returns the hash of the present content, or null if there is no file. */
async function hashOf(
  place: ProjectPath,
  there: Stats | undefined,
  knownHash: string | undefined,
): Promise<Outcome<string | null>> {
  if (!there) return ok(null);
  if (knownHash !== undefined) return ok(knownHash);
  const { readWhole } = await import('./read-file.ts');
  const whole = await readWhole(place, MAX_WRITTEN_BYTES);
  // The empty hash matches no record, so an unreadable file does not count as created by the caller.
  return ok(whole.ok ? whole.output.sha256 : '');
}

const changedByOthers = (relative: string): Failure =>
  fail('tool_failed', `\`${relative}\` was changed by another process; read it again`, {
    path: relative,
    reason: 'changed',
  });

/** A larger file is identified by its size and time instead of its hash. */
export const MAX_IDENTIFIED_BYTES = 128 * 1024 * 1024;

/** Returns the identity of a file: the hash of its content, or size and time if the file is too large. */
export async function identityOf(place: ProjectPath, there: Stats): Promise<string> {
  const { readWhole } = await import('./read-file.ts');
  const whole = await readWhole(place, MAX_IDENTIFIED_BYTES);
  return whole.ok ? whole.output.sha256 : `${there.size} bytes of ${there.mtimeMs}`;
}

/**
 * Checks that the file is still what the person approved. `written` is the hash of the new content: a
 * repeated write finds it.
 */
async function changedSinceApproval(
  place: ProjectPath,
  there: Stats | undefined,
  approved: string | undefined,
  written: string,
): Promise<Failure | undefined> {
  if (approved === undefined) return undefined;
  const now = there ? await identityOf(place, there) : 'new';
  if (now === approved || now === written) return undefined;
  return notApproved(place.relative);
}

export const notApproved = (path: string): Failure =>
  fail(
    'conflict',
    `\`${path}\` changed after the approval request; nothing was written, read it and call again`,
    { path, reason: 'changed' },
  );

async function putInPlace(
  { path: folder }: OpenFolder,
  name: string,
  bytes: Uint8Array,
  mode: number | undefined,
  onlyNew: boolean,
): Promise<void> {
  const temporary = join(folder, `.${name.slice(0, 100)}.${randomBytes(6).toString('hex')}.tmp`);
  try {
    const handle = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode ?? 0o666);
    try {
      // The umask of the process narrowed the mode at creation. An existing file keeps exactly its own mode.
      if (mode !== undefined) await handle.chmod(mode & 0o777);
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (onlyNew)
      await link(temporary, join(folder, name)); // fails if the name exists, unlike `rename`
    else await rename(temporary, join(folder, name));
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  }
  if (onlyNew) await unlink(temporary);
}

/** Writes content to a path that the caller may write. Never follows a link. */
export async function writeWhole(
  place: ProjectPath,
  bytes: Uint8Array,
  options: WriteOptions = {},
): Promise<Outcome<{ created: boolean; sha256: string }>> {
  const { absolute, relative } = place;
  const folder = makeFolder(dirname(absolute), relative);
  if (!folder.ok) return folder;
  try {
    const name = basename(absolute);
    const before = await presentFile(join(folder.output.path, name), relative);
    if (!before.ok) return before;
    const { replaces, holds } = options;
    const onlyNew = options.onlyNew === true || holds === 'new';
    if (onlyNew && before.output) return diskFault({ code: 'EEXIST' }, relative);
    const changed =
      replaces &&
      (before.output?.mtimeMs !== replaces.mtimeMs || before.output.size !== replaces.size);
    const old = await hashOf(place, before.output, options.before);
    if (!old.ok) return old;
    const isOther = holds !== undefined && holds !== 'new' && holds !== old.output;
    if (changed || isOther) return changedByOthers(relative);
    const sha256 = hash('sha256', bytes);
    const conflict = await changedSinceApproval(place, before.output, options.approved, sha256);
    if (conflict) return conflict;
    const announced = await (options.willWrite?.(sha256, old.output) ?? ok(null));
    if (!announced.ok) return announced;
    await putInPlace(folder.output, name, bytes, before.output?.mode, onlyNew);
    return ok({ created: before.output === undefined, sha256 });
  } catch (error) {
    return diskFault(error, relative);
  } finally {
    closeSync(folder.output.descriptor);
  }
}

/** Appends to a file that the caller may write. Never follows a link. */
export async function addToFile(
  { absolute, relative }: ProjectPath,
  bytes: Uint8Array,
): Promise<Outcome<null>> {
  const folder = openFolder(dirname(absolute), relative);
  if (!folder.ok) return folder;
  try {
    const flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
    const handle = await open(join(folder.output.path, basename(absolute)), flags);
    try {
      const there = await handle.stat();
      if (!there.isFile() || there.nlink !== 1) {
        return fail('invalid_input', `\`${relative}\` is not a regular file with one name`);
      }
      await handle.writeFile(bytes);
      await handle.sync();
      return ok(null);
    } finally {
      await handle.close();
    }
  } catch (error) {
    return diskFault(error, relative);
  } finally {
    closeSync(folder.output.descriptor);
  }
}

export const tooLarge = (path: string, size: number): Failure =>
  fail(
    'invalid_input',
    `content for \`${path}\` has ${size} bytes, more than ${MAX_WRITTEN_BYTES}`,
  );

/** Refuses if the real path is not the path that was judged, because a link was put in the way. */
export function elsewhere({ holds, parameters }: PrimitiveCall, relative: string) {
  const isJudged = holds !== 'never' && relative === plainPath(textOf(parameters, 'path'));
  return holds === undefined || isJudged
    ? undefined
    : fail('permission_denied', `\`${relative}\` is not the path that was judged; call again`, {
        rule: 'place_changed',
      });
}

/** Returns the path if every system resolves it to the same file. Undefined if that is not certain. */
export function plainPath(path: string): string | undefined {
  const plain = path.startsWith('./') ? path.slice(2) : path;
  const isOdd = plain !== plain.normalize('NFC') || /[\p{C}\\:]/u.test(plain);
  const isNamed = plain.split('/').every((part) => part !== '' && !/[. ]$|^git~\d/i.test(part));
  return isOdd || !isNamed ? undefined : plain;
}

export async function writeFile(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const place = placeFor(call, textOf(call.parameters, 'path'), 'fs.write');
  if (!place.ok) return place;
  const { absolute, relative } = place.output;
  const refused = protectedPlace(relative) ?? elsewhere(call, relative);
  if (refused) return refused;
  const bytes = Buffer.from(textOf(call.parameters, 'content'), 'utf8');
  if (bytes.length > MAX_WRITTEN_BYTES) return tooLarge(relative, bytes.length);
  if (call.signal.aborted) return cancelled();
  const onlyNew = getOwn(call.parameters, 'overwrite') === false;
  const written = await writeWhole(place.output, bytes, {
    onlyNew,
    holds: call.holds,
    approved: call.approved,
    willWrite: (sha256, before) => call.willWrite?.(absolute, sha256, [], before) ?? ok(null),
  });
  if (!written.ok) return written;
  const { created, sha256 } = written.output;
  return ok({
    output: { path: relative, bytes: bytes.length, created },
    // The marks of the folder are needed, because the answer reveals whether the file existed.
    ...lookedMarks(call, { absolute: dirname(absolute), relative: dirname(relative) }, [
      dirname(absolute),
    ]),
    files: [{ access: 'written', absolute, relative, sha256 }],
  });
}
