// Computes one digest of everything in a project that can affect a thread. The digest is the same on every
// machine with the same files: paths inside of the project and bytes count, but not the project's folder,
// times, order and owners. It covers all of `.ai` except records of runs (a tool's module may read any
// file there), `AGENTS.md`, and bundles that the project installs. It omits the user's own folder, whose
// items never shadow the project's, and the operator's folder, because they belong to a machine. It omits
// the built-in bundle, because an upgrade would otherwise keep every parked thread from being resumed. The
// format of the journal protects threads from incompatible versions.
import { createHash, hash } from 'node:crypto';
import { type Dirent, readdirSync } from 'node:fs';
import { dirname, relative, sep } from 'node:path';
import {
  type Clock,
  errnoOf,
  fail,
  isInside,
  isMissing,
  type Outcome,
  ok,
  readRegularFile,
} from '../../base/index.ts';
import { isFolder, realOf, statsOf } from './item-file.ts';
import { type Imprint, type Root, takeImprint } from './root.ts';

/** Names in an `.ai` folder with records of runs, keys and trust. They are not items. */
export const RECORD_NAMES: readonly string[] = [
  'threads',
  'keys',
  'trust',
  'state',
  'outputs',
  'audit.jsonl',
  'labels.jsonl',
];
const RECORDS: ReadonlySet<string> = new Set(RECORD_NAMES);
const SKIPPED = /^\.|^node_modules$/;
const MAX_FILES = 50_000;
const MAX_BYTES = 64 * 1024 * 1024;

interface DigestWalk {
  /** Hash of each file's content by the name of the file in the digest. */
  found: Map<string, string>;
  looked: Set<string>;
}

const hashFile = (path: string): string => {
  const read = readRegularFile(path, { max: MAX_BYTES });
  return 'bytes' in read ? hash('sha256', read.bytes) : read.problem.code;
};

/** Returns the hash of a link's target. A target outside of the folder and a missing one have fixed hashes. */
function hashLink(path: string, real: string): string {
  const target = realOf(path);
  if (target === undefined) return 'nothing';
  if (!isInside(target, real)) return 'outside';
  return isFolder(target)
    ? `folder ${relative(real, target).split(sep).join('/')}`
    : hashFile(target);
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (error) {
    if (isMissing(errnoOf(error))) return [];
    throw error;
  }
}

/** Adds every file of a folder (a real path) under `name`, except the names in `skips`. */
function walk(into: DigestWalk, name: string, real: string, skips: ReadonlySet<string>): void {
  const pending: { at: string; path: string }[] = [{ at: real, path: name }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { at, path } = next;
    into.looked.add(at);
    for (const entry of entriesOf(at)) {
      if (SKIPPED.test(entry.name) || (at === real && skips.has(entry.name))) continue;
      const [below, displayPath] = [
        `${at}/${entry.name}`,
        `${path}/${entry.name.normalize('NFC')}`,
      ];
      if (entry.isDirectory()) pending.push({ at: below, path: displayPath });
      else {
        into.looked.add(below);
        into.found.set(
          displayPath,
          entry.isSymbolicLink() ? hashLink(below, real) : hashFile(below),
        );
      }
      if (into.looked.size > MAX_FILES) throw new RangeError('too many files');
    }
  }
}

const NONE: ReadonlySet<string> = new Set();

/** Adds the whole package, because its modules import one another. */
function walkPackage(into: DigestWalk, { name = '', dir }: Root): void {
  const [items, whole] = [realOf(dir), realOf(dirname(dir))];
  if (whole !== undefined) walk(into, `npm:${name}`, whole, NONE);
  if (items !== undefined) walk(into, `npm:${name} items`, items, NONE);
}

function walkProject(project: string, roots: readonly Root[]): DigestWalk {
  const into: DigestWalk = { found: new Map(), looked: new Set() };
  const [items, agents] = [`${project}/.ai`, `${project}/AGENTS.md`];
  for (const path of [items, agents]) into.looked.add(path);
  const real = realOf(items);
  if (real !== undefined && isInside(real, project)) walk(into, '.ai', real, RECORDS);
  if (statsOf(agents)) {
    const isLink = statsOf(agents)?.isSymbolicLink() === true;
    into.found.set('AGENTS.md', isLink ? hashLink(agents, project) : hashFile(agents));
  }
  for (const root of roots) {
    if (root.source === 'installed' && isInside(root.dir, project)) walkPackage(into, root);
  }
  return into;
}

/** Returns a function that returns `sha256:…` of the present content. It reads files only if a stamp has changed. */
export function createItemsDigest(
  project: string,
  roots: () => readonly Root[],
  clock: Pick<Clock, 'now'>,
): () => Outcome<string> {
  let cached: { digest: string; imprint: Imprint; roots: readonly Root[] } | undefined;
  return () => {
    const presentRoots = roots();
    if (cached?.roots === presentRoots && cached.imprint.isCurrent()) return ok(cached.digest);
    cached = undefined;
    try {
      const now = clock.now();
      const before = walkProject(project, presentRoots);
      const imprint = takeImprint(before.looked, now);
      const sum = createHash('sha256');
      const names = [...before.found.keys()].sort();
      for (const name of names) sum.update(`${JSON.stringify([name, before.found.get(name)])}\n`);
      const digest = `sha256:${sum.digest('hex')}`;
      if (imprint) cached = { digest, imprint, roots: presentRoots };
      return ok(digest);
    } catch (error) {
      const why = error instanceof RangeError ? `more than ${MAX_FILES} files` : errnoOf(error);
      return fail('config_invalid', `the items of \`${project}\` cannot be read: ${why}`);
    }
  };
}
