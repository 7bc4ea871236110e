// Going back to a snapshot. A journal only grows: going back is one more event in it, and what came
// after the snapshot no longer counts for the conversation. What it cost, which limits were raised and
// which hooks have fired stays as it is, and nothing that was done is undone.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import { describe } from '../../flow/index.ts';
import { type Block, tokenRatio, type Usage } from '../../llm/index.ts';
import { isEnded, type NewEvent, type StoredEvent, type ThreadRow } from '../../store/index.ts';
import { type Bounds, stepDone } from '../hooks/action.ts';
import { unpackLimits } from '../limits/effective-limits.ts';
import { LIMIT_NAMES, markKey, type WarningEvent } from '../limits/limit.ts';
import { packMarks, unpackMarks } from './conversation.ts';
import { withoutTime } from './prompt.ts';
import type { ThreadContext } from './thread.ts';

/** The number of a snapshot's event, or the latest one. */
export type SnapshotName = number | 'last';

/** Where a resume went back to. */
const rewoundTo = ({ type, data }: NewEvent): number | undefined =>
  type === 'signal' && data.kind === 'resume' && typeof data.from === 'number'
    ? data.from
    : undefined;

/** The events that count for the conversation: without what was gone back over. */
export function standing<T extends NewEvent & { seq: number }>(history: readonly T[]): T[] {
  let kept: T[] = [];
  for (const event of history) {
    const from = rewoundTo(event);
    if (from !== undefined) kept = kept.filter(({ seq }) => seq <= from);
    kept.push(event);
  }
  return kept;
}

const snapshotsIn = (history: readonly StoredEvent[]): StoredEvent[] =>
  standing(history).filter(({ type }) => type === 'snapshot');

/** The snapshot of this name; what there is instead when it is unknown. */
export function findSnapshot(
  thread: string,
  history: readonly StoredEvent[],
  wanted: SnapshotName,
): Outcome<number> {
  const known = snapshotsIn(history);
  const found = wanted === 'last' ? known.at(-1) : known.find(({ seq }) => seq === wanted);
  if (found) return ok(found.seq);
  const list = known.map(({ seq, data }) => `${seq} (${plainText(data.reason ?? '')})`);
  const there =
    list.length === 0
      ? 'it has none; a model makes one with `help` and the action `checkpoint`'
      : `it has ${list.join(', ')}`;
  return fail('not_found', `thread \`${thread}\` has no snapshot \`${wanted}\`: ${there}`, {
    thread,
    snapshots: known.map(({ seq }) => seq),
  });
}

/** What has ended is opened again, except for a child: its parent has counted on that end. */
export function mayRewind({ id, status, parent, root }: ThreadRow): Outcome<null> {
  if (!isEnded(status) || parent === undefined) return ok(null);
  const message = `thread \`${id}\` has ended (${status}) and its parent was told; go back with its root \`${root}\``;
  return fail('thread_ended', message, { thread: id, status, root });
}

/** The call that made the snapshot; at that point it had no result yet. */
function snapshotCall(kept: readonly StoredEvent[], from: number): string | undefined {
  const before = kept.filter(({ seq }) => seq <= from);
  const call = before.findLast(({ type }) => type === 'tool_call');
  if (!call || call.data.verb !== 'help') return undefined;
  const id = plainText(call.data.call_id);
  const isDone = before.some(
    ({ type, seq, data }) => type === 'tool_result' && seq > call.seq && data.call_id === id,
  );
  return isDone ? undefined : id;
}

const line = (from: number): string =>
  `[harness] this thread went back to snapshot ${from}. What was done after it is not undone: look before you repeat it.`;

export interface RewindWords {
  text: string;
  /** Who says it, for the record. */
  by: string;
}

const FROM_PERSON = packMarks(describe({ taint: ['src:user'] }));

/** What goes into the journal: where it goes back to, and what the model is told about it. */
export function rewindEvents(
  { conversation, world }: ThreadContext,
  history: readonly StoredEvent[],
  from: number,
  words?: RewindWords,
): NewEvent[] {
  const marks = packMarks(conversation.marks());
  const call = snapshotCall(standing(history), from);
  const content: Json = { action: 'checkpoint', snapshot: from };
  return [
    { type: 'signal', data: { kind: 'resume', by: world.owner, from } },
    ...(call === undefined
      ? []
      : [{ type: 'tool_result', data: { call_id: call, content, is_error: false, marks } }]),
    { type: 'injected_message', data: { text: line(from), by: 'harness', marks } },
    ...(words ? [{ type: 'injected_message', data: { ...words, marks: FROM_PERSON } }] : []),
  ];
}

// What happened before, put back in place. The conversation grows from events in one way only, live
// and after a restart; everything else a thread remembers is read back here.

