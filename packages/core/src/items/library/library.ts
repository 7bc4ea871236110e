// The library: every item of every root, found by name, searched by words, checked and written.
// Reading never runs or expands anything. Files are listed when an item is asked for; one that
// changed later is seen after the next `refresh`.
import { type Clock, createLooks, type Diagnostic, type Outcome, ok } from '../../base/index.ts';
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
  /** Ordered by how they are looked up; a function when bundles may be installed meanwhile. */
  roots: readonly Root[] | (() => readonly Root[]);
  projectRoot: string;
  /** Names of the primitives there are; all are mounted before the first refresh. */
  primitives: () => readonly string[];
  trustStore: TrustPort;
  clock: Clock;
  /** Where policies lie that are checked with the items; absent: beside them. */
  policies?: readonly PolicyPlace[];
  /** Items that no file stands for: found by a search before files of the same name. */
  extra?: readonly Item[];
  /** What the primitive of a chain would refuse of its config; absent: configs are not judged. */
  checkConfig?: CheckConfig;
  /** Roots with more files than this are watched instead of looked through. */
  watchAbove?: number;
}

export interface Library {
  readonly projectRoot: string;
  /** Sees files changed, added or removed until 20 ms ago, our own writes at once. Runs nothing. */
  refresh(): Promise<void>;
  /** Another number whenever an item or a data file may be another one: what was made of them is old. */
  readonly generation: () => number;
  /** Files of a root were written past `write`, by ourselves: the next refresh looks at once. */
  noteChange(): void;
  /** Full ids and, when they are unique, bare names. `not_found` suggests, `ambiguous` lists. */
  find<K extends ItemKind>(kind: K, id: string, source?: Source): Outcome<ItemOf<K>>;
  /** Effective items, ordered by kind and id. */
  all<K extends ItemKind>(kind: K): readonly ItemOf<K>[];
  all(): readonly Item[];
  search(query: SearchQuery): SearchPage;
  config(name: DataName): DataFile;
  capabilities(): CatalogData;
  chain(toolId: string): Outcome<Chain>;
  /** The chain of a tool that is at hand, be it in the library or not. */
  chainOf(item: ToolItem): Outcome<Chain>;
  /** What is wrong with the merged config of a chain; judged once. */
  configFaults(chain: Chain): readonly ConfigFault[];
  /** Everything that is wrong, across items. */
  check(options?: CheckOptions): Diagnostic[];
  /** Puts an item into the project, whole or not at all; with errors in it nothing is written. */
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
    // A record's text never changes, and neither does what was built: one look is enough.
    const known = shipped.get(record);
    if (known) return known;
    digests ??= readBundleDigests(realOf(record.root.dir));
    const state = judgeBundled(digests, record.path, record.text());
    shipped.set(record, state);
    return state;
  };
}

/** What no file stands for is searched, too, and a file of the same name is behind it. */
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

/** Looks at the files when somebody asks: the first time at once, later at most every few milliseconds. */
function createLooking(clock: Clock, files: LibraryFiles, changed: () => void) {
  const looks = createLooks(clock);
  let looking: Promise<void> | undefined;
  async function look(): Promise<void> {
    looks.begin();
    try {
      if (!(await files.refresh())) changed();
    } finally {
      looking = undefined;
    }
  }
  return {
    async refresh(): Promise<void> {
      if (looking) await looking;
      // Not recent after that: something of ours was written while others looked.
      if (!looks.isRecent()) await (looking ??= look());
    },
    /** The files, listed when an item is asked for the first time: many commands ask for none. */
    listed(): LibraryFiles {
      if (files.isListed()) return files;
      looks.begin();
      files.list();
      changed();
      return files;
    },
    forget: () => looks.forget(),
  };
}

export function createLibrary(options: LibraryOptions): Library {
  const { clock, primitives, projectRoot, watchAbove, roots: given } = options;
  const catalogOf = createCatalogReader();
  const readData = createDataReader();
  const roots = typeof given === 'function' ? given : () => given;
  const signatureOf = createSignatures(options.trustStore);

  // Answers are kept until something changes: one call asks for the same items and files many times.
  let generation = 0;
  const found = new Map<string, Outcome<Item>>();
  const chains = new Map<string, Outcome<Chain>>();
  const config = new Map<DataName, DataFile>();
  let capabilities: CatalogData | undefined;
  function changed(): void {
    generation += 1;
    for (const kept of [found, chains, config]) kept.clear();
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
    find<K extends ItemKind>(kind: K, id: string, source?: Source) {
      const key = `${kind} ${id} ${source ?? ''}`;
      const known = found.get(key);
      if (known) return known as Outcome<ItemOf<K>>;
      const record = listed().shelves.find(kind, kind === 'tool' ? unalias(id) : id, source);
      if (!record.ok) return record;
      const answer = ok(record.output.item) as Outcome<ItemOf<K>>;
      found.set(key, answer);
      return answer;
    },
    all<K extends ItemKind>(kind?: K) {
      return listed()
        .shelves.fronts(kind)
        .map(({ item }) => item) as ItemOf<K>[];
    },
    search: (query) => listed().searching.search(query, isEffective),
    config(name) {
      const known = config.get(name) ?? readData(name, rootsNow());
      config.set(name, known);
      return known;
    },
    capabilities: () => (capabilities ??= catalogOf(library.config('capabilities'))),
    chain(toolId) {
      const known = chains.get(toolId);
      if (known) return known;
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
        // A module is put beside its tool by hand: the tool may be there first.
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
