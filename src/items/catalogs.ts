// Catalogs: places with more items. Searching reads a cached index; copying checks the signature
// first and runs nothing; fetching happens only when a person asks for an update.
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  type Clock,
  type Diagnostic,
  fail,
  isObject,
  type Outcome,
  ok,
  parseJson,
} from '../base/index.ts';
import { type FetchPorts, fetchCatalog } from './catalog-fetch.ts';
import {
  type CatalogEntry,
  entryProblem,
  readCatalogSettings,
  writeCatalogSettings,
} from './catalog-settings.ts';
import { runCommand } from './external-command.ts';
import { readInside, realOf } from './inside.ts';
import type { Item } from './item.ts';
import { copyItem } from './item-copy.ts';
import type { ItemKind } from './item-kinds.ts';
import { createLibrary } from './library.ts';
import { putFile } from './library-write.ts';
import { createSearchIndex, wordsOf } from './search-index.ts';
import type { TrustPort } from './signature.ts';
import { sha256Hex } from './signature-line.ts';

export type CatalogLevel = 'project' | 'user';

export interface CatalogItem {
  catalog: string;
  kind: ItemKind;
  id: string;
  title: string;
  description: string;
  category: string;
  version: string;
  requires: string[];
  /** As it was when the catalog was read; checked again before anything is copied. */
  signature: string;
}

export interface ListedCatalog extends CatalogEntry {
  level: CatalogLevel;
  /** Absent when it was never read. */
  updated?: string;
  items?: number;
}

export interface CatalogOptions {
  /** Folder of the project; its `.ai` is where settings and copies go. */
  project: string;
  /** The user's folder. */
  home: string;
  trustStore: TrustPort;
  clock: Pick<Clock, 'now'>;
  env: Readonly<Record<string, string | undefined>>;
  run?: FetchPorts['run'];
}

export interface Catalogs {
  list(): { catalogs: ListedCatalog[]; diagnostics: Diagnostic[] };
  /** Notes a catalog and reads it; one that cannot be read is not noted. */
  add(
    entry: CatalogEntry,
    level?: CatalogLevel,
    signal?: AbortSignal,
  ): Promise<Outcome<ListedCatalog>>;
  remove(name: string): Outcome<null>;
  update(name?: string, signal?: AbortSignal): Promise<Outcome<ListedCatalog[]>>;
  search(query: { text: string; kind?: ItemKind; limit?: number }): {
    hits: (CatalogItem & { score: number })[];
    total: number;
  };
  /** Copies `id` or `catalog:id` to the project or the user's folder. */
  copy(
    kind: ItemKind,
    id: string,
    destination?: CatalogLevel,
  ): Promise<Outcome<CatalogItem & { copied_to: string }>>;
}

interface Index {
  updated: string;
  folders: string[];
  items: CatalogItem[];
}

const MAX_INDEX_BYTES = 32 * 1024 * 1024;

function describe(item: Item, catalog: string): CatalogItem {
  const { kind, id, title, description, category, version, signature } = item;
  const requires = item.kind === 'tool' ? (item.tool?.requires ?? []) : [];
  return {
    catalog,
    kind,
    id,
    title,
    description,
    category,
    version,
    requires,
    signature: signature.state,
  };
}

