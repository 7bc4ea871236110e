// Implements `grep`: finds matching lines in files that the caller may read. The pattern is untrusted, so it is a
// literal or an expression that is matched in linear time (pattern.ts). Files, lines and results are
// bounded, and the answer names every bound that was reached.
import { lstat } from 'node:fs/promises';
import { type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { PrimitiveCall, PrimitiveResult, TouchedFile } from '../primitive.ts';
import { type ProjectPath, resolveProjectPath } from '../rights/project-path.ts';
import { cancelled, countOf, fileMarks, isSet, textOf } from './content.ts';
import { below, findFiles, mayRead } from './list.ts';
import { createMatcher, type LineMatcher } from './pattern.ts';
import { looksBinary, readWhole, type WholeFile } from './read-file.ts';

const MAX_FILE_BYTES = 16 * 1024 * 1024;
const MAX_TOTAL_BYTES = 512 * 1024 * 1024;
const MAX_LINE = 500;
const MAX_CONTEXT = 10;

interface Search {
  matcher: LineMatcher;
  context: number;
  limit: number;
  matches: JsonObject[];
  /** All searched files, because a missing match reveals their content too. */
  files: TouchedFile[];
  matched: Set<string>;
  /** Real paths of the folders that were listed. */
  folders: readonly string[];
  searched: number;
  bytes: number;
  skipped: { binary: number; large: number; unreadable: number };
  stopped: string | undefined;
}

const cut = (line: string): string => {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line;
  return text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)}…` : text;
};

function searchLines(search: Search, file: WholeFile): void {
  const { context, matcher, matches } = search;
  const text = file.bytes.toString('utf8');
  if (!matcher.mayMatch(text)) return;
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  const before = matches.length;
  for (const [index, line] of lines.entries()) {
    const isMatch = matcher.matches(line.endsWith('\r') ? line.slice(0, -1) : line);
    if (isMatch === undefined) search.stopped = 'pattern_too_costly';
    else if (isMatch && matches.length >= search.limit) search.stopped = 'limit';
    if (search.stopped !== undefined) break;
    if (!isMatch) continue;
    const around = (from: number, to: number) => lines.slice(Math.max(0, from), to).map(cut);
    matches.push({
      path: file.relative,
      line: index + 1,
      text: cut(line),
      ...(context > 0
        ? { before: around(index - context, index), after: around(index + 1, index + 1 + context) }
        : {}),
    });
  }
  if (matches.length > before) search.matched.add(file.relative);
}

async function searchFile(search: Search, place: ProjectPath): Promise<void> {
  const file = await readWhole(place, MAX_FILE_BYTES);
  if (!file.ok) search.skipped['max_bytes' in file.error.detail ? 'large' : 'unreadable']++;
  else if (looksBinary(file.output.bytes)) search.skipped.binary++;
  else {
    const { absolute, relative, sha256, inode } = file.output;
    search.files.push({ access: 'read', absolute, relative, inode, sha256 });
    search.searched++;
    search.bytes += file.output.bytes.length;
    searchLines(search, file.output);
    if (search.bytes > MAX_TOTAL_BYTES) search.stopped ??= 'too_many_bytes';
  }
}

function report(call: PrimitiveCall, base: string, search: Search): PrimitiveResult {
  const { matches, files, matched, folders, searched, skipped, stopped } = search;
  const missed = Object.entries(skipped).filter(([, count]) => count > 0);
  const output: JsonObject = {
    matches,
    files_searched: searched,
    files_matched: matched.size,
    truncated: stopped !== undefined,
    ...(stopped === undefined ? {} : { stopped_by: stopped }),
    ...(missed.length === 0 ? {} : { skipped: Object.fromEntries(missed) }),
  };
  const marks = call.seen?.([], folders);
  const own = fileMarks(call, matched.size === 0 ? [base] : matched);
  return { output, ...own, ...(marks && { marks }), files };
}

export async function grep(call: PrimitiveCall): Promise<Outcome<PrimitiveResult>> {
  const { parameters } = call;
  const matcher = await createMatcher(textOf(parameters, 'pattern'), {
    regex: isSet(parameters, 'regex'),
    ignoreCase: isSet(parameters, 'ignore_case'),
  });
  if (!matcher.ok) return matcher;
  const base = resolveProjectPath(call.projectRoot, textOf(parameters, 'path', '.'));
  if (!base.ok) return base;
  const search: Search = {
    matcher: matcher.output,
    context: countOf(parameters, 'context', { fallback: 0, max: MAX_CONTEXT }),
    limit: countOf(parameters, 'limit', { fallback: 200, min: 1, max: 2000 }),
    matches: [],
    files: [],
    matched: new Set(),
    folders: [],
    searched: 0,
    bytes: 0,
    skipped: { binary: 0, large: 0, unreadable: 0 },
    stopped: undefined,
  };
  const visible = await searchPlace(call, base.output, search);
  if (!visible.ok) return visible;
  if (call.signal.aborted) return cancelled();
  const { relative } = base.output;
  const start = search.folders.length === 0 ? relative : below(relative, '*');
  return ok(report(call, start, search));
}

async function searchPlace(
  call: PrimitiveCall,
  base: ProjectPath,
  search: Search,
): Promise<Outcome<null>> {
  const info = await lstat(base.absolute).catch(() => undefined);
  if (info?.isFile()) {
    const allowed = mayRead(call, base.relative);
    if (allowed.ok) await searchFile(search, base);
    return allowed;
  }
  // A pattern without `/` matches the file name in every folder, as people expect.
  const pattern = textOf(call.parameters, 'glob', '**');
  const listing = findFiles(call, pattern, !pattern.includes('/') && pattern !== '**');
  if (!listing.ok) return listing;
  const { files, visited, isTruncated, whyNone } = listing.output;
  search.folders = visited();
  let count = 0;
  for await (const place of files()) {
    if (search.stopped !== undefined || call.signal.aborted) break;
    count++;
    await searchFile(search, place);
  }
  if (isTruncated()) search.stopped ??= 'too_many_files';
  return count === 0 ? await whyNone() : ok(null);
}
