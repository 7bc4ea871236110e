// Which of the paths given to `check` are scripts: `.mld` files, also those below a folder, and `.md`
// files given by name that hold statements and are no items.
import { type Dirent, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Diagnostic, readRegularFile } from '../base/index.ts';
import { itemKindOf } from '../items/index.ts';

/** Longer than any script that somebody wrote. */
export const MAX_SCRIPT_BYTES = 8 * 1024 * 1024;
const MAX_DEPTH = 16;
const MAX_ENTRIES = 50_000;

export interface Divided {
  readonly scripts: readonly string[];
  /** For the check of items: everything that is no script, folders included. */
  readonly others: readonly string[];
}

/** Hidden folders and dependencies are left out, as everywhere. */
function below(folder: string): string[] {
  const found: string[] = [];
  const pending: [string, number][] = [[folder, 0]];
  let seen = 0;
  for (let next = pending.pop(); next && seen < MAX_ENTRIES; next = pending.pop()) {
    const [at, depth] = next;
    for (const entry of entriesOf(at)) {
      seen += 1;
      if (/^(\.|node_modules$)/.test(entry.name)) continue;
      const path = join(at, entry.name);
      if (entry.isDirectory() && depth < MAX_DEPTH) pending.push([path, depth + 1]);
      else if (entry.isFile() && path.endsWith('.mld')) found.push(path);
    }
  }
  return found.sort();
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

const readScript = (file: string) =>
  readRegularFile(file, { max: MAX_SCRIPT_BYTES, followsLinks: true });

const isFolder = (path: string): boolean =>
  statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

/** A line that could be a statement; whether it is one the parser says. */
const hasStatement = (text: string): boolean => /^[ \t]*\/[a-z@=]/m.test(text);

export function divide(paths: readonly string[], isItem: (file: string) => boolean): Divided {
  const scripts = new Set<string>();
  const others: string[] = [];
  for (const path of paths) {
    if (isFolder(path)) {
      for (const file of below(path)) scripts.add(file);
      others.push(path);
    } else if (path.endsWith('.mld')) scripts.add(path);
    else if (path.endsWith('.md') && !isItem(path) && isMarkdownScript(path)) scripts.add(path);
    else others.push(path);
  }
  return { scripts: [...scripts], others };
}

function isMarkdownScript(path: string): boolean {
  const read = readScript(path);
  if ('problem' in read) return false;
  const text = read.bytes.toString('utf8');
  return itemKindOf(path, text) === undefined && hasStatement(text);
}

/** What is wrong with the form of these scripts. Runs nothing. */
export async function checkScriptFiles(files: readonly string[]): Promise<Diagnostic[]> {
  if (files.length === 0) return [];
  const { diagnose } = await import('../script/index.ts');
  return files.flatMap((file) => {
    const read = readScript(file);
    if ('bytes' in read) {
      const mode = file.endsWith('.mld') ? 'strict' : 'markdown';
      return diagnose(read.bytes.toString('utf8'), file, mode);
    }
    const { message } = read.problem;
    return [{ file, line: 1, column: 1, code: 'file_unreadable', severity: 'error', message }];
  });
}
