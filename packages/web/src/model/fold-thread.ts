// Folds the events of a thread into the rows of its timeline. One pass, in order: a later event
// changes existing rows, so any split of the events gives the same result. If an older journal
// lacks something (no `turn_end`, a denial without its call, an unreadable event), a row is less
// precise, but never missing.
import { eventFlags } from '@kernmantle/core/journal';
import type { SlimEvent } from './api.ts';
import {
  mergeLabels,
  type RowChange,
  refusalWords,
  replySums,
  rowFrom,
  type TimelineEntry,
} from './timeline-entry.ts';

export interface FoldedThread {
  /** Rows in the order of their first events. A changed row is a new object. */
  readonly rows: readonly TimelineEntry[];
  readonly events: number;
  readonly unreadable: number;
  readonly first: number;
  readonly last: number;
  readonly started?: number;
  readonly ended?: number;
}

/** True for an event after which the streamed text of the current reply is complete. */
export const endsReplyText = (type: string): boolean =>
  type === 'thread_end' || ['begins', 'replies', 'ends'].includes(eventFlags(type).turn ?? '');

/** State of the fold. Rows are mutable until they are read. */
interface Folding {
  readonly rows: TimelineEntry[];
  /** Indexes of rows that a later event can change: by call, child, hook and approval. */
  readonly calls: Map<string, number>;
  readonly children: Map<string, number>;
  readonly hooks: Map<string, number>;
  readonly asked: Map<string, number>;
  readonly open: Set<number>;
  recent: number[];
  /** The row of the current turn. */
  turn: number;
  /** Rows of the last failure of this turn and of the retried one; -1 for none. */
  failure: number;
  tried: number;
  /** Reason of the last failure of this turn; '' for none. */
  reason: string;
  readonly seen: { events: number; unreadable: number; first: number; last: number };
  readonly span: { started?: number; ended?: number };
}

const push = (fold: Folding, row: TimelineEntry): number => fold.rows.push(row) - 1;
function change(fold: Folding, at: number | undefined, changes: RowChange): void {
  const row = at === undefined ? undefined : fold.rows[at];
  if (at !== undefined && row) fold.rows[at] = { ...row, ...changes };
}
const rowAt = (fold: Folding, at: number | undefined) =>
  at === undefined ? undefined : fold.rows[at];
const reach = (fold: Folding, ts: number): void =>
  change(fold, rowAt(fold, fold.turn) ? fold.turn : undefined, { until: ts });

function beginTurn(fold: Folding, event: SlimEvent): void {
  const now = rowAt(fold, fold.turn);
  // A retry of the same request belongs to the same turn.
  if (now?.turn === event.turn && now.end === undefined) return;
  // An open turn ends when the next one begins, even if its reply was interrupted.
  if (now?.state === 'open') change(fold, fold.turn, { state: 'done', end: now.until ?? event.ts });
  fold.recent = [];
  fold.failure = fold.tried = -1;
  fold.reason = '';
  fold.turn = push(fold, {
    ...rowFrom(event, 'turn', 'open'),
    name: `Turn ${event.turn}`,
    text: '',
    ...(event.model !== undefined && { model: event.model }),
  });
}

/** Adds a row for the turn if the journal has no `turn_start` for it, or its first events are missing. */
function needTurn(fold: Folding, event: SlimEvent): void {
  if (event.turn > 0 && rowAt(fold, fold.turn)?.turn !== event.turn) beginTurn(fold, event);
}

function reply(fold: Folding, event: SlimEvent): void {
  if (event.usage === undefined && event.spend === undefined) return;
  needTurn(fold, event);
  const now = rowAt(fold, fold.turn);
  if (!now) return;
  const { usage, spend } = replySums(now, event);
  change(fold, fold.turn, {
    state: 'done',
    end: event.ts,
    until: Math.max(event.ts, now.until ?? 0),
    labels: mergeLabels(now.labels, event.labels),
    text: event.preview ?? now.text,
    result: event.seq,
    ...(usage && { usage }),
    ...(spend !== undefined && { spend }),
    ...(event.model !== undefined && { model: event.model }),
    ...(event.stop === 'refusal' && { state: 'failed' as const, why: 'the model refused' }),
  });
}

