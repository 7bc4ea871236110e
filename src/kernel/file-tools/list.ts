// `list_dir` and `glob`: names only, and only those the caller may read. What is hidden is not
// counted either. Where nothing can be seen and the folder itself is not granted, the answer is the
// refusal, whether or not the folder exists.
import type { Dirent } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  fail,
  globProblem,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../primitive.ts';
import { type ProjectPath, resolveProjectPath } from '../rights/project-path.ts';
import { cancelled, countOf, diskFault, fileMarks, isSet, openFolder, textOf } from './content.ts';

// Walking a project without trusting it: links are never followed, order is by name, and the number
// of entries looked at is bounded, so that a folder with a million files costs what we say it costs.

const MAX_DEPTH = 64;
export const MAX_ENTRIES = 200_000;

/** Other programs' folders, and the traces of our own: skipped unless somebody names them. */
const IGNORED_NAMES = ['.git', 'node_modules'];
const IGNORED_PATHS = ['.ai/threads', '.ai/.env'];

export type EntryKind = 'file' | 'folder' | 'link' | 'other';

export interface ListedEntry extends ProjectPath {
  name: string;
  kind: EntryKind;
}

function kindOf(entry: Dirent): EntryKind {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'folder';
  return entry.isSymbolicLink() ? 'link' : 'other';
}

const below = (relative: string, name: string): string =>
  relative === '.' ? name : `${relative}/${name}`;

