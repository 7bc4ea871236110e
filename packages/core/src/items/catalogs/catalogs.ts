// Manages catalogs, which are sources of more items. A search reads a cached index. A copy checks the
// signature first and runs nothing. Only a person's request for an update fetches a catalog.
import { dirname, relative } from 'node:path';
import {
  type Clock,
  type Diagnostic,
  fail,
  isInside,
  lastSegment,
  type Outcome,
  ok,
} from '../../base/index.ts';
import {
  type CatalogEntry,
  entryProblem,
  readCatalogSettings,
  writeCatalogSettings,
} from '../data/catalog-settings.ts';
import { putFile, readItemFile, realAncestor, realOf } from '../files/item-file.ts';
import { idProblem, pathFor } from '../files/item-place.ts';
import type { Item } from '../item.ts';
import type { ItemKind } from '../item-kinds.ts';
import { createLibrary } from '../library/library.ts';
import { MAX_MODULE_BYTES, moduleFile, type TrustPort } from '../signature.ts';
import type { FetchPorts } from './fetch.ts';
import {
  type CatalogIndex,
  type CatalogItem,
  createCatalogIndexes,
  searchCatalogItems,
} from './index-cache.ts';

/** Fails with `signature_invalid` for an item without a valid signature, which is never copied. */
function checkSigned({ kind, id, signature }: Item): Outcome<null> {
  const { state, reason } = signature;
  if (state === 'signed' || state === 'bundle') return ok(null);
  const because = reason ? ` (${reason})` : '';
  const why = {
    unsigned: 'is not signed',
    program: 'is defined by a program',
    changed: `was changed after it was signed${because}`,
    untrusted: `is signed by a key that is not trusted${because}`,
  }[state];
  return fail('signature_invalid', `${kind} \`${id}\` ${why}, so it is not copied`, { state });
}

/** Returns the path of a file below `root`. Refuses a link that leads elsewhere. */
function target(root: string, path: string): Outcome<string> {
  const file = `${root}/${path}`;
  const [base, real] = [realAncestor(root), realAncestor(file)];
  const isSafe = base !== undefined && real !== undefined && isInside(real, base);
  return isSafe ? ok(file) : fail('permission_denied', `\`${path}\` leads out of \`${root}\``);
}

type Copies = { to: string; text: string }[];

function moduleOf(item: Item, root: string, path: string): Outcome<Copies> {
  const from = item.file;
  const module = item.kind === 'tool' ? moduleFile(item.tool?.config.module, from) : undefined;
  if (module === undefined) return ok([]);
  const real = realOf(module);
  const folder = realOf(dirname(from));
  if (real === undefined || folder === undefined || !isInside(real, folder)) {
    return fail('invalid_item', `the module of tool \`${item.id}\` is not beside it`);
  }
  const read = readItemFile(real, MAX_MODULE_BYTES);
  if ('problem' in read) return fail('invalid_item', `\`${module}\`: ${read.problem.message}`);
  const to = target(root, `${dirname(path)}/${relative(dirname(from), module)}`);
  return to.ok ? ok([{ to: to.output, text: read.text }]) : to;
}

/** Copies an item to `root`, a folder like `.ai/`, and returns the path. Replaces no file and runs nothing. */
export function copyItem(item: Item, root: string): Outcome<string> {
  const signed = checkSigned(item);
  if (!signed.ok) return signed;
  const odd = idProblem(item.id);
  if (odd !== undefined) return fail('invalid_input', `the id \`${item.id}\` ${odd}`);
  const path = pathFor(item.kind, item.id);
  const to = target(root, path);
  if (!to.ok) return to;
  const source = realOf(item.file);
  const read = source === undefined ? undefined : readItemFile(source);
  if (!read || 'problem' in read) return fail('not_found', `\`${item.file}\` cannot be read`);
  const module = moduleOf(item, root, path);
  if (!module.ok) return module;
  // The module is written first, because an existing tool can be called.
  for (const file of [...module.output, { to: to.output, text: read.text }]) {
    const put = putFile(file.to, file.text, true);
    if (!put.ok) return put;
  }
  return ok(to.output);
}

