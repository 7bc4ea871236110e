// Implements `check FILE` and `check FOLDER`, also for files outside of the item folders.
import { type Dirent, readdirSync } from 'node:fs';
import { basename, dirname, extname, resolve } from 'node:path';
import { type Diagnostic, isInside } from '../../base/index.ts';
import { aboutFile, isFolder, readItemFile, statsOf } from '../files/item-file.ts';
import { checkText, type FileKind } from './check.ts';
import type { Library } from './library.ts';
import { placeOfFile } from './sign.ts';

/** Returns the kind of a file by its path, or else by its content. Undefined for a file that is not an item. */
export function itemKindOf(file: string, text: string): FileKind | undefined {
  const place = placeOfFile(file);
  if (place) return place.kind;
  if (/\.ya?ml$/.test(file)) {
    if (basename(file) === 'policy.yaml') return 'policy';
    return /^tool_id\s*:/m.test(text) ? 'tool' : undefined;
  }
  if (extname(file) !== '.md') return undefined;
  return /^[ \t>]*<directive[\s>/]/m.test(text) || /^directive\s*:/m.test(text.slice(0, 4000))
    ? 'directive'
    : undefined;
}

/** Returns the findings about a text for this file. Undefined if it is not an item. */
export function checkItemText(
  text: string,
  file: string,
  library?: Library,
): Diagnostic[] | undefined {
  const kind = itemKindOf(resolve(file), text);
  return kind && checkText(kind, text, resolve(file), library);
}

/** Returns the findings about a file that the library does not contain. */
function checkFile(path: string, library: Library): Diagnostic[] {
  const read = readItemFile(path);
  if ('problem' in read) return [aboutFile(path, read.problem.code, read.problem.message)];
  const findings = checkItemText(read.text, path, library);
  if (findings) return findings;
  const message = 'this file is not a directive, tool, knowledge or policy';
  return [aboutFile(path, 'not_an_item', message, { hint: 'items are under `.ai/`' })];
}

const MAX_DEPTH = 16;
const MAX_ENTRIES = 50_000;

/** Returns the files below a folder whose names match, except in hidden folders and dependencies. */
export function filesBelow(folder: string, names: RegExp): string[] {
  const files: string[] = [];
  const pending: [string, number][] = [[folder, 0]];
  let count = 0;
  for (let next = pending.pop(); next && count < MAX_ENTRIES; next = pending.pop()) {
    const [at, depth] = next;
    let entries: Dirent[] = [];
    try {
      entries = readdirSync(at, { withFileTypes: true });
    } catch {
      continue;
    }
    count += entries.length;
    for (const entry of entries) {
      if (/^(\.|node_modules$)/.test(entry.name)) continue;
      const path = `${at}/${entry.name}`;
      if (entry.isDirectory() && depth < MAX_DEPTH) pending.push([path, depth + 1]);
      else if (entry.isFile() && names.test(entry.name)) files.push(path);
    }
  }
  return files.sort();
}

/** Checks items below the folder, and files that look like items outside of every root. */
function checkFolder(folder: string, library: Library): Diagnostic[] {
  const roots = library.roots().map(({ dir }) => resolve(dir));
  const findings = library.check().filter(({ file }) => isInside(resolve(file), folder));
  const loose = filesBelow(folder, /\.(md|ya?ml)$/).filter(
    (file) => !roots.some((root) => isInside(file, root)),
  );
  const checked = loose.flatMap((file) => {
    const read = readItemFile(file);
    return ('text' in read && checkItemText(read.text, file, library)) || [];
  });
  return [...findings, ...checked.filter(({ file }) => basename(file) !== 'AGENTS.md')];
}

/** Checks a file or a folder without running anything. Never throws. */
export function checkPath(path: string, library: Library): Diagnostic[] {
  const full = resolve(path);
  const stats = statsOf(full);
  if (!stats) return [aboutFile(full, 'not_found', `\`${path}\` not found`)];
  if (stats.isDirectory()) return checkFolder(full, library);
  const findings = library.check().filter(({ file }) => resolve(file) === full);
  const isItem = library.all().some(({ file }) => resolve(file) === full);
  return isItem || findings.length > 0 ? findings : checkFile(full, library);
}

/** Returns the nearest parent folder with `.ai`. Undefined if there is none. */
export function projectOf(path: string): string | undefined {
  for (let at = resolve(path); ; at = dirname(at)) {
    if (isFolder(`${at}/.ai`)) return at;
    if (at === dirname(at)) return undefined;
  }
}
