// Defines the contents of a registry as plain rows, equal for every kind of store. A copy moves one tree of
// threads at a time. Rows that belong to no thread have the tree ''.
import type { Outcome } from '@kernmantle/core/base';

export type Cell = string | number | bigint | null | Uint8Array;
type CellKind = 'text' | 'int' | 'bytes';
type Columns = Readonly<Record<string, CellKind>>;

const THREADS: Columns = {
  id: 'text',
  parent: 'text',
  root: 'text',
  /** JSON list of ids from the thread to its root. */
  chain: 'text',
  depth: 'int',
  kind: 'text',
  directive: 'text',
  version: 'text',
  runner: 'text',
  tenant: 'text',
  project: 'text',
  items: 'text',
  title: 'text',
  detached: 'int',
  status: 'text',
  seq: 'int',
  epoch: 'int',
  attempt: 'int',
  wakes: 'int',
  acknowledged: 'int',
  queued: 'int',
  priority: 'int',
  created: 'int',
  updated: 'int',
  ended: 'int',
  cost: 'text',
  /** Account with open reservations, as the same JSON as in a file. */
  budget: 'text',
  limits: 'text',
  inputs: 'text',
  result: 'text',
  birth: 'text',
};

const columns = (kinds: Partial<Record<CellKind, string>>, order: string): Columns => {
  const kindOf = (name: string): CellKind =>
    kinds.int?.split(' ').includes(name) ? 'int' : kinds.bytes === name ? 'bytes' : 'text';
  return Object.fromEntries(order.split(' ').map((name) => [name, kindOf(name)]));
};

export const COPIED = {
  threads: THREADS,
  thread_events: columns({ int: 'seq ts turn' }, 'thread seq ts turn type data'),
  search_texts: columns({}, 'thread first last'),
  signals: columns({ int: 'number ts' }, 'thread number kind payload key sender ts'),
  approvals: columns(
    { int: 'uses_left expires asked decided' },
    'id thread kind binding shown state uses_left expires asked decided who channel why answer',
  ),
  approval_uses: columns({ int: 'taken' }, 'approval thread taken'),
  artifact_uses: columns({}, 'thread hash'),
  artifacts: columns({ int: 'created', bytes: 'bytes' }, 'hash bytes created'),
  secrets: columns({ int: 'number', bytes: 'sealed' }, 'thread number sealed'),
  schedules: columns(
    { int: 'next waiting last refused' },
    'id tenant project name body signature next waiting last outcome paused refused stamp',
  ),
  schedule_fires: columns({ int: 'tick at' }, 'schedule tick at outcome reason thread'),
  audit: columns({}, 'time surface caller subject operation decision reason target'),
  memories: columns(
    { int: 'seq created expires' },
    'id tenant project scope owner text subject marks thread seq created expires endorsed_by',
  ),
  /** Accounts of threads that were pruned. */
  pruned: columns({}, 'thread budget'),
} as const satisfies Record<string, Columns>;

export type CopiedTable = keyof typeof COPIED;
export type CopiedRow = readonly Cell[];
export type RowCounts = Readonly<Record<CopiedTable, number>>;

export const COPIED_TABLES = Object.keys(COPIED) as readonly CopiedTable[];
export const columnsOf = (table: CopiedTable): readonly string[] => Object.keys(COPIED[table]);

/** Tree of the rows that belong to no thread. */
export const LOOSE = '';

export interface CopyTree {
  tree: string;
  /** Mark of the state of the tree. It differs after every change. */
  mark: string;
}

/** A registry at one moment. Later changes are not visible. It can throw, and the caller returns a failure. */
export interface CopySource {
  /** Returns the threads that have a lease now. */
  held(): Promise<string[]>;
  /** Returns every project of the threads. */
  projects(): Promise<string[]>;
  trees(): Promise<CopyTree[]>;
  /** Yields pages of rows, in an order in which they can be written. */
  rows(table: CopiedTable, tree: string): AsyncIterable<CopiedRow[]>;
  counts(): Promise<RowCounts>;
  fault(error: unknown): Outcome<never>;
  close(): Promise<void>;
}

/** INVARIANT: the copy is never visible before `finish`, and always complete after it. It can throw. */
export interface CopyTarget {
  /** Returns the mark of each tree that an earlier try staged. */
  staged(): Promise<ReadonlyMap<string, string>>;
  /** Replaces the staged rows of this tree atomically. */
  stage(tree: CopyTree, rows: AsyncIterable<readonly [CopiedTable, CopiedRow[]]>): Promise<void>;
  drop(tree: string): Promise<void>;
  /** Fails without a change if a row already exists or a table has another count. */
  finish(counts: RowCounts): Promise<Outcome<null>>;
  fault(error: unknown): Outcome<never>;
  close(): Promise<void>;
}

/** Returns a text about the first table with another count. */
export function differing(expected: RowCounts, actual: RowCounts): string | undefined {
  const table = COPIED_TABLES.find((name) => expected[name] !== actual[name]);
  return table && `${actual[table]} rows of ${table} arrived, ${expected[table]} were sent`;
}