/** The entries of one folder by name, at most `max` of them. */
export async function entriesOf(
  folder: ProjectPath,
  max: number,
): Promise<Outcome<{ entries: ListedEntry[]; more: boolean }>> {
  const opened = await openFolder(folder.absolute, folder.relative);
  if (!opened.ok) return opened;
  const entries: ListedEntry[] = [];
  let more = false;
  try {
    for await (const entry of await opendir(opened.output.at('.'))) {
      more = entries.length >= max;
      if (more) break;
      const { name } = entry;
      const place = {
        absolute: join(folder.absolute, name),
        relative: below(folder.relative, name),
      };
      entries.push({ ...place, name, kind: kindOf(entry) });
    }
  } catch (error) {
    return diskFault(error, folder.relative);
  } finally {
    await opened.output.close();
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  return ok({ entries, more });
}

export interface WalkOptions {
  includeIgnored: boolean;
  /** Names that a pattern spells out are not ignored. */
  named?: readonly string[];
  signal: AbortSignal;
  maxEntries?: number;
}

export interface Walk {
  files(): AsyncGenerator<ListedEntry>;
  /** True when the bound, and not the project, ended the walk. */
  truncated(): boolean;
}

export function walkFiles(start: ProjectPath, options: WalkOptions): Walk {
  let left = options.maxEntries ?? MAX_ENTRIES;
  let truncated = false;
  const isIgnored = ({ name, relative }: ListedEntry): boolean =>
    !options.includeIgnored &&
    ((IGNORED_NAMES.includes(name) && !options.named?.includes(name)) ||
      (IGNORED_PATHS.includes(relative) && !options.named?.includes('.ai')));

  async function* visit(folder: ProjectPath, depth: number): AsyncGenerator<ListedEntry> {
    if (depth > MAX_DEPTH || left <= 0) {
      truncated = true;
      return;
    }
    const listed = await entriesOf(folder, left);
    // A folder that vanished or cannot be opened holds nothing for this caller.
    if (!listed.ok) return;
    left -= listed.output.entries.length;
    truncated ||= listed.output.more;
    for (const entry of listed.output.entries) {
      if (options.signal.aborted) return;
      if (entry.kind === 'file') yield entry;
      else if (entry.kind === 'folder' && !isIgnored(entry)) yield* visit(entry, depth + 1);
    }
  }

  return { files: () => visit(start, 0), truncated: () => truncated };
}

export const mayRead = (call: PrimitiveCall, path: string): Outcome<null> =>
  call.verify({ capability: 'fs.read', scope: { path } });

async function describe(entry: ListedEntry): Promise<JsonObject> {
  const { name, kind: type } = entry;
  if (type !== 'file') return { name, type };
  const info = await lstat(entry.absolute).catch(() => undefined);
  return info ? { name, type, bytes: info.size } : { name, type };
}

export async function listDir(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const place = resolveProjectPath(call.projectRoot, textOf(call.parameters, 'path', '.'));
  if (!place.ok) return place;
  const { relative } = place.output;
  const allowed = mayRead(call, relative);
  const limit = countOf(call.parameters, 'limit', { fallback: 500, min: 1, max: 5000 });
  const listed = await entriesOf(place.output, MAX_ENTRIES);
  const visible = listed.ok
    ? listed.output.entries.filter((entry) => mayRead(call, entry.relative).ok)
    : [];
  if (visible.length === 0 && !allowed.ok) return allowed;
  if (!listed.ok) return listed;
  const entries: JsonObject[] = [];
  for (const entry of visible.slice(0, limit)) entries.push(await describe(entry));
  const truncated = listed.output.more || visible.length > limit;
  const output = { path: relative, entries, total: visible.length, truncated };
  return ok({ output, ...fileMarks([relative === '.' ? '*' : `${relative}/*`]) });
}

/** Walking starts where the pattern stops being literal; the rest is matched below that folder. */
function splitPattern(pattern: string): { start: string; rest: string } {
  const parts = pattern.split('/').filter((part) => part !== '' && part !== '.');
  const special = parts.findIndex((part) => /[*?]/.test(part));
  const at = special === -1 ? parts.length - 1 : special;
  return { start: parts.slice(0, at).join('/') || '.', rest: parts.slice(at).join('/') };
}

/** Where a search may look: the folder `path`, narrowed by the literal beginning of a pattern. */
export function searchStart(
  call: PrimitiveCall,
  pattern: string,
): Outcome<{ start: ProjectPath; rest: string }> {
  const problem = globProblem(pattern);
  if (problem !== undefined) return fail('invalid_input', `glob \`${pattern}\` ${problem}`);
  const { start, rest } = splitPattern(pattern);
  if (rest === '') return fail('invalid_input', `glob \`${pattern}\` names no file`);
  const base = resolveProjectPath(call.projectRoot, textOf(call.parameters, 'path', '.'));
  if (!base.ok) return base;
  const place = resolveProjectPath(call.projectRoot, join(base.output.absolute, start));
  return place.ok ? ok({ start: place.output, rest }) : place;
}

/** The path as seen from a folder of the project. */
export const pathBelow = (start: string, path: string): string =>
  start === '.' ? path : path.slice(start.length + 1);

/** Why nothing was found, when the reason is not that there is nothing. */
export async function emptyFor(call: PrimitiveCall, start: ProjectPath): Promise<Outcome<null>> {
  const allowed = mayRead(call, start.relative);
  if (!allowed.ok) return allowed;
  const base = resolveProjectPath(call.projectRoot, textOf(call.parameters, 'path', '.'));
  if (!base.ok) return base;
  const there = await lstat(base.output.absolute).catch(() => undefined);
  return there ? ok(null) : diskFault({ code: 'ENOENT' }, base.output.relative);
}

export async function glob(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const pattern = textOf(call.parameters, 'pattern');
  const search = searchStart(call, pattern);
  if (!search.ok) return search;
  const { start, rest } = search.output;
  const limit = countOf(call.parameters, 'limit', { fallback: 1000, min: 1, max: 10_000 });
  const walk = walkFiles(start, {
    includeIgnored: isSet(call.parameters, 'include_ignored'),
    named: pattern.split('/'),
    signal: call.signal,
  });
  const paths: string[] = [];
  let more = false;
  for await (const { relative } of walk.files()) {
    if (!matchGlob(rest, pathBelow(start.relative, relative))) continue;
    if (!mayRead(call, relative).ok) continue;
    more = paths.length >= limit;
    if (more) break;
    paths.push(relative);
  }
  if (call.signal.aborted) return cancelled();
  if (paths.length === 0) {
    const reason = await emptyFor(call, start);
    if (!reason.ok) return reason;
  }
  const output = { pattern, paths, truncated: more || walk.truncated() };
  return ok({ output, ...fileMarks([start.relative === '.' ? '*' : `${start.relative}/*`]) });
}
