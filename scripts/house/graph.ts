// The graph of imports: its circles, and the exports that nothing uses.
import type { SourceFile, Tree } from './tree.ts';
import { wayToDeclaration } from './walls.mjs';

/** A folder of core, the command line, or another package: what has an order of its own. */
export const roomOf = (path: string): string =>
  /^(?:core\/[^/]+|kernmantle\/cli(?=\/)|[^/]+)/.exec(path)?.[0] ?? path;
export const isDoor = (path: string): boolean => path.endsWith('/index.ts');
/** The file of a path in the tree, from the root of the repository. */
export const fileOf = (path: string): string => `packages/${path.replace('/', '/src/')}`;
/** Files whose exports are for others than the packages: the library, its helpers for tests and the command line. */
const ENTRANCES: readonly string[] = [
  'kernmantle/index.ts',
  'kernmantle/testing.ts',
  'kernmantle/cli/main.ts',
];

/** The files of packages that a file imports, types counted, each once. */
export const localImports = ({ path, imports }: SourceFile): string[] => [
  ...new Set(imports.flatMap(({ target, isLocal }) => (isLocal && target !== path ? target : []))),
];

/** Groups of files that reach each other, however far the way around (Tarjan's components). */
export function circles({ files }: Tree): string[][] {
  const graph = new Map(files.map((file) => [file.path, localImports(file)]));
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (path: string): number => {
    const own = index.size;
    index.set(path, own);
    stack.push(path);
    let least = own;
    for (const next of graph.get(path) ?? []) {
      if (!index.has(next)) least = Math.min(least, visit(next));
      else if (stack.includes(next))
        least = Math.min(least, low.get(next) ?? index.get(next) ?? own);
      low.set(path, least);
    }
    if (least === own) {
      const group = stack.splice(stack.indexOf(path));
      if (group.length > 1) found.push(group);
    }
    return least;
  };
  for (const { path } of files) if (!index.has(path)) visit(path);
  return found;
}

/** A way from the first file of a group back to itself, as short as there is. */
export function shortestCircle(tree: Tree, group: readonly string[]): string[] {
  const ways = group.map((start) => wayBack(tree, new Set(group), start));
  return ways.reduce((best, way) => (way.length < best.length ? way : best));
}

function wayBack(tree: Tree, group: ReadonlySet<string>, start: string): string[] {
  let ends: string[][] = [[start]];
  const seen = new Set<string>();
  while (ends.length > 0) {
    const longer: string[][] = [];
    for (const way of ends) {
      const file = tree.byPath.get(way.at(-1) ?? '');
      for (const next of file ? localImports(file) : []) {
        if (next === start) return [...way, next];
        if (!group.has(next) || seen.has(next)) continue;
        seen.add(next);
        longer.push([...way, next]);
      }
    }
    ends = longer;
  }
  return [];
}

/** The file that declares the type which `file` calls `local`. */
export function declarationOf(tree: Tree, file: SourceFile, local: string): string | undefined {
  if (file.exports.some(({ name, target }) => name === local && !target)) return file.path;
  for (const { target, isLocal, names } of file.imports) {
    const named = isLocal ? names.find((entry) => entry.local === local) : undefined;
    if (named) return wayToDeclaration(tree.byPath, target, named.name).at(-1)?.path;
  }
  return undefined;
}

/** Exports that no other file uses, and names of a door that no other room imports, as `path name`. */
export function unusedExports(tree: Tree): string[] {
  const used = new Set<string>();
  const use = (target: string, name: string): void => {
    for (const { path, name: inner } of wayToDeclaration(tree.byPath, target, name)) {
      used.add(`${path} ${inner}`);
    }
  };
  for (const file of tree.files) {
    for (const { target, isLocal, names } of file.imports) {
      if (!isLocal) continue;
      const wanted = names.some(({ name }) => name === '*')
        ? (tree.byPath.get(target)?.exports ?? [])
        : names;
      for (const { name } of wanted) use(target, name);
    }
    if (ENTRANCES.includes(file.path)) for (const { name } of file.exports) use(file.path, name);
  }
  return tree.files.flatMap(({ path, exports }) =>
    exports.map(({ name }) => `${path} ${name}`).filter((known) => !used.has(known)),
  );
}
