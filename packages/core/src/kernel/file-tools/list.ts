// Implements `list_dir` and `glob`, with only names that the caller may read. Hidden names are not counted. If
// the caller can see no entry and has no grant for the folder itself, the answer is the refusal, whether
// or not the folder exists.
import { closeSync, type Dirent } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  diskFault,
  fail,
  globProblem,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { RECORD_NAMES } from '../../items/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../primitive.ts';
import { isClosed } from '../rights/closed-places.ts';
import { type ProjectPath, resolveProjectPath } from '../rights/project-path.ts';
import { cancelled, countOf, fileMarks, isSet, openFolder, textOf } from './content.ts';

/** A walk follows no links, sorts by name, and visits a bounded number of entries. */
const MAX_DEPTH = 64;
const MAX_ENTRIES = 200_000;

/** Folders of other programs and of the runtime. A walk skips them unless the pattern names them. */
const IGNORED_NAMES = ['.git', 'node_modules'];
const IGNORED_PATHS = ['.env', ...RECORD_NAMES].map((name) => `.ai/${name}`);

interface ListedEntry extends ProjectPath {
  name: string;
  kind: 'file' | 'folder' | 'link' | 'other';
}

function kindOf(entry: Dirent): ListedEntry['kind'] {
  if (entry.isFile()) return 'file';
  if (entry.isDirectory()) return 'folder';
  return entry.isSymbolicLink() ? 'link' : 'other';
}

export const below = (relative: string, name: string): string =>
  relative === '.' ? name : `${relative}/${name}`;

/** Returns the entries of one folder sorted by name, at most `max` of them. */
export async function entriesOf(
  folder: ProjectPath,
  max: number,
): Promise<Outcome<{ entries: ListedEntry[]; more: boolean }>> {
  const opened = openFolder(folder.absolute, folder.relative);
  if (!opened.ok) return opened;
  const entries: ListedEntry[] = [];
  let more = false;
  try {
    for await (const entry of await opendir(opened.output.path)) {
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
    closeSync(opened.output.descriptor);
  }
  entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  return ok({ entries, more });
}

export const mayRead = (call: PrimitiveCall, path: string): Outcome<null> =>
  call.verify({ capability: 'fs.read', scope: { path } });

/** Returns the labels, sources and marks of a result that lists these folders. */
export function lookedMarks(
  call: PrimitiveCall,
  { relative }: ProjectPath,
  folders: readonly string[],
): Pick<PrimitiveResult, 'labels' | 'sources' | 'marks'> {
  const marks = call.seen?.([], folders);
  const own = fileMarks(call, [relative === '.' ? '*' : `${relative}/*`]);
  return { ...own, ...(marks && { marks }) };
}

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
  if (isClosed(allowed) && !allowed.ok) return allowed;
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
  return ok({ output, ...lookedMarks(call, place.output, [place.output.absolute]) });
}

/**
 * Splits a pattern into its literal prefix, where the walk starts, and the rest, which is matched below
 * that folder.
 */
function splitPattern(pattern: string): { literal: string; rest: string } {
  const parts = pattern.split('/').filter((part) => part !== '' && part !== '.');
  const special = parts.findIndex((part) => /[*?]/.test(part));
  const at = special === -1 ? parts.length - 1 : special;
  return { literal: parts.slice(0, at).join('/') || '.', rest: parts.slice(at).join('/') };
}

interface FileSearch {
  start: ProjectPath;
  files(): AsyncGenerator<ProjectPath>;
  /** Real paths of the folders that were listed so far. */
  visited(): string[];
  /** Returns true if the bound ended the walk before all entries were visited. */
  isTruncated(): boolean;
  /** Fails with the reason why no file was found. Succeeds if the folder has no matching file. */
  whyNone(): Promise<Outcome<null>>;
}

/** Finds files below the folder `path` that match a pattern, by their path or only by their name. */
export function findFiles(
  call: PrimitiveCall,
  pattern: string,
  byName = false,
): Outcome<FileSearch> {
  const problem = globProblem(pattern);
  if (problem !== undefined) return fail('invalid_input', `glob \`${pattern}\` ${problem}`);
  const { literal, rest } = splitPattern(pattern);
  if (rest === '') return fail('invalid_input', `glob \`${pattern}\` must name a file`);
  const base = resolveProjectPath(call.projectRoot, textOf(call.parameters, 'path', '.'));
  if (!base.ok) return base;
  const place = resolveProjectPath(call.projectRoot, join(base.output.absolute, literal));
  if (!place.ok) return place;
  const start = place.output;
  let [budget, isTruncated] = [MAX_ENTRIES, false];
  const visited: string[] = [];

  // Names that the pattern contains are not ignored.
  const named = pattern.split('/');
  const includeIgnored = isSet(call.parameters, 'include_ignored');
  const isIgnored = ({ name, relative }: ListedEntry): boolean =>
    !includeIgnored &&
    ((IGNORED_NAMES.includes(name) && !named.includes(name)) ||
      (IGNORED_PATHS.includes(relative) && !named.includes('.ai')));
  const isMatch = ({ name, relative }: ListedEntry): boolean => {
    const inside = start.relative === '.' ? relative : relative.slice(start.relative.length + 1);
    return matchGlob(rest, byName ? name : inside) && mayRead(call, relative).ok;
  };

  async function* visit(folder: ProjectPath, depth: number): AsyncGenerator<ProjectPath> {
    if (depth > MAX_DEPTH || budget <= 0) {
      isTruncated = true;
      return;
    }
    // A closed folder cannot be listed, but a caller who knows the name of a file in it may read the file.
    if (isClosed(mayRead(call, folder.relative))) return;
    const listed = await entriesOf(folder, budget);
    // A folder that vanished or cannot be opened counts as empty for this caller.
    if (!listed.ok) return;
    visited.push(folder.absolute);
    budget -= listed.output.entries.length;
    isTruncated ||= listed.output.more;
    for (const entry of listed.output.entries) {
      if (call.signal.aborted) return;
      if (entry.kind === 'file' && isMatch(entry)) yield entry;
      else if (entry.kind === 'folder' && !isIgnored(entry)) yield* visit(entry, depth + 1);
    }
  }

  return ok({
    start,
    files: () => visit(start, 0),
    visited: () => visited,
    isTruncated: () => isTruncated,
    async whyNone() {
      const allowed = mayRead(call, start.relative);
      if (!allowed.ok) return allowed;
      const there = await lstat(base.output.absolute).catch(() => undefined);
      return there ? ok(null) : diskFault({ code: 'ENOENT' }, base.output.relative);
    },
  });
}

export async function glob(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const pattern = textOf(call.parameters, 'pattern');
  const search = findFiles(call, pattern);
  if (!search.ok) return search;
  const { start, files, visited, isTruncated, whyNone } = search.output;
  const limit = countOf(call.parameters, 'limit', { fallback: 1000, min: 1, max: 10_000 });
  const paths: string[] = [];
  let more = false;
  for await (const { relative } of files()) {
    more = paths.length >= limit;
    if (more) break;
    paths.push(relative);
  }
  if (call.signal.aborted) return cancelled();
  if (paths.length === 0) {
    const reason = await whyNone();
    if (!reason.ok) return reason;
  }
  const output = { pattern, paths, truncated: more || isTruncated() };
  return ok({ output, ...lookedMarks(call, start, visited()) });
}
