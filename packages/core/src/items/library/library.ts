// Finds, searches, checks and writes the items of all roots. A read never runs or expands an item. Files are
// listed at the first look-up of an item. Later changes appear after the next `refresh`.
import {
  type Clock,
  createFreshness,
  type Diagnostic,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { PolicyPlace } from '../../flow/index.ts';
import { type CatalogData, createCatalogReader } from '../data/capability-data.ts';
import { createDataReader, type DataFile } from '../data/data-files.ts';
import type { DataName } from '../data/data-shapes.ts';
import { realOf } from '../files/item-file.ts';
import type { Root } from '../files/root.ts';
import type { Item, ItemOf, SignatureState, ToolItem } from '../item.ts';
import type { ItemKind, Source } from '../item-kinds.ts';
import {
  type BundleDigests,
  judgeBundled,
  judgeSignature,
  readBundleDigests,
  type TrustPort,
} from '../signature.ts';
import { type CheckOptions, checkLibrary, checkText } from './check.ts';
import { createLibraryFiles } from './library-files.ts';
import type { FileRecord } from './record.ts';
import type { Searchable, SearchPage, SearchQuery } from './search.ts';
import {
  type Chain,
  type CheckConfig,
  type ConfigFault,
  createConfigFaults,
  resolveChain,
  unalias,
} from './tool-chain.ts';
import { removeItem, type WriteMode, type Written, writeItem } from './write.ts';

interface LibraryOptions {
  /** Roots in the order of look-up, or a function that returns them if they can change while the process runs. */
  roots: readonly Root[] | (() => readonly Root[]);
  projectRoot: string;
  /** Returns the names of the primitives, which are all mounted before the first refresh. */
  primitives: () => readonly string[];
  trustStore: TrustPort;
  clock: Clock;
  /** Paths of policies that are checked with the items. Absent: the policies are in the roots. */
  policies?: readonly PolicyPlace[];
  /** Items without a file. A search finds them before files of the same name. */
  extra?: readonly Item[];
  /**
   * Returns the config problems that the primitive of a chain would refuse. Absent: configs are not checked.
   */
  checkConfig?: CheckConfig;
  /** Number of files above which a root is watched instead of scanned. */
  watchAbove?: number;
}

export interface Library {
  readonly projectRoot: string;
  /** Finds all files that changed more than 20 ms ago, and own writes at once. Runs nothing. */
  refresh(): Promise<void>;
  /** Returns a new number whenever an item or a data file may have changed, which makes derived data stale. */
  readonly generation: () => number;
  /** Reports an own write that did not use `write`, so that the next refresh scans at once. */
  noteChange(): void;
  /**
   * Finds full ids and unique bare names. Fails with `not_found` and a suggestion, or with `ambiguous` and the ids.
   */
  find<K extends ItemKind>(kind: K, id: string, source?: Source): Outcome<ItemOf<K>>;
  /** Returns the items that no other item hides, ordered by kind and id. */
  all<K extends ItemKind>(kind: K): readonly ItemOf<K>[];
  all(): readonly Item[];
  search(query: SearchQuery): SearchPage;
  config(name: DataName): DataFile;
  capabilities(): CatalogData;
  chain(toolId: string): Outcome<Chain>;
  /** Returns the chain of a tool that need not be in the library. */
  chainOf(item: ToolItem): Outcome<Chain>;
  /** Returns the problems of a chain's merged config. The result is cached. */
  configFaults(chain: Chain): readonly ConfigFault[];
  /** Returns every problem, also across items. */
  check(options?: CheckOptions): Diagnostic[];
  /** Writes an item to the project, completely or not at all. Fails with `invalid_item` for an item with errors. */
  write(
    kind: ItemKind,
    id: string,
    content: string,
    mode?: WriteMode,
    options?: { dryRun?: boolean },
  ): Outcome<Written>;
  remove(kind: ItemKind, id: string): Outcome<{ file: string }>;
  roots(): readonly Root[];
  close(): void;
}

type LibraryFiles = ReturnType<typeof createLibraryFiles>;

function createSignatures(trustStore: TrustPort): (record: FileRecord) => SignatureState {
  let digests: BundleDigests | undefined;
  const shipped = new WeakMap<FileRecord, SignatureState>();
  return (record) => {
    if (record.root.source !== 'bundle') {
      return judgeSignature(record.signed(), record.subject, trustStore);
    }
    // The text of a record and the built files are immutable, so one check is enough.
    const cached = shipped.get(record);
    if (cached) return cached;
    digests ??= readBundleDigests(realOf(record.root.dir));
    const state = judgeBundled(digests, record.path, record.text());
    shipped.set(record, state);
    return state;
  };
}

/** Adds items without a file to the search. Returns a test that excludes files that another item hides. */
function addExtra(
  items: readonly Item[],
  { searching, shelves }: Pick<LibraryFiles, 'searching' | 'shelves'>,
): (one: Searchable) => boolean {
  const named = new Set(items.map(({ kind, id }) => `${kind} ${id}`));
  for (const item of items) {
    const { kind, id, file, body } = item;
    searching.add({ kind, id, file, item, text: () => body, facts: () => item });
  }
  return (one) =>
    one.root === undefined || (shelves.isFront(one) && !named.has(`${one.kind} ${one.id}`));
}

/** Scans the files on demand: for the first look-up at once, later at most every few milliseconds. */
function createLooking(clock: Clock, files: LibraryFiles, changed: () => void) {
  const freshness = createFreshness(clock);
  let looking: Promise<void> | undefined;
  async function look(): Promise<void> {
    freshness.begin();
    try {
      if (!(await files.refresh())) changed();
    } finally {
      looking = undefined;
    }
  }
  return {
    async refresh(): Promise<void> {
      if (looking) await looking;
      // An own write during the scan makes the scan stale.
      if (!freshness.isRecent()) await (looking ??= look());
    },
    /** Returns the files, listed at the first look-up of an item, because many commands need none. */
    listed(): LibraryFiles {
      if (files.isListed()) return files;
      freshness.begin();
      files.list();
      changed();
      return files;
    },
    forget: () => freshness.forget(),
  };
}

/** Returns the id and the source of a name. A directive `bundle:ID` is the shipped one, whatever hides it. */
const sourceOf = (kind: ItemKind, name: string, source?: Source) =>
  kind === 'directive' && name.startsWith(SHIPPED)
    ? ([name.slice(SHIPPED.length), 'bundle'] as const)
    : ([name, source] as const);
/** Begins the name of a shipped directive that no other item can hide. */
export const SHIPPED = 'bundle:';

export function createLibrary(options: LibraryOptions): Library {
  const { clock, primitives, projectRoot, watchAbove, roots: rootOption } = options;
  const catalogOf = createCatalogReader();
  const readData = createDataReader();
  const roots = typeof rootOption === 'function' ? rootOption : () => rootOption;
  const signatureOf = createSignatures(options.trustStore);

  // Answers are cached until something changes, because one call looks up the same items many times.
  let generation = 0;
  const lookups = new Map<string, Outcome<Item>>();
  const chains = new Map<string, Outcome<Chain>>();
  const config = new Map<DataName, DataFile>();
  let capabilities: CatalogData | undefined;
  function changed(): void {
    generation += 1;
    for (const cache of [lookups, chains, config]) cache.clear();
    capabilities = undefined;
  }

  const files = createLibraryFiles({ roots, clock, signatureOf, onChange: changed, watchAbove });
  const rootsNow = () => files.opened().map(({ root, real }) => ({ root, real: real() }));
  const projectFolder = () => roots().find(({ source }) => source === 'project')?.dir;
  const chainOf = (leaf: ToolItem): Outcome<Chain> =>
    resolveChain(leaf, (id) => library.find('tool', id), primitives(), projectRoot);

  const isEffective = addExtra(options.extra ?? [], files);

  const { refresh, listed, forget } = createLooking(clock, files, changed);
  const library: Library = {
    projectRoot,
    refresh,
    generation: () => generation,
    noteChange: forget,
    find<K extends ItemKind>(kind: K, name: string, level?: Source) {
      const [id, source] = sourceOf(kind, name, level);
      const key = `${kind} ${id} ${source ?? ''}`;
      const cached = lookups.get(key);
      if (cached) return cached as Outcome<ItemOf<K>>;
      const record = listed().shelves.find(kind, kind === 'tool' ? unalias(id) : id, source);
      if (!record.ok) return record;
      const answer = ok(record.output.item) as Outcome<ItemOf<K>>;
      lookups.set(key, answer);
      return answer;
    },
    all<K extends ItemKind>(kind?: K) {
      return listed()
        .shelves.fronts(kind)
        .map(({ item }) => item) as ItemOf<K>[];
    },
    search: (query) => listed().searching.search(query, isEffective),
    config(name) {
      const data = config.get(name) ?? readData(name, rootsNow());
      config.set(name, data);
      return data;
    },
    capabilities: () => (capabilities ??= catalogOf(library.config('capabilities'))),
    chain(toolId) {
      const cached = chains.get(toolId);
      if (cached) return cached;
      const leaf = library.find('tool', toolId);
      if (!leaf.ok) return leaf;
      const chain = chainOf(leaf.output);
      chains.set(toolId, chain);
      return chain;
    },
    chainOf: (item) => chainOf(item),
    configFaults: createConfigFaults(options.checkConfig),
    check(checked = {}) {
      const { trustStore: trust, policies } = options;
      const { shelves, opened } = listed();
      const own = { records: shelves.everything(), opened: opened() };
      return checkLibrary({ library, ...own, behind: shelves.behind, trust, policies }, checked);
    },
    write(kind, id, content, mode = 'replace', { dryRun = false } = {}) {
      forget();
      return writeItem(projectFolder(), { kind, id, content, mode, dryRun }, (file) =>
        // A person adds the module separately, so the tool may exist first.
        checkText(kind, content, file, library).filter(({ code }) => code !== 'module_missing'),
      );
    },
    remove(kind, id) {
      forget();
      return removeItem(projectFolder(), kind, id);
    },
    roots: () => files.opened().map(({ root }) => root),
    close: () => files.close(),
  };
  return library;
}
