// Finds bundles that npm installed: dependencies of the project (or of the user's folder) with the keyword.
// Only names in `package.json` count, so that a dependency of a dependency cannot add tools. The search
// reads two small files per dependency and runs nothing.
import { isDeepStrictEqual } from 'node:util';
import { type Clock, getOwn, isObject, type Json, listAt } from '../../base/index.ts';
import { canWatch } from '../files/folder-watch.ts';
import { isFolder, jsonIn, readItemFile, realOf } from '../files/item-file.ts';
import { type Imprint, type Root, takeImprint } from '../files/root.ts';

export const BUNDLE_KEYWORD = 'kernmantle-bundle';
const PACKAGE_NAME = /^(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/i;
const MAX_PACKAGES = 2000;
const MAX_MANIFEST_BYTES = 1024 * 1024;

function readManifest(folder: string): Json | undefined {
  const real = realOf(`${folder}/package.json`);
  return real === undefined ? undefined : jsonIn(readItemFile(real, MAX_MANIFEST_BYTES));
}

/**
 * Returns the folder of items in a package. Undefined if the package is not a bundle. `looked` receives
 * every path that the answer depends on.
 */
export function bundleFolder(packageFolder: string, looked = new Set<string>()) {
  looked.add(`${packageFolder}/package.json`);
  const keywords = listAt(readManifest(packageFolder), 'keywords');
  if (!keywords.includes(BUNDLE_KEYWORD)) return undefined;
  const places = [`${packageFolder}/bundle`, `${packageFolder}/.ai`];
  for (const place of places) looked.add(place);
  return places.find(isFolder);
}

function dependenciesOf(folder: string): string[] {
  const manifest = readManifest(folder);
  const names = ['dependencies', 'devDependencies', 'optionalDependencies'].flatMap((field) => {
    const listed = getOwn(manifest, field);
    return isObject(listed) ? Object.keys(listed) : [];
  });
  const unique = new Set(names.filter((name) => PACKAGE_NAME.test(name)));
  return [...unique].sort().slice(0, MAX_PACKAGES);
}

/** Returns the installed bundles of these folders, the nearest first. A name occurs once. */
function installedBundles(folders: readonly string[], looked: Set<string>): Root[] {
  const roots = new Map<string, Root>();
  for (const folder of folders) {
    looked.add(`${folder}/package.json`);
    for (const name of dependenciesOf(folder)) {
      const at = `${folder}/node_modules/${name}`;
      const dir = roots.has(name) ? undefined : bundleFolder(at, looked);
      if (dir !== undefined) roots.set(name, { source: 'installed', dir, name });
    }
  }
  return [...roots.values()];
}

/**
 * Returns a function that lists every root in the order of look-up: project, user, installed bundles, the
 * built-in bundle. It returns the same list, without reading a file, until a relevant file changes.
 */
export function createItemRoots(
  project: string,
  home: string,
  bundle: string,
  clock: Pick<Clock, 'now'>,
): () => readonly Root[] {
  const folders = [project, home];
  let roots: readonly Root[] = [];
  let looked = new Set<string>();
  let imprint: Imprint | undefined;
  return () => {
    if (imprint?.isCurrent()) return roots;
    const isLocal = folders.every((folder) => !isFolder(folder) || canWatch(folder));
    // The imprint is taken before the files are read. It is used only if the read finds no change.
    const before = isLocal ? takeImprint(looked, clock.now()) : undefined;
    const paths = new Set<string>();
    const present: Root[] = [
      { source: 'project', dir: `${project}/.ai` },
      { source: 'user', dir: home },
      ...installedBundles(folders, paths),
      { source: 'bundle', dir: bundle },
    ];
    const isSame = isDeepStrictEqual([roots, looked], [present, paths]);
    imprint = isSame ? before : undefined;
    if (!isSame) [roots, looked] = [present, paths];
    return roots;
  };
}
