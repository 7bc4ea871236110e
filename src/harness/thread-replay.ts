// What happened before, put back in place. The conversation grows from events in one way only, live
// and after a restart; everything else a thread remembers is read back here.
import { getOwn, isObject, type Json, type JsonObject, plainText } from '../base/index.ts';
import { type Block, tokenRatio, type Usage } from '../llm/index.ts';
import type { NewEvent, StoredEvent } from '../store/index.ts';
import { type Bounds, stepDone } from './action.ts';
import { unpackMarks } from './conversation.ts';
import { unpackLimits } from './effective-limits.ts';
import { LIMIT_NAMES, markKey, type WarningEvent } from './limit.ts';
import { withoutTime } from './prompt.ts';
import { standing } from './rewind.ts';
import type { ThreadContext } from './thread-context.ts';

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
