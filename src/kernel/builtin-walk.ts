// Walking a project without trusting it: links are never followed, order is by name, and the number
// of entries looked at is bounded, so that a folder with a million files costs what we say it costs.
import { type Dirent } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Outcome, ok } from '../base/index.ts';
import { diskFault, openFolder } from './builtin-place.ts';
import type { ProjectPath } from './path-gate.ts';

const MAX_DEPTH = 64;
export const MAX_ENTRIES = 200_000;

/** Other programs' folders, and the traces of our own: skipped unless somebody names them. */
const IGNORED_NAMES = ['.git', 'node_modules'];
const IGNORED_PATHS = ['.ai/threads', '.ai/.env'];

export type EntryKind = 'file' | 'folder' | 'link' | 'other';

export interface Entry extends ProjectPath {
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
): Promise<Outcome<{ entries: Entry[]; more: boolean }>> {
  const opened = await openFolder(folder.absolute, folder.relative);
  if (!opened.ok) return opened;
  const entries: Entry[] = [];
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
  files(): AsyncGenerator<Entry>;
  /** True when the bound, and not the project, ended the walk. */
  truncated(): boolean;
}

export function walkFiles(start: ProjectPath, options: WalkOptions): Walk {
  let left = options.maxEntries ?? MAX_ENTRIES;
  let truncated = false;
  const isIgnored = ({ name, relative }: Entry): boolean =>
    !options.includeIgnored &&
    ((IGNORED_NAMES.includes(name) && !options.named?.includes(name)) ||
      (IGNORED_PATHS.includes(relative) && !options.named?.includes('.ai')));

  async function* visit(folder: ProjectPath, depth: number): AsyncGenerator<Entry> {
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
