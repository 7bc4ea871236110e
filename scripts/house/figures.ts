// The figures that keep the house small, each with what is allowed and who is over it.
import { posix } from 'node:path';
import { circles, declarationOf, homonyms, isDoor, roomOf, shortestCircle } from './graph.ts';
import type { Tree } from './tree.ts';
import type { TurnCount } from './turn.ts';

export interface Figure {
  readonly name: string;
  readonly seen: number;
  readonly allowed: number;
  /** The figure must be exactly `allowed`, not at most. */
  readonly isExact?: boolean;
  /** Who makes the figure what it is, the worst first. */
  readonly list: readonly string[];
}

export const isOver = ({ seen, allowed, isExact = false }: Figure): boolean =>
  isExact ? seen !== allowed : seen > allowed;

export const MAX_FOLDER = 21;
export const SHORT_FILE = 40;
export const MAX_SHORT_FILES = 15;
const MAX_FUNCTION = 100;
const MAX_MEMBERS = 20;
const MAX_THREAD_MEMBERS = 8;
/** The store's port is one by design; a directive is data, with a finder of places beside it. */
const ASIDE: readonly string[] = ['store Store', 'items Directive'];
/** A type is handed around when functions of at least this many files take it as a parameter. */
const HANDED_AROUND = 3;

const sum = (numbers: readonly number[]): number =>
  numbers.reduce((total, next) => total + next, 0);
const largest = (rows: readonly Row[]): Figure['list'] =>
  [...rows].sort((a, b) => b.count - a.count).map(({ count, text }) => `${count} ${text}`);

interface Row {
  readonly count: number;
  readonly text: string;
}

export function folderSizes({ files }: Tree): Row[] {
  const folders = Map.groupBy(files, ({ path }) => posix.dirname(path));
  return [...folders].map(([folder, inside]) => ({ count: inside.length, text: folder }));
}

export const shortFiles = ({ files }: Tree): Row[] =>
  files
    .filter(({ path, lines }) => lines < SHORT_FILE && !isDoor(path))
    .map(({ path, lines }) => ({ count: lines, text: path }));

function longFunctions({ files }: Tree): Row[] {
  return files.flatMap(({ path, functions }) =>
    functions
      .filter(({ lines }) => lines > MAX_FUNCTION)
      .map(({ name, line, lines }) => ({ count: lines, text: `${path}:${line} ${name}` })),
  );
}

const linesWith = (tree: Tree, key: 'casts' | 'unchecked'): Row[] =>
  tree.files.flatMap((file) => {
    const lines = file[key];
    return lines.length > 0
      ? [{ count: lines.length, text: `${file.path}:${lines.join(',')}` }]
      : [];
  });

/**
 * Objects that a room hands around: exported types that do something, taken as a parameter in several
 * files. What only holds data is as wide as the file or row it holds.
 */
function handedAround(tree: Tree): { name: string; row: Row }[] {
  const takers = new Map<string, { path: string; name: string; count: number }>();
  for (const file of tree.files) {
    for (const name of file.parameterTypes) {
      const path = declarationOf(tree, file, name);
      if (path === undefined || ASIDE.includes(`${roomOf(path)} ${name}`)) continue;
      const key = `${path} ${name}`;
      takers.set(key, { path, name, count: (takers.get(key)?.count ?? 0) + 1 });
    }
  }
  return [...takers.values()].flatMap(({ path, name, count: files }) => {
    const count = files >= HANDED_AROUND ? tree.objectMembers(path, name) : undefined;
    return count === undefined ? [] : [{ name, row: { count, text: `${path} ${name}` } }];
  });
}

function memberFigures(tree: Tree): Figure[] {
  const types = handedAround(tree);
  const isThread = ({ name, row }: (typeof types)[number]): boolean =>
    row.text.startsWith('harness/') && (name === 'Thread' || name === 'ThreadContext');
  const [thread] = types.filter(isThread);
  const others = types.filter((type) => !isThread(type)).map(({ row }) => row);
  const most = largest(others);
  return [
    {
      name: 'members of Thread',
      seen: thread?.row.count ?? Number.POSITIVE_INFINITY,
      allowed: MAX_THREAD_MEMBERS,
      list: thread ? [thread.row.text] : ['no type `Thread` in the harness'],
    },
    {
      name: 'members of another object handed around',
      seen: Math.max(...others.map(({ count }) => count)),
      allowed: MAX_MEMBERS,
      list: most.slice(0, 20),
    },
  ];
}

export function treeFigures(tree: Tree): Figure[] {
  const folders = folderSizes(tree);
  const short = shortFiles(tree);
  const groups = circles(tree);
  const long = longFunctions(tree);
  const [casts, unchecked] = [linesWith(tree, 'casts'), linesWith(tree, 'unchecked')];
  const names = [...homonyms(tree)].map(([name, paths]) => ({
    count: paths.length,
    text: `${name}: ${paths.join(' ')}`,
  }));
  const counts = (rows: readonly Row[]): number => sum(rows.map(({ count }) => count));
  return [
    {
      name: 'files in a folder',
      seen: Math.max(...folders.map(({ count }) => count)),
      allowed: MAX_FOLDER,
      list: largest(folders),
    },
    {
      name: `files under ${SHORT_FILE} lines`,
      seen: short.length,
      allowed: MAX_SHORT_FILES,
      list: [...largest(short)].reverse(),
    },
    {
      name: 'circles, types counted',
      seen: groups.length,
      allowed: 0,
      list: groups.map((group) => `${group.length} ${shortestCircle(tree, group).join(' -> ')}`),
    },
    {
      name: `functions over ${MAX_FUNCTION} lines`,
      seen: long.length,
      allowed: 0,
      list: largest(long),
    },
    { name: 'type names with two meanings', seen: names.length, allowed: 10, list: largest(names) },
    { name: 'casts', seen: counts(casts), allowed: 500, list: largest(casts) },
    { name: 'any and !', seen: counts(unchecked), allowed: 0, list: largest(unchecked) },
    {
      name: 'source lines',
      seen: sum(tree.files.map(({ lines }) => lines)),
      allowed: 70_000,
      list: largest(roomSizes(tree)),
    },
    ...memberFigures(tree),
  ];
}

function roomSizes({ files }: Tree): Row[] {
  const rooms = Map.groupBy(files, ({ path }) => roomOf(path));
  return [...rooms].map(([room, inside]) => ({
    count: sum(inside.map(({ lines }) => lines)),
    text: room,
  }));
}

export const turnFigures = ({ files, functions, performs }: TurnCount): Figure[] => [
  { name: 'files in a turn', seen: files.length, allowed: 110, list: files },
  { name: 'functions in a turn', seen: functions.length, allowed: 600, list: functions },
  { name: 'entries of perform in a turn', seen: performs, allowed: 2, isExact: true, list: [] },
];
