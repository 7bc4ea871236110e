// Visible rows of the timeline: folded from the events as they arrive, with closed or open turns, a
// filter, and the rows of opened children below their child.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { SlimEvent } from '../../model/api.ts';
import { createThreadFold, type FoldedThread, type ThreadFold } from '../../model/fold-thread.ts';
import { FILTERS, isRefused, type RowFilter } from '../../model/thread-sums.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';

/** Turns start closed in a thread with more rows than this. */
export const MANY_ROWS = 2_000;

/** Old rows stay visible while the start of a long thread is read page by page. */
const SETTLES_MS = 250;

/** Adds new events at the end immediately, and earlier ones when no more arrive. */
export function useSettled(events: readonly SlimEvent[]): readonly SlimEvent[] {
  const current = useRef(events);
  const [, draw] = useState(0);
  const first = events[0]?.seq;
  const isEarlier = current.current.length > 0 && current.current[0]?.seq !== first;
  useEffect(() => {
    if (!isEarlier) return undefined;
    const timer = setTimeout(() => {
      current.current = events;
      draw((count) => count + 1);
    }, SETTLES_MS);
    return () => clearTimeout(timer);
  }, [events, isEarlier]);
  if (!isEarlier) current.current = events;
  return current.current;
}

/** Folds only new events. Events before the first one restart the fold. */
export function useFold(events: readonly SlimEvent[]): FoldedThread {
  const cache = useRef<{ fold: ThreadFold; first: number; count: number } | undefined>(undefined);
  return useMemo(() => {
    const first = events[0]?.seq ?? 0;
    const isSame = cache.current?.first === first && events.length >= cache.current.count;
    const fold = isSame && cache.current ? cache.current.fold : createThreadFold();
    fold.add(events, isSame && cache.current ? cache.current.count : 0);
    cache.current = { fold, first, count: events.length };
    return fold.read();
  }, [events]);
}

/** A row of the timeline. `live` is the reply that the model is writing. */
export type ShownRow =
  | {
      readonly kind: 'row';
      readonly row: TimelineEntry;
      readonly thread: string;
      readonly depth: number;
      /** True for an open turn or child. */
      readonly isOpen: boolean;
      /** Only for a closed turn: refusals inside it. */
      readonly inside?: string;
    }
  | {
      readonly kind: 'live';
      readonly thread: string;
      readonly depth: number;
      readonly text: string;
    };

export interface OpenedChild {
  readonly folded: FoldedThread;
  readonly text: string;
}

interface RowOptions {
  readonly filter: RowFilter | undefined;
  /** Seqs of turns that the user toggled. */
  readonly turned: ReadonlySet<number>;
  readonly areClosed: boolean;
  readonly children: ReadonlyMap<string, OpenedChild>;
}

/** Returns the visible rows. With a filter every turn is open, and a turn without a matching row is left out. */
export function shownRows(
  rows: readonly TimelineEntry[],
  thread: string,
  options: RowOptions,
  depth = 0,
): ShownRow[] {
  const { filter, turned, areClosed, children } = options;
  const fits = filter && FILTERS[filter];
  const result: ShownRow[] = [];
  let isOpen = true;
  let head: (ShownRow & { kind: 'row' }) | undefined;
  let refused = 0;
  /** A closed turn shows the number of refusals in it. */
  const close = (): void => {
    const at = head && !isOpen && refused > 0 ? result.lastIndexOf(head) : -1;
    if (at >= 0 && head) result[at] = { ...head, inside: `${refused} denied` };
    refused = 0;
  };
  for (const row of rows) {
    if (row.kind === 'turn') {
      close();
      isOpen = fits !== undefined || depth > 0 || areClosed === turned.has(row.seq);
      head = { kind: 'row', row, thread, depth, isOpen };
      if (!fits) result.push(head);
      continue;
    }
    if (isRefused(row)) refused += 1;
    if (!isOpen || (fits && !fits(row))) continue;
    if (fits && head) {
      result.push(head);
      head = undefined;
    }
    const isStep = row.turn > 0 ? 1 : 0;
    const child = row.thread === undefined ? undefined : children.get(row.thread);
    result.push({ kind: 'row', row, thread, depth: depth + isStep, isOpen: child !== undefined });
    if (!child || row.thread === undefined) continue;
    result.push(...shownRows(child.folded.rows, row.thread, options, depth + 2));
    if (child.text !== '') {
      result.push({ kind: 'live', thread: row.thread, depth: depth + 3, text: child.text });
    }
  }
  close();
  return result;
}

/** Index of the row that starts with an event or contains it, or -1. */
export function rowOfEvent(rows: readonly ShownRow[], thread: string, seq: number): number {
  let best = -1;
  for (const [index, entry] of rows.entries()) {
    if (entry.kind === 'live' || entry.thread !== thread) continue;
    const { row } = entry;
    if (row.seq === seq && row.kind !== 'turn') return index;
    if (row.seq === seq || row.result === seq || row.denials.includes(seq)) best = index;
  }
  return best;
}
