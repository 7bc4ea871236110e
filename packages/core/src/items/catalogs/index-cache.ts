// Caches the content of each catalog from its last read, as one JSON file in the user's folder.
import { join } from 'node:path';
import { isObject, type Outcome } from '../../base/index.ts';
import type { CatalogEntry } from '../data/catalog-settings.ts';
import { jsonIn, putFile, readInside, realOf } from '../files/item-file.ts';
import type { ItemFacts, ItemKind } from '../item-kinds.ts';
import { createSearchIndex, queryWords } from '../library/search-index.ts';
import { sha256Hex } from '../signature.ts';

export interface CatalogItem extends Omit<ItemFacts, 'tags'> {
  catalog: string;
  kind: ItemKind;
  id: string;
  requires: string[];
  /** Signature state when the catalog was read. It is checked again before a copy. */
  signature: string;
  key?: string;
}

export interface CatalogIndex {
  updated: string;
  /** Folders with the layout of `.ai/`. */
  folders: string[];
  items: CatalogItem[];
}

const MAX_INDEX_BYTES = 32 * 1024 * 1024;

export function createCatalogIndexes(project: string, home: string) {
  /**
   * Returns the cache folder of a catalog. The name depends on the location, so that a catalog with a new
   * location does not return its old items.
   */
  function cacheOf({ name, type, location, ref = '' }: CatalogEntry): string {
    const key = sha256Hex(JSON.stringify([type, location, ref, project])).slice(0, 12);
    return join(home, 'cache', 'catalogs', `${name}-${key}`);
  }
  return {
    cacheOf,
    read(entry: CatalogEntry): CatalogIndex | undefined {
      const read = readInside(realOf(cacheOf(entry)), 'index.json', MAX_INDEX_BYTES);
      const index = jsonIn(read);
      const isIndex = isObject(index) && Array.isArray(index.items);
      return isIndex ? (index as unknown as CatalogIndex) : undefined;
    },
    write: (entry: CatalogEntry, index: CatalogIndex): Outcome<null> =>
      putFile(join(cacheOf(entry), 'index.json'), JSON.stringify(index), false),
  };
}

/** Searches items by name, description and category, and ranks them as the library does. */
export function searchCatalogItems(
  items: readonly CatalogItem[],
  text: string,
): (CatalogItem & { score: number })[] {
  const index = createSearchIndex();
  for (const { id, title, description, category } of items) {
    index.add({ name: `${id} ${title}`, description, tags: category, body: '' });
  }
  const { documents, score } = index.match(queryWords(text));
  return documents
    .map((at) => ({ ...(items[at] as CatalogItem), score: score[at] as number }))
    .sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
}
