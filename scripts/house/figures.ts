// The figures that need the compiler or a running thread. `walls.mjs` has those that text shows.
import { posix } from 'node:path';
import { declaredFields } from './declared-fields.ts';
import { englishFigures } from './english.ts';
import { declarationOf, isDoor, roomOf } from './graph.ts';
import type { SourceFile, SyntaxFacts, Tree } from './tree.ts';
import type { TurnCount } from './turn.ts';
import { type Figure, measure, modulesLoaded, type Place } from './walls.mjs';

const SHORT_FILE = 40;
const LONG_FUNCTION = 100;
/** The store's port is one by design; a directive is data, with a finder of locations beside it. */
const ASIDE: readonly string[] = ['core/store Store', 'core/items Directive'];
/** A type is handed around if functions of at least this many files take it as a parameter. */
const HANDED_AROUND = 3;

const largest = (places: readonly Place[]): Place[] =>
  [...places].sort((a, b) => (b.count ?? 1) - (a.count ?? 1));

/** Folders are printed with their sizes; the figure is the size of the largest one. */
function folderFigure({ files }: Tree): Figure {
  const folders = Map.groupBy(files, ({ path }) => posix.dirname(path));
  const [first] = largest(
    [...folders].map(([text, inside]) => ({ text, count: inside.length, package: 'all' })),
  );
  return {
    id: 'a',
    name: 'files in the largest folder',
    isPrinted: true,
    places: first ? [first] : [],
  };
}

const linesWith = (
  packageOf: (path: string) => string,
  facts: readonly SyntaxFacts[],
  key: 'casts' | 'unchecked',
): Place[] =>
  facts
    .filter((file) => file[key].length > 0)
    .map((file) => ({
      package: packageOf(file.path),
      text: `${file.path}:${file[key].join(',')}`,
      count: file[key].length,
    }));

/**
 * Objects that a room hands around: exported types with functions, taken as a parameter in several
 * files. A type that only holds data is as wide as the file or row that it holds.
 */
function handedAround(tree: Tree, facts: readonly SyntaxFacts[]): Place[] {
  const takers = new Map<string, { path: string; name: string; count: number }>();
  for (const { path: taker, parameterTypes } of facts) {
    const file = tree.byPath.get(taker);
    for (const name of file ? parameterTypes : []) {
      const path = file && declarationOf(tree, file, name);
      if (path === undefined || ASIDE.includes(`${roomOf(path)} ${name}`)) continue;
      const key = `${path} ${name}`;
      takers.set(key, { path, name, count: (takers.get(key)?.count ?? 0) + 1 });
    }
  }
  return [...takers.values()].flatMap(({ path, name, count: files }) => {
    const count = files >= HANDED_AROUND ? tree.objectMembers(path, name) : undefined;
    return count === undefined ? [] : [{ package: 'all', text: `${path} ${name}`, count }];
  });
}

function memberFigures(tree: Tree, facts: readonly SyntaxFacts[]): Figure[] {
  const types = largest(handedAround(tree, facts));
  const isThread = ({ text }: Place): boolean => /\bharness\/.* Thread(?:Context)?$/.test(text);
  const thread = types.find(isThread);
  const other = types.find((type) => !isThread(type));
  return [
    { id: 'd', name: 'members of Thread', places: thread ? [thread] : [] },
    { id: 'e', name: 'members of another object handed around', places: other ? [other] : [] },
  ];
}

function treeFigures(tree: Tree): Figure[] {
  const facts = tree.facts();
  const packageOf = (path: string): string => tree.byPath.get(path)?.package ?? 'all';
  const isShort = ({ path, lines }: SourceFile): boolean => lines < SHORT_FILE && !isDoor(path);
  const long = facts.flatMap(({ path, functions }) =>
    functions
      .filter(({ lines }) => lines > LONG_FUNCTION)
      .map(({ name, line }) => ({ package: packageOf(path), text: `${path}:${line} ${name}` })),
  );
  return [
    { id: 'casts', name: 'casts', places: linesWith(packageOf, facts, 'casts') },
    { id: 'any', name: 'any and !', target: '0', places: linesWith(packageOf, facts, 'unchecked') },
    {
      id: 'idle',
      name: 'declared fields without a reader',
      target: '0',
      places: declaredFields(tree),
    },
    ...memberFigures(tree, facts),
    folderFigure(tree),
    {
      id: 'b',
      name: `files under ${SHORT_FILE} lines`,
      isPrinted: true,
      places: tree.files
        .filter(isShort)
        .map(({ path, package: own }) => ({ package: own, text: path })),
    },
    { id: 'c', name: `functions over ${LONG_FUNCTION} lines`, isPrinted: true, places: long },
  ];
}

function turnFigures({ files, functions, performs }: TurnCount): Figure[] {
  const all = (texts: readonly string[]): Place[] =>
    texts.map((text) => ({ package: 'all', text }));
  return [
    { id: 'f', name: 'files in a turn', isPrinted: true, places: all(files) },
    { id: 'g', name: 'functions in a turn', isPrinted: true, places: all(functions) },
    {
      id: 'h',
      name: 'entries of perform in a turn',
      target: '2',
      places: [{ package: 'all', text: 'perform', count: performs }],
    },
  ];
}

/** Every figure of the checkout. A figure of no package has the package `all`. */
export const allFigures = (root: string, tree: Tree, turn: TurnCount): Figure[] => [
  ...measure(tree.sources).figures,
  ...englishFigures(tree.sources.files),
  modulesLoaded(root),
  ...treeFigures(tree),
  ...turnFigures(turn),
];
