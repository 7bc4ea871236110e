// State of lists of threads: one snapshot per filter, and changed rows. New rows that do not match
// the filter are dropped. An existing row that no longer matches stays until the list is read
// again, so that nothing moves under the pointer.
import { computed, signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ListedRun, StreamFrame, ThreadList, Totals } from '../../model/api.ts';
import { get, type PageAnswer, type PageFault } from '../api.ts';
import { listen } from '../connection.ts';
import { createSnapshot } from './snapshot.ts';

export interface ThreadsFilter {
  readonly status?: string;
  readonly directive?: string;
  readonly within?: string;
  readonly since?: string;
  readonly order?: string;
  /** Search text. The server also searches titles, messages, inputs and outputs. */
  readonly q?: string;
  /** The value `yes` includes threads of hooks. */
  readonly hooks?: string;
}

interface ThreadsState {
  readonly rows: ReadonlyMap<string, ListedRun>;
  readonly totals: Totals;
  readonly directives: readonly string[];
  readonly isLoading: boolean;
  readonly error?: PageFault;
  readonly next_cursor?: string;
}

const NONE: Totals = { waits: 0, at_work: 0, ended: 0, due: 0 };
const PAGE = 50;

export const list = signal<ThreadsState>({
  rows: new Map(),
  totals: NONE,
  directives: [],
  isLoading: true,
});
/** Totals of all threads, independent of the filter. */
const totals = computed(() => list.value.totals);

/** Called with every changed row, independent of the filter. */
type RowReader = (rows: readonly ListedRun[]) => void;
const rowReaders = new Set<RowReader>();

/** Subscribes to changed rows, listed or not. Returns the function that ends the subscription. */
export function onRows(reader: RowReader): () => void {
  rowReaders.add(reader);
  return () => void rowReaders.delete(reader);
}

let filter: ThreadsFilter = {};
let isListening = false;
const snapshot = createSnapshot(takeFrame);

function wordsOf(query: ThreadsFilter): [string, string][] {
  const words: [string, string][] = [];
  for (const [name, value] of Object.entries(query)) if (value) words.push([name, String(value)]);
  return words;
}

function pathFor(query: ThreadsFilter, cursor?: string): string {
  const words = new URLSearchParams([...wordsOf(query), ['limit', String(PAGE)]]);
  if (cursor !== undefined) words.set('cursor', cursor);
  return `threads?${words.toString()}`;
}

async function load(isNew: boolean): Promise<void> {
  const cursor = isNew ? undefined : list.peek().next_cursor;
  list.value = { ...list.peek(), isLoading: true };
  const path = pathFor(filter, cursor);
  await snapshot.read(
    (signal) => get<ThreadList>(path, signal),
    (answer) => show(answer, isNew),
  );
}

function show(answer: PageAnswer<ThreadList>, isNew: boolean): void {
  const { error: _error, next_cursor: _cursor, ...before } = list.peek();
  if (!answer.ok) {
    list.value = { ...before, isLoading: false, error: answer.error };
    return;
  }
  const { rows, totals: counted, directives, next_cursor, position } = answer.output;
  const previous = isNew ? [] : before.rows;
  list.value = {
    rows: new Map([...previous, ...rows.map((row) => [row.id, row] as const)]),
    totals: counted,
    directives,
    isLoading: false,
    ...(next_cursor === undefined ? {} : { next_cursor }),
  };
  if (isListening) return;
  isListening = true;
  listen('threads', position, { take: snapshot.take, reset: () => void load(true) });
}

/** Checks the filter. A listed row always passes, because only the server can decide fully. */
function fits(row: ListedRun, rows: ReadonlyMap<string, ListedRun>): boolean {
  const { status, directive, within, since, q = '', hooks } = filter;
  if (rows.has(row.id)) return true;
  if (row.kind === 'hook' && hooks !== 'yes') return false;
  if (!`${row.id} ${row.directive}`.toLowerCase().includes(q.toLowerCase())) return false;
  if (status !== undefined && status !== '' && !status.split(',').includes(row.status))
    return false;
  if (directive !== undefined && directive !== '' && row.directive !== directive) return false;
  if (since !== undefined && since !== '' && row.created < Number(since)) return false;
  if (within === undefined || within === '') return true;
  return row.root === within || (row.parent !== undefined && rows.has(row.parent));
}

function takeFrame(frame: Exclude<StreamFrame, { kind: 'reset' }>): void {
  if (frame.kind !== 'batch') return;
  const before = list.peek();
  // A failed read after a reset is repeated here.
  if (before.error && !before.isLoading) void load(true);
  const rows = new Map(before.rows);
  const directives = new Set(before.directives);
  for (const row of frame.threads ?? []) {
    if (fits(row, rows)) rows.set(row.id, row);
    directives.add(row.directive);
  }
  const isSame = directives.size === before.directives.length;
  list.value = {
    ...before,
    rows,
    totals: frame.totals ?? before.totals,
    directives: isSame ? before.directives : [...directives].toSorted(),
  };
  if (frame.threads) for (const reader of rowReaders) reader(frame.threads);
}

/** Loads the next page, if one exists. */
export function loadMore(): void {
  const { isLoading, next_cursor } = list.peek();
  if (!isLoading && next_cursor !== undefined) void load(false);
}

/** Reads the list again, for example after an error. */
export const reloadThreads = (): void => void load(true);

/** Loads the list of threads for a view and keeps it up to date. */
export function useThreads(next: ThreadsFilter): void {
  const key = JSON.stringify(wordsOf(next));
  useEffect(() => {
    const isSame = key === JSON.stringify(wordsOf(filter));
    filter = next;
    if (!isSame) list.value = { ...list.peek(), rows: new Map() };
    if (!isSame || !isListening) void load(true);
  }, [key]);
}

/** Returns the totals. A view without a list reads them once. */
export function useTotals(): Totals {
  useEffect(() => {
    if (!isListening && !snapshot.isReading()) void load(true);
  }, []);
  return totals.value;
}
