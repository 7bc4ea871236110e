// Tracks the files of a library. When a root or file is added, changed or removed, it updates the shelves
// and the search.
import type { Clock } from '../../base/index.ts';
import type { FileStamp } from '../files/folder-tree.ts';
import { createRootFiles, type Root, type RootFiles } from '../files/root.ts';
import type { SignatureState } from '../item.ts';
import { createRecord, type FileRecord, type RecordPorts } from './record.ts';
import { createLibrarySearch } from './search.ts';
import { createShelves } from './shelves.ts';

interface OpenedRoot {
  files: RootFiles;
  records: Map<string, FileRecord>;
}

const isSameRoot = (a: Root | undefined, b: Root): boolean =>
  a?.dir === b.dir && a.source === b.source && a.name === b.name;

export function createLibraryFiles(options: {
  roots: () => readonly Root[];
  clock: Pick<Clock, 'now'>;
  signatureOf: (record: FileRecord) => SignatureState;
  /** Called when a file was added, removed or changed. */
  onChange: () => void;
  watchAbove?: number | undefined;
}) {
  const { clock, signatureOf, watchAbove } = options;
  let roots: readonly Root[] | undefined;
  let isListed = false;
  let opened: OpenedRoot[] = [];
  let hasty = new Set<FileRecord>();
  const openedOf = (root: Root) => opened.findIndex(({ files }) => files.root === root);
  const shelves = createShelves(({ root }) => openedOf(root));
  const searching = createLibrarySearch();
  const ports: RecordPorts = {
    clock,
    signatureOf,
    onHastyRead: (record) => void hasty.add(record),
    shadowsOf: (record) =>
      shelves.behind(record).map(({ root, file }) => ({ source: root.source, file })),
  };

  function take(records: OpenedRoot['records'], path: string, record: FileRecord | undefined) {
    const before = records.get(path);
    records.delete(path);
    if (record) records.set(path, record);
    for (const consumer of [shelves, searching]) {
      if (before) consumer.remove(before);
      if (record) consumer.add(record);
    }
    options.onChange();
  }

  function open(root: Root): OpenedRoot {
    const records = new Map<string, FileRecord>();
    const onChange = (path: string, stamp: FileStamp | undefined) =>
      take(records, path, stamp && createRecord(root, path, stamp, ports));
    return { files: createRootFiles(root, onChange, { clock, watchAbove }), records };
  }

  /** Opens new roots and closes removed roots. Roots that stay keep their state. */
  function openRoots(present: readonly Root[]): void {
    const before = opened;
    roots = present;
    opened = present.map(
      (root) => before.find(({ files }) => isSameRoot(files.root, root)) ?? open(root),
    );
    for (const one of before) if (!opened.includes(one)) one.files.close();
  }

  function openedNow(): readonly OpenedRoot[] {
    if (!roots) openRoots(options.roots());
    return opened;
  }

  function reread(): void {
    const again = hasty;
    hasty = new Set();
    for (const record of again) {
      const records = opened[openedOf(record.root)]?.records;
      if (records?.get(record.path) !== record) continue;
      const fresh = record.recheck();
      if (fresh) take(records, record.path, fresh);
    }
  }

  return {
    shelves,
    searching,
    /** Finds files that have changed since the last call. Returns true if certainly no file has changed. */
    async refresh(): Promise<boolean> {
      isListed = true;
      const present = options.roots();
      const isSame = present === roots;
      let isCurrent = isSame && hasty.size === 0;
      for (const { files } of opened) isCurrent &&= files.isCurrent();
      if (isCurrent) return true;
      if (!isSame) openRoots(present);
      const unchanged = await Promise.all(opened.map(({ files }) => files.refresh()));
      reread();
      return isSame && unchanged.every(Boolean);
    },
    isListed: () => isListed,
    /** Lists the files for the first time. The call is synchronous, so that any look-up of an item can make it. */
    list(): void {
      isListed = true;
      openedNow();
      for (const { files } of opened) files.list();
    },
    opened: () => openedNow().map(({ files }) => files),
    close(): void {
      for (const { files } of opened) files.unwatch();
    },
  };
}
