// The library: every item of every root, found by name, searched by words, checked and written.
// Reading never runs or expands anything. A file that changed is seen after the next `refresh`.
import { type Clock, type Diagnostic, type Outcome, ok } from '../base/index.ts';
import { type BundleDigests, judgeBundled, readBundleDigests } from './bundle-digests.ts';
import { type CatalogData, createCatalogReader } from './capability-data.ts';
import { type Chain, resolveChain, unalias } from './chain.ts';
import { createDataFiles, type DataFile } from './data-files.ts';
import type { DataName } from './data-shapes.ts';
import type { FileStamp } from './folder-look.ts';
import type { Item, ItemOf, SignatureState, ToolItem } from './item.ts';
import type { ItemKind, Source } from './item-kinds.ts';
import { createRecord, type FileRecord } from './item-record.ts';
import {
  type CheckOptions,
  type ConfigCheck,
  checkContent,
  checkLibrary,
} from './library-check.ts';
import { createLibrarySearch, type SearchPage, type SearchQuery } from './library-search.ts';
import { createShelves } from './library-shelves.ts';
import { removeItem, type WriteMode, type Written, writeItem } from './library-write.ts';
import { createRootFiles, type Root, type RootFiles } from './root-files.ts';
import { judgeSignature, type TrustPort } from './signature.ts';

export interface LibraryOptions {
  /** Ordered by how they are looked up; a function when bundles may be installed meanwhile. */
  roots: readonly Root[] | (() => readonly Root[]);
  projectRoot: string;
  /** Names of the primitives there are; read at every use, since the runtime mounts more. */
  primitives: () => readonly string[];
  trustStore: TrustPort;
  /** Absent: the list that lies in the bundle. */
  bundleDigests?: BundleDigests;
  clock: Pick<Clock, 'now'>;
  /** What a primitive says about a merged config before anything runs. */
  checkConfig?: ConfigCheck;
  /** Roots with more files than this are watched instead of looked through. */
  watchAbove?: number;
}

export interface Library {
  readonly projectRoot: string;
  /** Sees files changed, added or removed since the last call. Runs nothing. */
  refresh(): Promise<void>;
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

const sameRoot = (a: Root, b: Root): boolean =>
  a.dir === b.dir && a.source === b.source && a.name === b.name;

export function createLibrary(options: LibraryOptions): Library {
  const { trustStore, clock, primitives, projectRoot } = options;
  let opened: { files: RootFiles; records: Map<string, FileRecord> }[] = [];
  let digests: BundleDigests | undefined = options.bundleDigests;
  const catalogOf = createCatalogReader();
  let hasty = new Set<FileRecord>();
  const data = createDataFiles();
  const searching = createLibrarySearch();
  const shelves = createShelves((record) =>
    opened.findIndex(({ files }) => files.root === record.root),
  );

  function signatureOf(record: FileRecord): SignatureState {
    if (record.root.source === 'bundle') {
      digests ??= readBundleDigests(bundleFolder() ?? '');
      return judgeBundled(digests, record.path, record.text());
    }
    return judgeSignature(record.signed(), record.subject, trustStore);
  }

  const bundleFolder = (): string | undefined =>
    opened.find(({ files }) => files.root.source === 'bundle')?.files.real();

  const ports = {
    clock,
    signatureOf,
    onHastyRead: (record: FileRecord) => void hasty.add(record),
    shadowsOf: (record: FileRecord) =>
      shelves.behind(record).map(({ root, file }) => ({ source: root.source, file })),
  };

  function take(records: Map<string, FileRecord>, path: string, record: FileRecord | undefined) {
    const before = records.get(path);
    if (before) {
      shelves.remove(before);
      searching.remove(before);
      records.delete(path);
    }
    if (record) {
      records.set(path, record);
      shelves.add(record);
      searching.add(record);
    }
  }

  function open(root: Root) {
    const records = new Map<string, FileRecord>();
    const onChange = (path: string, stamp: FileStamp | undefined) =>
      take(records, path, stamp && createRecord(root, path, stamp, ports));
    const { watchAbove } = options;
    const files = createRootFiles(root, onChange, watchAbove === undefined ? {} : { watchAbove });
    return { files, records };
  }

  const rootList = (): readonly Root[] =>
    typeof options.roots === 'function' ? options.roots() : options.roots;

  /** Opens roots that are new and closes those that are gone; the others keep what they know. */
  function openRoots(): void {
    const roots = rootList();
    const known = opened;
    if (
      known.length === roots.length &&
      roots.every((root, at) => {
        const files = known[at]?.files;
        return files !== undefined && sameRoot(files.root, root);
      })
    )
      return;
    opened = roots.map(
      (root) => known.find(({ files }) => sameRoot(files.root, root)) ?? open(root),
    );
    for (const one of known) if (!opened.includes(one)) one.files.close();
  }

  function reread(): void {
    const again = hasty;
    hasty = new Set();
    for (const record of again) {
      const records = opened.find(({ files }) => files.root === record.root)?.records;
      if (records?.get(record.path) !== record) continue;
      const fresh = record.recheck();
      if (fresh) take(records, record.path, fresh);
    }
  }

  const library: Library = {
    projectRoot,
    async refresh() {
      openRoots();
      await Promise.all(opened.map(({ files }) => files.refresh()));
      reread();
    },
    find<K extends ItemKind>(kind: K, id: string, source?: Source) {
      const found = shelves.find(kind, kind === 'tool' ? unalias(id) : id, source);
      return (found.ok ? ok(found.output.item) : found) as Outcome<ItemOf<K>>;
    },
    all<K extends ItemKind>(kind?: K) {
      return shelves.fronts(kind).map(({ item }) => item) as ItemOf<K>[];
    },
    search: (query) => searching.search(query, shelves.isFront),
    config: (name) => data.read(name, rootsNow()),
    capabilities: () => catalogOf(data.read('capabilities', rootsNow())),
    chain(toolId) {
      const leaf = library.find('tool', toolId);
      return leaf.ok ? chainOf(leaf.output) : leaf;
    },
    chainOf: (item) => chainOf(item),
    check: (checked = {}) =>
      checkLibrary(
        {
          library,
          records: shelves.everything(),
          behind: shelves.behind,
          chainOf,
          rootProblems: opened.map(({ files }) => ({
            source: files.root.source,
            diagnostics: files.diagnostics(),
          })),
          ...(options.checkConfig ? { checkConfig: options.checkConfig } : {}),
        },
        checked,
      ),
    write: (kind, id, content, mode = 'replace', { dryRun = false } = {}) =>
      writeItem(projectFolder(), { kind, id, content, mode, dryRun }, (file) =>
        checkContent(kind, content, file, library),
      ),
    remove: (kind, id) => removeItem(projectFolder(), kind, id),
    roots: () => opened.map(({ files }) => files.root),
    close: () => {
      for (const { files } of opened) files.close();
      opened = [];
    },
  };

  const rootsNow = () => opened.map(({ files }) => ({ root: files.root, real: files.real() }));
  const chainOf = (leaf: ToolItem): Outcome<Chain> =>
    resolveChain(leaf, (id) => library.find('tool', id), primitives());
  const projectFolder = (): string | undefined =>
    rootList().find(({ source }) => source === 'project')?.dir;
  return library;
}