function beginCall(fold: Folding, event: SlimEvent): void {
  needTurn(fold, event);
  const id = event.call_id ?? `#${event.seq}`;
  const again = fold.calls.get(id);
  const before = rowAt(fold, again);
  // A hook or another process can repeat a call under the same id.
  if (again !== undefined && before && before.turn === event.turn) {
    change(fold, again, { state: 'open' });
    fold.open.add(again);
    fold.recent.push(again);
    return;
  }
  const at = push(fold, rowFrom(event, event.thread === undefined ? 'call' : 'child', 'open'));
  fold.calls.set(id, at);
  fold.open.add(at);
  fold.recent.push(at);
  if (event.thread !== undefined) fold.children.set(event.thread, at);
}

/** Finds the last call of the turn without a result that fits. */
function lastOpen(fold: Folding, fits: (row: TimelineEntry) => boolean): number | undefined {
  while (fold.recent.length > 0 && !fold.open.has(fold.recent.at(-1) ?? -1)) fold.recent.pop();
  return fold.recent.findLast((at) => {
    const row = fold.open.has(at) ? fold.rows[at] : undefined;
    return row !== undefined && fits(row);
  });
}

/** Finds the refused call. If the journal does not name it, the order decides. */
function refusedCall(
  fold: Folding,
  { call_id, tool, turn: number }: SlimEvent,
): number | undefined {
  if (call_id !== undefined) return fold.calls.get(call_id);
  return lastOpen(fold, (row) => row.turn === number && (tool === undefined || row.name === tool));
}

function denied(fold: Folding, event: SlimEvent): void {
  const at = refusedCall(fold, event);
  const row = rowAt(fold, at);
  const why = refusalWords(event);
  if (at === undefined || !row) {
    needTurn(fold, event);
    const own = rowFrom(event, 'call', 'denied');
    const text = event.preview ?? event.text ?? '';
    const name = event.tool ?? 'denied';
    const index = push(fold, { ...own, name, text, why, end: event.ts, denials: [event.seq] });
    if (event.call_id !== undefined) fold.calls.set(event.call_id, index);
    return;
  }
  fold.open.delete(at);
  change(fold, at, {
    state: 'denied',
    why: why || row.why,
    end: event.ts,
    denials: [...row.denials, event.seq],
    labels: mergeLabels(row.labels, event.labels),
    ...(row.target === undefined && event.target !== undefined && { target: event.target }),
  });
  reach(fold, event.ts);
}

function outcomeOf(event: SlimEvent, row: TimelineEntry): RowChange {
  if (event.is_error !== true) return { state: 'done', why: '' };
  if (event.code === 'outcome_unknown') return { state: 'unknown', why: 'outcome unknown' };
  if (event.code === 'permission_denied' || (row.state === 'denied' && row.denials.length > 0)) {
    return { state: 'denied', why: row.why || refusalWords(event) };
  }
  return { state: 'failed', why: event.code ?? event.reason ?? 'failed' };
}

function result(fold: Folding, event: SlimEvent): void {
  const at = event.call_id === undefined ? undefined : fold.calls.get(event.call_id);
  const row = rowAt(fold, at);
  if (at === undefined || !row) {
    // A journal can have a result without its call. Only a failure gets a row.
    if (event.is_error === true) {
      const own = rowFrom(event, 'call', 'failed');
      push(fold, { ...own, ...outcomeOf(event, own), end: event.ts, result: event.seq });
    }
    return;
  }
  fold.open.delete(at);
  const stillRuns = row.kind === 'child' && row.status === undefined && event.is_error !== true;
  const isStarted = row.kind === 'child' && fold.children.get(row.thread ?? '') === at;
  change(fold, at, {
    labels: mergeLabels(row.labels, event.labels),
    result: event.seq,
    ...(event.wrote !== undefined && { wrote: event.wrote }),
    ...(stillRuns && isStarted
      ? {}
      : {
          ...(row.kind === 'child' && row.status !== undefined ? {} : outcomeOf(event, row)),
          end: row.state === 'denied' || row.kind === 'child' ? (row.end ?? event.ts) : event.ts,
        }),
  });
  reach(fold, event.ts);
  answered(fold);
}

