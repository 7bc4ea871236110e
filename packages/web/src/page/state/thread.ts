// State of one thread: its view, and its events in one array by seq, without gaps or duplicates.
// The newest events are read first, older ones after them. New events from the stream are appended,
// and a gap is read.
import { eventFlags } from '@kernmantle/core/journal';
import { batch, signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import type {
  EventPage,
  ListedApproval,
  ListedRun,
  SlimEvent,
  StreamFrame,
  ThreadView,
} from '../../model/api.ts';
import { endsReplyText } from '../../model/fold-thread.ts';
import { get, type PageFault } from '../api.ts';
import { listen } from '../connection.ts';
import { onApprovals, useApprovals } from './approvals.ts';
import { createSnapshot } from './snapshot.ts';
import { onRows, useTotals } from './threads.ts';

export interface FollowedThread {
  readonly view?: ThreadView;
  /** Events in the order of `seq`, without gaps. The first ones can be missing: see `isWhole`. */
  readonly events: readonly SlimEvent[];
  /** Text of the current reply. Empty: no reply, or another process runs the thread. */
  readonly text: string;
  readonly isWhole: boolean;
  readonly isLoading: boolean;
  readonly error?: PageFault;
  again(): void;
  /** Reads more of the start of a very long thread. */
  loadBefore(): void;
}

const PAGE = 500;
/** Number of events that are read before the user asks for more. */
const BY_ITSELF = 10_000;
const TEXT_KEPT = 64 * 1024;
/** Rights and actions change with events, so the view is read again, but not for every event. */
const VIEW_MS = 700;

/** Appends or prepends adjacent events. Existing events do not change. */
function joinEvents(
  events: readonly SlimEvent[],
  more: readonly SlimEvent[],
): { readonly events: readonly SlimEvent[]; readonly hasGap: boolean } {
  const [first, last] = [events[0]?.seq, events.at(-1)?.seq];
  const [from, to] = [more[0]?.seq, more.at(-1)?.seq];
  if (from === undefined || to === undefined) return { events, hasGap: false };
  if (first === undefined || last === undefined) return { events: more, hasGap: false };
  if (from > last + 1 || to < first - 1) return { events, hasGap: true };
  const before = more.filter(({ seq }) => seq < first);
  const after = more.filter(({ seq }) => seq > last);
  if (before.length + after.length === 0) return { events, hasGap: false };
  return { events: [...before, ...events, ...after], hasGap: false };
}

function createSignals() {
  return {
    view: signal<ThreadView | undefined>(undefined),
    events: signal<readonly SlimEvent[]>([]),
    text: signal(''),
    fault: signal<PageFault | undefined>(undefined),
    isLoading: signal(true),
  };
}
type ThreadSignals = ReturnType<typeof createSignals>;

/** Reads the journal of a thread into its signals: `on` reads later events, `back` earlier ones. */
function createJournalReader(path: string, { events, fault }: ThreadSignals, stop: AbortSignal) {
  const read = (rest: string) => get<EventPage>(`${path}/events?${rest}&limit=${PAGE}`, stop);
  let isReadingOn = false;
  let isReadingBack = false;

  function add(more: readonly SlimEvent[]): void {
    const joined = joinEvents(events.peek(), more);
    events.value = joined.events;
    if (joined.hasGap) void on();
  }

  /** Reads all events after the last one, page by page. Without any event it reads the newest page. */
  async function on(): Promise<void> {
    if (isReadingOn) return;
    isReadingOn = true;
    for (let isMore = true; isMore && !stop.aborted; ) {
      const last = events.peek().at(-1)?.seq;
      const answer = await read(last === undefined ? '' : `after=${last}`);
      if (stop.aborted) break;
      if (answer.ok) add(answer.output.events);
      else fault.value = answer.error;
      isMore = answer.ok && last !== undefined && answer.output.events.length === PAGE;
    }
    isReadingOn = false;
  }

  async function back(most: number): Promise<void> {
    if (isReadingBack) return;
    isReadingBack = true;
    for (let count = 0; count < most; count += PAGE) {
      const first = events.peek()[0]?.seq ?? 1;
      if (first <= 1) break;
      const answer = await read(`before=${first}`);
      if (!answer.ok || stop.aborted || answer.output.events.length === 0) break;
      add(answer.output.events);
    }
    isReadingBack = false;
  }

  return { add, on, back };
}

/** Replaces the rows of the thread and of its children in the view. */
function withRows(before: ThreadView, id: string, rows: readonly ListedRun[]): ThreadView {
  const own = rows.find((row) => row.id === id);
  const below = rows.filter((row) => row.parent === id);
  if (!own && below.length === 0) return before;
  const children = new Map(before.children.map((row) => [row.id, row]));
  for (const row of below) children.set(row.id, row);
  return { ...before, thread: own ?? before.thread, children: [...children.values()] };
}

function createThreadState(id: string) {
  const path = `threads/${encodeURIComponent(id)}`;
  const signals = createSignals();
  const { view, text, fault, isLoading } = signals;
  const stop = new AbortController();
  const journal = createJournalReader(path, signals, stop.signal);
  const ends: (() => void)[] = [];
  const snapshot = createSnapshot(takeRows);
  let viewTimer: ReturnType<typeof setTimeout> | undefined;

  async function readView(): Promise<string | undefined> {
    let position: string | undefined;
    await snapshot.read(
      () => get<ThreadView>(path, stop.signal),
      (answer) => {
        if (stop.signal.aborted) return;
        batch(() => {
          isLoading.value = false;
          fault.value = answer.ok ? undefined : answer.error;
          if (answer.ok) view.value = answer.output;
        });
        position = answer.ok ? answer.output.position : undefined;
      },
    );
    return position;
  }

  function viewSoon(): void {
    viewTimer ??= setTimeout(() => {
      viewTimer = undefined;
      if (snapshot.isReading()) viewSoon();
      else void readView();
    }, VIEW_MS);
  }

  function take(frame: Exclude<StreamFrame, { kind: 'reset' }>): void {
    if (frame.kind === 'text') {
      if (frame.thread === id) text.value = `${text.peek()}${frame.text}`.slice(-TEXT_KEPT);
      return;
    }
    for (const part of frame.events ?? []) {
      if (part.thread !== id) continue;
      journal.add(part.events);
      if (part.events.some(({ type }) => endsReplyText(type))) text.value = '';
      if (part.events.some(({ type }) => !eventFlags(type).isDetail)) viewSoon();
    }
  }

  function takeRows(rows: readonly ListedRun[]): void {
    const before = view.peek();
    if (!before) return;
    view.value = withRows(before, id, rows);
    if (view.peek()?.thread.status !== before.thread.status) viewSoon();
  }

  function takeApprovals(approvals: readonly ListedApproval[]): void {
    const below = view.peek()?.children ?? [];
    const isOurs = ({ thread }: ListedApproval): boolean =>
      thread === id || below.some((row) => row.id === thread);
    if (approvals.some(isOurs)) viewSoon();
  }

  async function begin(): Promise<void> {
    const position = await readView();
    if (position === undefined || stop.signal.aborted) return;
    // The position is older than these events: no gap, and duplicates are dropped.
    await journal.on();
    if (stop.signal.aborted) return;
    const reset = (): void => {
      void journal.on();
      viewSoon();
    };
    ends.push(listen(`thread:${id}`, position, { take, reset }));
    await journal.back(BY_ITSELF);
  }

  return {
    ...signals,
    open(): void {
      ends.push(onRows(snapshot.take), onApprovals(takeApprovals));
      void begin();
    },
    again(): void {
      if (ends.length < 3) void begin();
      else void Promise.all([readView(), journal.on()]);
    },
    loadBefore: () => void journal.back(PAGE),
    close(): void {
      stop.abort();
      clearTimeout(viewTimer);
      for (const end of ends) end();
    },
  };
}

/** Follows a thread while the view is mounted. */
export function useThread(id: string): FollowedThread {
  useTotals();
  useApprovals();
  const state = useMemo(() => createThreadState(id), [id]);
  useEffect(() => {
    state.open();
    return state.close;
  }, [state]);
  const [view, error] = [state.view.value, state.fault.value];
  const events = state.events.value;
  return {
    ...(view === undefined ? {} : { view }),
    ...(error === undefined ? {} : { error }),
    events,
    text: state.text.value,
    isWhole: (events[0]?.seq ?? 1) <= 1,
    isLoading: state.isLoading.value,
    again: state.again,
    loadBefore: state.loadBefore,
  };
}