type CatalogLevel = 'project' | 'user';

interface ListedCatalog extends CatalogEntry {
  level: CatalogLevel;
  /** ISO time of the last update. Absent: the catalog was never read. */
  updated?: string;
  items?: number;
}

interface CatalogOptions {
  /** Folder of the project. Its `.ai` contains the settings and receives the copies. */
  project: string;
  home: string;
  trustStore: TrustPort;
  clock: Clock;
  env: Readonly<Record<string, string | undefined>>;
  run?: FetchPorts['run'];
}

export type Catalogs = ReturnType<typeof createCatalogs>;

function describe(item: Item, catalog: string): CatalogItem {
  const { kind, id, title, description, category, version } = item;
  const requires = item.kind === 'tool' ? (item.tool?.requires ?? []) : [];
  const facts = { catalog, kind, id, title, description, category, version };
  const { state, key } = item.signature;
  return { ...facts, requires, signature: state, ...(key !== undefined && { key }) };
}

/**
 * Finds `id` or `catalog:id`. Fails with `ambiguous` for an id in several catalogs. A bare name matches the
 * whole id of an item or, without such an item, the last segment of an id.
 */
function findIn(
  indexes: readonly CatalogIndex[],
  kind: ItemKind,
  id: string,
): Outcome<{ item: CatalogItem; index: CatalogIndex }> {
  const [, catalog, bare] = /^(?:([a-z0-9][a-z0-9_-]*):)?(.*)$/s.exec(id) ?? [];
  const inCatalogs = (isMeant: (itsId: string) => boolean) =>
    indexes.flatMap((index) =>
      index.items
        .filter((one) => one.kind === kind && (catalog ?? one.catalog) === one.catalog)
        .filter((one) => isMeant(one.id))
        .map((item) => ({ item, index })),
    );
  const exact = inCatalogs((itsId) => itsId === bare);
  const matches = exact.length > 0 ? exact : inCatalogs((itsId) => lastSegment(itsId) === bare);
  const [first] = matches;
  if (first === undefined) {
    const hint = 'an update of the catalog finds new items';
    return fail('not_found', `${kind} \`${id}\` not found in any catalog; ${hint}`);
  }
  if (matches.length === 1) return ok(first);
  const candidates = matches.map(({ item }) => `${item.catalog}:${item.id}`);
  const message = `${kind} \`${id}\` matches several items: ${candidates.join(', ')}`;
  return fail('ambiguous', message, { candidates });
}

function itemIn(
  indexes: readonly CatalogIndex[],
  kind: ItemKind,
  id: string,
): Outcome<Pick<CatalogItem, 'id' | 'catalog'>> {
  const match = findIn(indexes, kind, id);
  return match.ok ? ok(match.output.item) : match;
}

/** Opens a library that contains only the items of these folders. */
function openFolders(folders: readonly string[], { project, trustStore, clock }: CatalogOptions) {
  return createLibrary({
    roots: folders.map((dir) => ({ source: 'installed' as const, dir })),
    projectRoot: project,
    primitives: () => [],
    trustStore,
    clock,
    watchAbove: Number.POSITIVE_INFINITY,
  });
}

/** Copies the present item, which may be newer than the item in the index. */
async function copyFresh(
  { item, index }: { item: CatalogItem; index: CatalogIndex },
  root: string,
  options: CatalogOptions,
) {
  const library = openFolders(index.folders, options);
  try {
    await library.refresh();
    const fresh = library.find(item.kind, item.id);
    if (!fresh.ok) return fresh;
    const copied = copyItem(fresh.output, root);
    return copied.ok ? ok({ ...item, copied_to: copied.output }) : copied;
  } finally {
    library.close();
  }
}