/** Ends the wait of all rows, because the thread has resumed. */
function answered(fold: Folding): void {
  for (const at of fold.asked.values()) change(fold, at, { state: 'plain' });
  fold.asked.clear();
}

function spawned(fold: Folding, event: SlimEvent): void {
  const id = event.thread ?? '';
  const at = fold.children.get(id) ?? startedBy(fold, event);
  if (at === undefined) {
    needTurn(fold, event);
    fold.children.set(id, push(fold, rowFrom(event, 'child', 'open')));
    return;
  }
  fold.children.set(id, at);
  const name = event.directive ?? rowAt(fold, at)?.name ?? event.type;
  change(fold, at, { kind: 'child', name, ...(event.thread !== undefined && { thread: id }) });
}

/** Finds a call with the directive as target, if the journal does not name the call. */
function startedBy(fold: Folding, event: SlimEvent): number | undefined {
  const { directive } = event;
  if (directive === undefined) return undefined;
  return lastOpen(fold, (row) => row.kind === 'call' && row.target === directive);
}

function childEnded(fold: Folding, event: SlimEvent): void {
  const at = fold.children.get(event.thread ?? '');
  const row = rowAt(fold, at);
  const status = event.status ?? 'ended';
  const isGood = status === 'completed';
  const ended = { status, end: event.ts, why: isGood ? '' : status };
  const state = isGood ? ('done' as const) : ('failed' as const);
  const money = event.spend === undefined ? {} : { spend: event.spend };
  if (at === undefined || !row) {
    push(fold, { ...rowFrom(event, 'child', state), ...ended, ...money });
    return;
  }
  change(fold, at, { ...ended, ...money, state });
  reach(fold, event.ts);
}

const hookKey = (event: SlimEvent) => event.thread ?? event.directive ?? '';
function closeHookRow(fold: Folding, event: SlimEvent): void {
  const at = fold.hooks.get(hookKey(event)) ?? fold.hooks.get(event.directive ?? '');
  const row = rowAt(fold, at);
  fold.hooks.delete(hookKey(event));
  const end = event.ts;
  const outcome = { state: 'done' as const, end, text: event.decision_text ?? '' };
  const also = {
    ...(event.took_ms !== undefined && { took_ms: event.took_ms }),
    ...(event.decision !== undefined && { why: event.decision }),
    ...(event.spend !== undefined && { spend: event.spend }),
  };
  if (row) change(fold, at, { ...outcome, ...also, result: event.seq });
  else {
    const start = end - (event.took_ms ?? 0);
    push(fold, { ...rowFrom(event, 'hook', 'done'), ...outcome, ...also, start });
  }
  reach(fold, end);
}

function approval(fold: Folding, event: SlimEvent): void {
  const id = event.approval ?? '';
  const at =
    (event.call_id === undefined ? undefined : fold.calls.get(event.call_id)) ?? fold.asked.get(id);
  if (event.state === 'pending') {
    if (at === undefined) fold.asked.set(id, push(fold, rowFrom(event, 'note', 'waits')));
    else change(fold, at, { state: 'waits', why: 'waits for you', approval: id });
    return;
  }
  const row = rowAt(fold, at);
  fold.asked.delete(id);
  if (row?.kind === 'note')
    change(fold, at, { state: 'plain', end: event.ts, why: event.state ?? '' });
  if (row?.state !== 'waits' || row.kind === 'note') return;
  if (event.state === 'denied' || event.state === 'expired') {
    const why = event.state === 'denied' ? `by ${event.by ?? 'a person'}` : 'expired';
    change(fold, at, { state: 'denied', why, end: event.ts });
  } else change(fold, at, { state: 'open', why: '' });
}

