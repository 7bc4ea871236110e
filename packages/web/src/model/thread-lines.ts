// Lines of the list of threads: three groups in a fixed order. Each group has trees of threads,
// newest first. The most urgent thread of a tree decides its group, so that a pending request is
// never below ended threads.
import type { ListedRun } from './api.ts';

const THREAD_GROUPS = ['waits for you', 'in progress', 'ended'] as const;
export type ThreadGroup = (typeof THREAD_GROUPS)[number];

export type ThreadLine =
  | { readonly kind: 'group'; readonly group: ThreadGroup; readonly threads: number }
  | {
      readonly kind: 'thread';
      readonly id: string;
      readonly group: ThreadGroup;
      readonly depth: number;
      /** Number of descendants in the tree, visible or not. */
      readonly below: number;
      readonly isFolded: boolean;
    };

interface LineOptions {
  /** True to include threads of hooks. */
  readonly hooks: boolean;
  /** Keeps only trees with this text in a name, an id or the current activity. */
  readonly find: string;
  /** Trees that the user toggled. Ended trees start folded, others open. */
  readonly turned: ReadonlySet<string>;
}

const ENDED = new Set([
  'completed',
  'failed',
  'limit',
  'denied',
  'aborted',
  'terminated',
  'killed',
]);
const AT_AN_END = new Set(['failed', 'limit', 'aborted', 'interrupted', 'terminated', 'killed']);

export const waitsForPerson = ({ due, status }: Pick<ListedRun, 'due' | 'status'>): boolean =>
  due > 0 || status === 'needs_input';

/** Names the action that a person can take on a parked or ended thread: resume or follow up. */
export function nextAct(status: string): 'Resume…' | 'Follow up…' | undefined {
  if (status === 'completed' || status === 'denied') return 'Follow up…';
  return AT_AN_END.has(status) || status === 'paused' ? 'Resume…' : undefined;
}

/** Index of the group of a thread. The smallest is the most urgent. */
function urgency(row: ListedRun): number {
  if (waitsForPerson(row)) return 0;
  return ENDED.has(row.status) ? 2 : 1;
}

interface Tree {
  readonly row: ListedRun;
  readonly children: Tree[];
  urgency: number;
  below: number;
  isFound: boolean;
}

function isFoundIn(
  { id, directive, status, now = '', reason = '' }: ListedRun,
  find: string,
): boolean {
  return [id, directive, status, now, reason].some((text) => text.toLowerCase().includes(find));
}

/** Builds trees. A row without a listed parent, or in a cycle of parents, is a root. */
function treesOf(rows: ReadonlyMap<string, ListedRun>, { hooks, find }: LineOptions): Tree[] {
  const needle = find.trim().toLowerCase();
  const trees = new Map<string, Tree>();
  for (const row of rows.values()) {
    if (row.kind === 'hook' && !hooks) continue;
    const isFound = needle === '' || isFoundIn(row, needle);
    trees.set(row.id, { row, children: [], urgency: urgency(row), below: 0, isFound });
  }
  const roots: Tree[] = [];
  for (const tree of trees.values()) {
    const parent = shownParent(tree.row, rows, trees);
    (parent ? parent.children : roots).push(tree);
  }
  return roots;
}

function shownParent(
  row: ListedRun,
  rows: ReadonlyMap<string, ListedRun>,
  trees: ReadonlyMap<string, Tree>,
): Tree | undefined {
  let parent: Tree | undefined;
  let at: ListedRun | undefined = row;
  const visited = new Set<string>();
  while (at?.parent !== undefined) {
    if (visited.has(at.id)) return undefined;
    visited.add(at.id);
    parent ??= trees.get(at.parent);
    at = rows.get(at.parent);
  }
  return parent;
}

/** Sums from the leaves up: a tree includes its descendants. */
function sumUp(tree: Tree): void {
  for (const child of tree.children) {
    sumUp(child);
    tree.urgency = Math.min(tree.urgency, child.urgency);
    tree.below += 1 + child.below;
    tree.isFound ||= child.isFound;
  }
  tree.children.sort((a, b) => a.row.created - b.row.created);
}

export function threadLines(
  rows: ReadonlyMap<string, ListedRun>,
  options: LineOptions,
): readonly ThreadLine[] {
  const roots = treesOf(rows, options);
  for (const root of roots) sumUp(root);
  return THREAD_GROUPS.flatMap((group, number): readonly ThreadLine[] => {
    const trees = roots
      .filter((tree) => tree.urgency === number && tree.isFound)
      .sort((a, b) => b.row.created - a.row.created);
    if (trees.length === 0) return [];
    const lines: ThreadLine[] = [];
    for (const tree of trees) put(tree, 0);
    const threads = trees.reduce((sum, { below }) => sum + 1 + below, 0);
    return [{ kind: 'group', group, threads }, ...lines];

    function put({ row, children, below, urgency: own }: Tree, depth: number): void {
      const isFolded = below > 0 && (own === 2) !== options.turned.has(row.id);
      lines.push({ kind: 'thread', id: row.id, group, depth, below, isFolded });
      if (!isFolded) for (const child of children) put(child, depth + 1);
    }
  });
}

const idOf = (line: ThreadLine): string => (line.kind === 'thread' ? line.id : line.group);

/** Keeps `current`, adds lines of `fresh` below its last thread, and counts new or moved lines. */
export function holdLines(
  current: readonly ThreadLine[],
  fresh: readonly ThreadLine[],
): { readonly lines: readonly ThreadLine[]; readonly news: number } {
  const places = new Map(current.map((line) => [idOf(line), line]));
  const last = current.at(-1);
  const end = last ? fresh.findIndex((line) => idOf(line) === idOf(last)) : -1;
  const below = end === -1 ? [] : fresh.slice(end + 1).filter((line) => !places.has(idOf(line)));
  const added = new Set(below);
  const groups = new Map<string, ThreadLine>();
  for (const line of fresh) if (line.kind === 'group') groups.set(line.group, line);
  const news = fresh.filter((line) => {
    if (line.kind === 'group' || added.has(line)) return false;
    const place = places.get(line.id);
    return place?.kind !== 'thread' || place.group !== line.group;
  }).length;
  const lines = current.map((line) =>
    line.kind === 'group' ? (groups.get(line.group) ?? { ...line, threads: 0 }) : line,
  );
  return { lines: [...lines, ...below], news };
}
