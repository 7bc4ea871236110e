// Catalogs: places with more items. Searching reads a cached index; copying checks the signature
// first and runs nothing; fetching happens only when a person asks for an update.
import { dirname } from 'node:path';
import { type Clock, type Diagnostic, fail, type Outcome, ok } from '../base/index.ts';
import { type FetchPorts, fetchCatalog } from './catalog-fetch.ts';
import {
  type CatalogIndex,
  type CatalogItem,
  createCatalogIndexes,
  searchCatalogItems,
} from './catalog-index.ts';
import {
  type CatalogEntry,
  entryProblem,
  readCatalogSettings,
  writeCatalogSettings,
} from './catalog-settings.ts';
import { runCommand } from './external-command.ts';
import type { Item } from './item.ts';
import { copyItem } from './item-copy.ts';
import type { ItemKind } from './item-kinds.ts';
import { createLibrary } from './library.ts';
import type { TrustPort } from './signature.ts';

export type CatalogLevel = 'project' | 'user';

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

interface Held {
  name: string;
  index: CatalogIndex;
}

/** `id` or `catalog:id`; an id that several catalogs hold must say which. */
function findIn(
  catalogs: readonly Held[],
  kind: ItemKind,
  id: string,
): Outcome<{ item: CatalogItem; index: CatalogIndex }> {
  const [, wanted, bare] = /^(?:([a-z0-9][a-z0-9_-]*):)?(.*)$/s.exec(id) ?? [];
  const found = catalogs.flatMap(({ name, index }) => {
    const item = index.items.find((one) => one.kind === kind && one.id === bare);
    return item && (wanted === undefined || wanted === name) ? [{ name, item, index }] : [];
  });
  const [first] = found;
  if (first === undefined) {
    const hint = '`km catalog update` reads them again';
    return fail('not_found', `no catalog holds a ${kind} \`${id}\`; ${hint}`);
  }
  if (found.length === 1) return ok(first);
  const candidates = found.map(({ name }) => `${name}:${bare}`);
  const message = `${kind} \`${id}\` is in several catalogs: ${candidates.join(', ')}`;
  return fail('ambiguous', message, { candidates });
}

export function createCatalogs(options: CatalogOptions): Catalogs {
  const { project, home, trustStore, clock, env, run = runCommand } = options;
  const rootOf: Record<CatalogLevel, string> = { project: `${project}/.ai`, user: home };
  const indexes = createCatalogIndexes(project, home);

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
    const index = indexes.read(entry);
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
    const fetched = await fetchCatalog(entry, indexes.cacheOf(entry), base, { run, env, signal });
    if (!fetched.ok) return fetched;
    const library = open(fetched.output);
    await library.refresh();
    const items = library.all().map((item) => describe(item, entry.name));
    library.close();
    const updated = new Date(clock.now()).toISOString();
    const put = indexes.write(entry, { updated, folders: fetched.output, items });
    return put.ok ? ok(withIndex(entry, level)) : put;
  }

  const unknown = (name: string): Outcome<never> => {
    const names = list().catalogs.map((one) => one.name);
    return fail('not_found', `there is no catalog \`${name}\``, { catalogs: names });
  };

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
      const items = list().catalogs.flatMap((entry) => indexes.read(entry)?.items ?? []);
      const chosen = items.filter((item) => kind === undefined || item.kind === kind);
      const hits = searchCatalogItems(chosen, text);
      return { hits: hits.slice(0, limit), total: hits.length };
    },
    async copy(kind, id, destination = 'project') {
      const all = list().catalogs.flatMap(({ name, ...entry }) => {
        const index = indexes.read({ name, ...entry });
        return index ? [{ name, index }] : [];
      });
      const found = findIn(all, kind, id);
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
