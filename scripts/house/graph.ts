// What the files of the tree say about each other: who imports whom, in circles or not, and which
// exports have a user.
import type { Export, SourceFile, Tree } from './tree.ts';

export const roomOf = (path: string): string => path.split('/')[0] ?? path;
export const isDoor = (path: string): boolean => path === 'index.ts' || path.endsWith('/index.ts');
/** What the package exports and what it starts: their exports are for others than `src`. */
const ENTRANCES: readonly string[] = ['index.ts', 'cli/main.ts'];

/** Below `src`, types counted, each once. */
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
      const file = tree.file(way.at(-1) ?? '');
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

/** Where a name that `target` exports is declared; every file on the way there. */
function wayToDeclaration(
  tree: Tree,
  target: string,
  name: string,
): { path: string; name: string }[] {
  const way = [{ path: target, name }];
  for (let at = way[0]; at; ) {
    const { path, name: inner }: { path: string; name: string } = at;
    const from = tree.file(path)?.exports.find((entry) => entry.name === inner)?.from;
    at = from && way.length < 10 ? { path: from.target, name: from.name } : undefined;
    if (at) way.push(at);
  }
  return way;
}

/** The file that declares the type which `file` calls `local`. */
export function declarationOf(tree: Tree, file: SourceFile, local: string): string | undefined {
  if (file.exports.some(({ name, from }) => name === local && !from)) return file.path;
  for (const { target, isLocal, names } of file.imports) {
    const named = isLocal ? names.find((entry) => entry.local === local) : undefined;
    if (named) return wayToDeclaration(tree, target, named.name).at(-1)?.path;
  }
  return undefined;
}

export interface Unused {
  readonly path: string;
  readonly entry: Export;
}

/** Exports that no other file of `src` uses, and names of a door that no other room asks for. */
export function unusedExports(tree: Tree): Unused[] {
  const used = new Set<string>();
  const use = (target: string, name: string): void => {
    for (const { path, name: inner } of wayToDeclaration(tree, target, name)) {
      used.add(`${path} ${inner}`);
    }
  };
  for (const file of tree.files) {
    for (const { target, isLocal, names } of file.imports) {
      if (!isLocal) continue;
      const wanted = names.some(({ name }) => name === '*')
        ? (tree.file(target)?.exports ?? [])
        : names;
      for (const { name } of wanted) use(target, name);
    }
    if (ENTRANCES.includes(file.path)) for (const { name } of file.exports) use(file.path, name);
  }
  return tree.files.flatMap(({ path, exports }) =>
    exports.flatMap((entry) => (used.has(`${path} ${entry.name}`) ? [] : [{ path, entry }])),
  );
}

/** Exported type names that are declared in more than one file. */
export function homonyms({ files }: Tree): Map<string, string[]> {
  const places = new Map<string, string[]>();
  for (const { path, exports } of files) {
    for (const { name, kind } of exports) {
      if (kind === 'type' || kind === 'class')
        places.set(name, [...(places.get(name) ?? []), path]);
    }
  }
  return new Map([...places].filter(([, paths]) => paths.length > 1));
}