export function createCatalogs(options: CatalogOptions): Catalogs {
  const { project, home, trustStore, clock, env, run = runCommand } = options;
  const rootOf: Record<CatalogLevel, string> = { project: `${project}/.ai`, user: home };

  /** Named after what it holds, so that a catalog that moved does not show its old items. */
  function cacheOf({ name, type, location, ref = '' }: CatalogEntry): string {
    const key = sha256Hex(JSON.stringify([type, location, ref, project])).slice(0, 12);
    return join(home, 'cache', 'catalogs', `${name}-${key}`);
  }

  function readIndex(entry: CatalogEntry): Index | undefined {
    const real = realOf(cacheOf(entry));
    const read = real === undefined ? undefined : readInside(real, 'index.json', MAX_INDEX_BYTES);
    const parsed = read && 'text' in read ? parseJson(read.text) : undefined;
    const isIndex = parsed?.ok && isObject(parsed.output) && Array.isArray(parsed.output.items);
    return isIndex ? (parsed.output as unknown as Index) : undefined;
  }

  function list(): { catalogs: ListedCatalog[]; diagnostics: Diagnostic[] } {
    const catalogs = new Map<string, ListedCatalog>();
    const diagnostics: Diagnostic[] = [];
    for (const level of ['project', 'user'] as const) {
      const settings = readCatalogSettings(rootOf[level]);
      diagnostics.push(...settings.diagnostics);
      for (const entry of settings.entries) {
        if (!catalogs.has(entry.name)) catalogs.set(entry.name, withIndex(entry, level));
      }
    }
    return { catalogs: [...catalogs.values()], diagnostics };
  }

  function withIndex(entry: CatalogEntry, level: CatalogLevel): ListedCatalog {
    const index = readIndex(entry);
    return {
      ...entry,
      level,
      ...(index ? { updated: index.updated, items: index.items.length } : {}),
    };
  }

  function open(folders: readonly string[]) {
    return createLibrary({
      roots: folders.map((dir) => ({ source: 'installed' as const, dir })),
      projectRoot: project,
      primitives: () => [],
      trustStore,
      clock,
      watchAbove: Number.POSITIVE_INFINITY,
    });
  }

  async function read(entry: CatalogEntry, level: CatalogLevel, signal?: AbortSignal) {
    const base = level === 'project' ? project : dirname(home);
    const cache = cacheOf(entry);
    const fetched = await fetchCatalog(entry, cache, base, { run, env, signal });
    if (!fetched.ok) return fetched;
    const library = open(fetched.output);
    await library.refresh();
    const items = library.all().map((item) => describe(item, entry.name));
    library.close();
    mkdirSync(cache, { recursive: true });
    const updated = new Date(clock.now()).toISOString();
    const index: Index = { updated, folders: fetched.output, items };
    const put = putFile(join(cache, 'index.json'), JSON.stringify(index), false);
    return put.ok ? ok(withIndex(entry, level)) : put;
  }

  const unknown = (name: string): Outcome<never> => {
    const names = list().catalogs.map((one) => one.name);
    return fail('not_found', `there is no catalog \`${name}\``, { catalogs: names });
  };

  /** Items of a kind by id, in the order of the catalogs. */
  function find(
    kind: ItemKind,
    id: string,
  ): Outcome<{ entry: ListedCatalog; item: CatalogItem; index: Index }> {
    const [, wanted, bare] = /^(?:([a-z0-9][a-z0-9_-]*):)?(.*)$/s.exec(id) ?? [];
    const found = list().catalogs.flatMap((entry) => {
      if (wanted !== undefined && entry.name !== wanted) return [];
      const index = readIndex(entry);
      const items = index?.items.filter((one) => one.kind === kind && one.id === bare) ?? [];
      return index ? items.map((item) => ({ entry, item, index })) : [];
    });
    const [first] = found;
    if (first === undefined) {
      return fail(
        'not_found',
        `no catalog holds a ${kind} \`${id}\`; \`km catalog update\` reads them again`,
      );
    }
    if (found.length > 1) {
      const candidates = found.map(({ entry }) => `${entry.name}:${bare}`);
      return fail(
        'ambiguous',
        `${kind} \`${id}\` is in several catalogs: ${candidates.join(', ')}`,
        { candidates },
      );
    }
    return ok(first);
  }

  return {
    list,
    async add(entry, level = 'user', signal) {
      const problem = entryProblem(entry);
      if (problem !== undefined) return fail('invalid_input', problem);
      const settings = readCatalogSettings(rootOf[level]);
      if (settings.diagnostics.length > 0) {
        return fail(
          'config_invalid',
          `\`${settings.file}\` has errors: ${settings.diagnostics[0]?.message}`,
        );
      }
      if (list().catalogs.some(({ name }) => name === entry.name)) {
        return fail('invalid_input', `there is a catalog \`${entry.name}\` already`);
      }
      const done = await read(entry, level, signal);
      if (!done.ok) return done;
      const written = writeCatalogSettings(rootOf[level], [...settings.entries, entry]);
      return written.ok ? done : written;
    },
    remove(name) {
      const level = list().catalogs.find((one) => one.name === name)?.level;
      if (level === undefined) return unknown(name);
      const rest = readCatalogSettings(rootOf[level]).entries.filter((one) => one.name !== name);
      return writeCatalogSettings(rootOf[level], rest);
    },
    async update(name, signal) {
      const chosen = list().catalogs.filter((one) => name === undefined || one.name === name);
      if (name !== undefined && chosen.length === 0) return unknown(name);
      const updated: ListedCatalog[] = [];
      for (const { level, updated: _, items: __, ...entry } of chosen) {
        const done = await read(entry, level, signal);
        if (!done.ok) return done;
        updated.push(done.output);
      }
      return ok(updated);
    },
    search({ text, kind, limit = 10 }) {
      const items = list().catalogs.flatMap((entry) => readIndex(entry)?.items ?? []);
      const chosen = items.filter((item) => kind === undefined || item.kind === kind);
      const index = createSearchIndex();
      for (const { id, title, description, category } of chosen) {
        index.add({ name: `${id} ${title}`, description, tags: category, body: '' });
      }
      const words = [...new Set(wordsOf(text.slice(0, 1000)))];
      const { documents, score } =
        words.length > 0
          ? index.match(words)
          : { documents: [...chosen.keys()], score: new Float64Array(chosen.length) };
      const hits = documents
        .map((at) => ({ ...(chosen[at] as CatalogItem), score: score[at] as number }))
        .sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
      return { hits: hits.slice(0, limit), total: hits.length };
    },
    async copy(kind, id, destination = 'project') {
      const found = find(kind, id);
      if (!found.ok) return found;
      const { item, index } = found.output;
      const library = open(index.folders);
      try {
        await library.refresh();
        const fresh = library.find(kind, item.id);
        if (!fresh.ok) return fresh;
        const copied = copyItem(fresh.output, rootOf[destination]);
        return copied.ok ? ok({ ...item, copied_to: copied.output }) : copied;
      } finally {
        library.close();
      }
    },
  };
}
