// Visible rows of the timeline: folded from the events as they arrive, with closed or open turns, a
// filter, and the rows of opened children below their child.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { SlimEvent } from '../../model/api.ts';
import { createThreadFold, type FoldedThread, type ThreadFold } from '../../model/fold-thread.ts';
import { FILTERS, isRefused, type RowFilter } from '../../model/thread-sums.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';

/** From this many rows on, turns start closed. */
export const MANY_ROWS = 2_000;

/** Old rows stay visible while the start of a long thread is read page by page. */
const SETTLES_MS = 250;

/** Adds new events at the end immediately, and earlier ones when no more arrive. */
export function useSettled(events: readonly SlimEvent[]): readonly SlimEvent[] {
  const shown = useRef(events);
  const [, draw] = useState(0);
  const first = events[0]?.seq;
  const isEarlier = shown.current.length > 0 && shown.current[0]?.seq !== first;
  useEffect(() => {
    if (!isEarlier) return undefined;
    const timer = setTimeout(() => {
      shown.current = events;
      draw((count) => count + 1);
    }, SETTLES_MS);
    return () => clearTimeout(timer);
  }, [events, isEarlier]);
  if (!isEarlier) shown.current = events;
  return shown.current;
}

/** Folds only new events. Events before the first one restart the fold. */
export function useFold(events: readonly SlimEvent[]): FoldedThread {
  const kept = useRef<{ fold: ThreadFold; first: number; count: number } | undefined>(undefined);
  return useMemo(() => {
    const first = events[0]?.seq ?? 0;
    const isSame = kept.current?.first === first && events.length >= kept.current.count;
    const fold = isSame && kept.current ? kept.current.fold : createThreadFold();
    fold.add(events, isSame && kept.current ? kept.current.count : 0);
    kept.current = { fold, first, count: events.length };
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

interface RowWish {
  readonly filter: RowFilter | undefined;
  /** Turns, by their seq, that are not as the rest. */
  readonly turned: ReadonlySet<number>;
  readonly areClosed: boolean;
  readonly children: ReadonlyMap<string, OpenedChild>;
}

/** Turns without a row that fits are left out; with a filter every turn is open. */
export function shownRows(
  rows: readonly TimelineEntry[],
  thread: string,
  wish: RowWish,
  depth = 0,
): ShownRow[] {
  const { filter, turned, areClosed, children } = wish;
  const fits = filter && FILTERS[filter];
  const shown: ShownRow[] = [];
  let isOpen = true;
  let head: (ShownRow & { kind: 'row' }) | undefined;
  let refused = 0;
  /** A closed turn shows the number of refusals in it. */
  const close = (): void => {
    const at = head && !isOpen && refused > 0 ? shown.lastIndexOf(head) : -1;
    if (at >= 0 && head) shown[at] = { ...head, inside: `${refused} denied` };
    refused = 0;
  };
  for (const row of rows) {
    if (row.kind === 'turn') {
      close();
      isOpen = fits !== undefined || depth > 0 || areClosed === turned.has(row.seq);
      head = { kind: 'row', row, thread, depth, isOpen };
      if (!fits) shown.push(head);
      continue;
    }
    if (isRefused(row)) refused += 1;
    if (!isOpen || (fits && !fits(row))) continue;
    if (fits && head) {
      shown.push(head);
      head = undefined;
    }
    const isStep = row.turn > 0 ? 1 : 0;
    const child = row.thread === undefined ? undefined : children.get(row.thread);
    shown.push({ kind: 'row', row, thread, depth: depth + isStep, isOpen: child !== undefined });
    if (!child || row.thread === undefined) continue;
    shown.push(...shownRows(child.folded.rows, row.thread, wish, depth + 2));
    if (child.text !== '') {
      shown.push({ kind: 'live', thread: row.thread, depth: depth + 3, text: child.text });
    }
  }
  close();
  return shown;
}

/** Row of an event: the row that begins with it, names it, or precedes it. */
export function rowOfEvent(rows: readonly ShownRow[], thread: string, seq: number): number {
  let best = -1;
  for (const [index, shown] of rows.entries()) {
    if (shown.kind === 'live' || shown.thread !== thread) continue;
    const { row } = shown;
    if (row.seq === seq && row.kind !== 'turn') return index;
    if (row.seq === seq || row.result === seq || row.denials.includes(seq)) best = index;
  }
  return best;
}
