// `list_dir` and `glob`: names only, and only those the caller may read. What is hidden is not
// counted either. Where nothing can be seen and the folder itself is not granted, the answer is the
// refusal, whether or not the folder exists.
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { fail, globProblem, type JsonObject, matchGlob, type Outcome, ok } from '../base/index.ts';
import { cancelled, countOf, fileMarks, isSet, textOf } from './builtin.ts';
import { diskFault } from './builtin-place.ts';
import { type Entry, entriesOf, MAX_ENTRIES, walkFiles } from './builtin-walk.ts';
import { type ProjectPath, resolveProjectPath } from './path-gate.ts';
import type { PrimitiveCall, PrimitiveResult } from './primitive.ts';

export const mayRead = (call: PrimitiveCall, path: string): Outcome<null> =>
  call.verify({ capability: 'fs.read', scope: { path } });

async function describe(entry: Entry): Promise<JsonObject> {
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