export function createCatalogs(options: CatalogOptions) {
  const { project, home, clock } = options;
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
    const read = index ? { updated: index.updated, items: index.items.length } : {};
    return { ...entry, level, ...read };
  }

  async function read(entry: CatalogEntry, level: CatalogLevel) {
    const base = level === 'project' ? project : dirname(home);
    const { fetchCatalog, runCommand: run } = await import('./fetch.ts');
    const fetched = await fetchCatalog(entry, indexes.cacheOf(entry), base, { run, ...options });
    if (!fetched.ok) return fetched;
    const library = openFolders(fetched.output, options);
    await library.refresh();
    const items = library.all().map((item) => describe(item, entry.name));
    library.close();
    const updated = new Date(clock.now()).toISOString();
    const put = indexes.write(entry, { updated, folders: fetched.output, items });
    return put.ok ? ok(withIndex(entry, level)) : put;
  }

  const allItems = () => list().catalogs.flatMap((entry) => indexes.read(entry) ?? []);
  const unknown = (name: string): Outcome<never> => {
    const names = list().catalogs.map((one) => one.name);
    return fail('not_found', `catalog \`${name}\` not found`, { catalogs: names });
  };

  return {
    list,
    /** Reads a catalog and adds it to the settings. An unreadable catalog is not added. */
    async add(entry: CatalogEntry, level: CatalogLevel = 'user') {
      const problem = entryProblem(entry);
      if (problem !== undefined) return fail('invalid_input', problem);
      const settings = readCatalogSettings(rootOf[level]);
      const [wrong] = settings.diagnostics;
      if (wrong) {
        return fail('config_invalid', `\`${settings.file}\` has errors: ${wrong.message}`);
      }
      if (list().catalogs.some(({ name }) => name === entry.name)) {
        return fail('invalid_input', `catalog \`${entry.name}\` exists already`);
      }
      const listed = await read(entry, level);
      if (!listed.ok) return listed;
      const written = writeCatalogSettings(rootOf[level], [...settings.entries, entry]);
      return written.ok ? listed : written;
    },
    remove(name: string): Outcome<null> {
      const level = list().catalogs.find((one) => one.name === name)?.level;
      if (level === undefined) return unknown(name);
      const rest = readCatalogSettings(rootOf[level]).entries.filter((one) => one.name !== name);
      return writeCatalogSettings(rootOf[level], rest);
    },
    async update(name?: string): Promise<Outcome<ListedCatalog[]>> {
      const chosen = list().catalogs.filter((one) => name === undefined || one.name === name);
      if (name !== undefined && chosen.length === 0) return unknown(name);
      const updated: ListedCatalog[] = [];
      for (const { level, updated: _, items: __, ...entry } of chosen) {
        const listed = await read(entry, level);
        if (!listed.ok) return listed;
        updated.push(listed.output);
      }
      return ok(updated);
    },
    search({ text, kind, limit = 10 }: { text: string; kind?: ItemKind; limit?: number }) {
      const items = allItems().flatMap((index) => index.items);
      const chosen = items.filter((item) => kind === undefined || item.kind === kind);
      const hits = searchCatalogItems(chosen, text);
      // A key may have been revoked since the catalog was read.
      const judged = hits.slice(0, limit).map((hit) => {
        const isTrusted = options.trustStore.judge(hit.key ?? '', hit.kind, hit.id).ok;
        return hit.signature === 'signed' && !isTrusted ? { ...hit, signature: 'untrusted' } : hit;
      });
      return { hits: judged, total: hits.length };
    },
    /** Returns the item for `id`, `catalog:id` or a bare name, with the id that `copy` accepts. */
    resolve: (kind: ItemKind, id: string) => itemIn(allItems(), kind, id),
    /** Copies the item for `id` or `catalog:id` to the project or the user's folder. */
    async copy(kind: ItemKind, id: string, destination: CatalogLevel = 'project') {
      const match = findIn(allItems(), kind, id);
      return match.ok ? await copyFresh(match.output, rootOf[destination], options) : match;
    },
  };
}

/** Loads the functions for packages with models, which few commands need. */
export const modelPackages = () => import('./model-package.ts');