function note(fold: Folding, event: SlimEvent): void {
  if (!eventFlags(event.type).hasRow || (event.text === undefined && event.type !== 'snapshot'))
    return;
  const isBad = event.tone === 'bad' || event.type === 'error' || event.type === 'limit';
  const own = rowFrom(event, 'note', isBad ? 'failed' : 'plain');
  push(fold, { ...own, name: event.type, text: event.text ?? event.preview ?? event.reason ?? '' });
}

/** Failed attempts of one request with the same text share one row. */
function failed(fold: Folding, event: SlimEvent): void {
  const row = rowAt(fold, fold.tried);
  if (row?.turn === event.turn && row.text === event.text) {
    const tries = (row.tries ?? 1) + 1;
    change(fold, fold.tried, { tries, why: `tried ${tries} times` });
    fold.failure = fold.tried;
  } else {
    const next = fold.rows.length;
    note(fold, event);
    fold.failure = fold.rows.length > next ? next : -1;
  }
  fold.tried = -1;
  fold.reason = event.reason ?? '';
}

/** Marks the row of a failure as retried. The retry has no row of its own. */
function triedAgain(fold: Folding, event: SlimEvent): void {
  const row = rowAt(fold, fold.failure);
  if (event.state !== 'try' || row?.turn !== event.turn) return note(fold, event);
  fold.tried = fold.failure;
  change(fold, fold.failure, { why: 'tried again' });
}

function threadEnded(fold: Folding, event: SlimEvent): void {
  fold.span.ended = event.ts;
  for (const at of fold.open) change(fold, at, { state: 'unknown', why: 'no result' });
  fold.open.clear();
  const last = rowAt(fold, fold.turn);
  if (last?.state === 'open') change(fold, fold.turn, { state: 'done', end: last.end ?? event.ts });
  answered(fold);
  // The failure before it already has this reason, and is the row to inspect.
  if (fold.reason === '' || fold.reason !== event.reason) return note(fold, event);
  push(fold, { ...rowFrom(event, 'note', 'plain'), name: event.type, text: event.status ?? '' });
}

const TAKES: Readonly<Record<string, (fold: Folding, event: SlimEvent) => void>> = {
  turn_start(fold, event) {
    answered(fold);
    delete fold.span.ended;
    beginTurn(fold, event);
  },
  assistant_message: reply,
  tool_call: beginCall,
  permission_denied: denied,
  tool_result: result,
  spawn: spawned,
  child_end: childEnded,
  hook_start(fold, event) {
    needTurn(fold, event);
    fold.hooks.set(
      hookKey(event),
      push(fold, { ...rowFrom(event, 'hook', 'open'), text: event.event ?? '' }),
    );
  },
  hook: closeHookRow,
  approval,
  error: failed,
  stream_error: failed,
  retry: triedAgain,
  thread_end: threadEnded,
};

function takeEvent(fold: Folding, event: SlimEvent): void {
  const { seen: totals, span } = fold;
  if (totals.events === 0) totals.first = event.seq;
  totals.last = event.seq;
  totals.events += 1;
  span.started ??= event.ts;
  if (event.unreadable) {
    totals.unreadable += 1;
    const text = `event ${event.seq} cannot be read`;
    push(fold, { ...rowFrom(event, 'note', 'failed'), name: 'unreadable', text });
    return;
  }
  (TAKES[event.type] ?? note)(fold, event);
}

/** Creates a fold. `add` expects events in order. `read` can be called at any time. */
export function createThreadFold() {
  const fold: Folding = {
    rows: [],
    calls: new Map(),
    children: new Map(),
    hooks: new Map(),
    asked: new Map(),
    open: new Set(),
    recent: [],
    turn: -1,
    failure: -1,
    tried: -1,
    reason: '',
    seen: { events: 0, unreadable: 0, first: 0, last: 0 },
    span: {},
  };
  return {
    add(events: readonly SlimEvent[], from = 0): void {
      for (let index = from; index < events.length; index++) {
        const event = events[index];
        // The stream can deliver an event twice.
        if (event && event.seq > fold.seen.last) takeEvent(fold, event);
      }
    },
    read: (): FoldedThread => ({ rows: [...fold.rows], ...fold.seen, ...fold.span }),
  };
}

export type ThreadFold = ReturnType<typeof createThreadFold>;