/** Puts one event of the journal into the conversation. */
export function replayEvent(thread: ThreadContext, { type, data }: NewEvent): void {
  const { conversation } = thread;
  if (data.apart === true) return;
  const marks = unpackMarks(data.marks);
  if (type === 'user_message' || type === 'injected_message')
    conversation.user(plainText(data.text), marks);
  else if (type === 'assistant_message') conversation.assistant(data.content as unknown as Block[]);
  else if (type === 'tool_result') {
    conversation.result(
      plainText(data.call_id),
      data.content ?? null,
      marks,
      data.is_error === true,
    );
  }
}

type Restore = (thread: ThreadContext, data: JsonObject) => void;

function firedAgain({ hookState }: ThreadContext, fired: Json | undefined): void {
  if (!Array.isArray(fired)) return;
  hookState.fired.clear();
  for (const index of fired) hookState.fired.add(Number(index));
}

function hookAnswered(thread: ThreadContext, data: JsonObject): void {
  firedAgain(thread, data.fired);
  if (isObject(data.bounds)) thread.bounds = data.bounds as unknown as Bounds;
  if (typeof data.model === 'string') thread.switchModel(data.model);
  if (isObject(data.limits)) {
    const raised = unpackLimits(data.limits);
    thread.raiseLimits(
      raised,
      LIMIT_NAMES.filter((name) => raised[name]?.value !== thread.limits[name]?.value),
    );
  }
}

function modelSaid(thread: ThreadContext, data: JsonObject): void {
  const usage = data.usage as unknown as Usage | undefined;
  const bytes = Number(data.bytes ?? 0);
  if (usage && !usage.estimated && bytes > 0) thread.ratio = tokenRatio(usage, bytes);
}

/** A step that gave a result of its own: what was skipped before is not in a row any more. */
function stepEnded(thread: ThreadContext, { tool, is_error }: JsonObject): void {
  if (typeof tool === 'string' && is_error !== true) thread.bounds = stepDone(thread.bounds, tool);
}

function newAttempt(thread: ThreadContext, { opening }: JsonObject): void {
  // With a changed directive it begins otherwise.
  if (Array.isArray(opening)) {
    thread.opening.splice(0, thread.opening.length, ...(opening as unknown as NewEvent[]));
  }
  thread.conversation.clear();
  for (const event of thread.opening) replayEvent(thread, event);
}

const RESTORE: Readonly<Record<string, Restore>> = {
  signal(thread, { id }) {
    thread.lastSignal = Math.max(thread.lastSignal, Number(id ?? 0));
  },
  hook: hookAnswered,
  hook_state: (thread, { fired }) => firedAgain(thread, fired),
  model_fallback(thread, { to }) {
    thread.triedModels.add(plainText(to));
    thread.switchModel(plainText(to));
  },
  warning: (thread, data) => void thread.warned.add(markKey(data as unknown as WarningEvent)),
  loop_detected(thread, { detail }) {
    if (getOwn(detail, 'progress') !== true) thread.loops += 1;
  },
  injected_message(thread, { reminder }) {
    if (reminder === true) thread.reminders += 1;
  },
  approval: (thread, data) => thread.approved.restore(data),
  assistant_message: modelSaid,
  retry: newAttempt,
  tool_result: stepEnded,
};

/** What the tool itself was given; for the other verbs, the request. */
const argumentsOf = ({ verb, arguments: given = {} }: JsonObject): Json =>
  verb === 'execute' ? (getOwn(given, 'parameters') ?? {}) : given;

/** Loops are found over calls that came to an end; one that is done again is not seen twice. */
function watchLoops(thread: ThreadContext): (event: NewEvent) => void {
  const begun = new Map<string, NewEvent>();
  return (event) => {
    const id = plainText(event.data.call_id);
    if (event.type === 'tool_call') begun.set(id, event);
    const call = event.type === 'tool_result' ? begun.get(id) : undefined;
    if (!call) return;
    begun.delete(id);
    thread.detector.observe({
      id,
      turn: call.turn ?? 0,
      tool: plainText(call.data.tool),
      arguments: argumentsOf(call.data),
      volatile: Array.isArray(call.data.volatile) ? call.data.volatile.map(plainText) : [],
    });
    thread.detector.learned(
      id,
      withoutTime(event.data.content ?? null),
      event.data.is_error === true,
    );
  };
}

/** What a new attempt begins with: everything before the thread was told to start. */
const openingOf = (history: readonly NewEvent[]): readonly NewEvent[] => {
  const start = history.findIndex(({ type }) => type === 'signal');
  return history.slice(1, start < 0 ? undefined : start);
};

/** What stays as it is when the thread goes back to a snapshot. */
const STAYS: ReadonlySet<string> = new Set(
  'signal hook hook_state model_fallback warning approval'.split(' '),
);

/** Everything a thread knew when its last event was written. */
export function rebuild(thread: ThreadContext, history: readonly StoredEvent[]): void {
  thread.opening.push(...openingOf(history));
  const watch = watchLoops(thread);
  const kept = new Set(standing(history));
  for (const event of history) {
    if (kept.has(event)) replayEvent(thread, event);
    else if (!STAYS.has(event.type)) continue;
    RESTORE[event.type]?.(thread, event.data);
    if (kept.has(event)) watch(event);
  }
}
