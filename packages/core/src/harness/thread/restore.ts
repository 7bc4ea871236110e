// Restores a thread from its journal, and goes back to snapshots. A journal only grows: a rewind is one more event,
// and the events after the snapshot no longer count for the conversation. Costs, raised limits and fired hooks stay
// as they are, and no effect is undone.
import { fail, getOwn, type Json, type Outcome, ok } from '../../base/index.ts';
import { COMPACT, LIMIT_NAMES } from '../../flow/index.ts';
import {
  addToConversation,
  type Bounds,
  conversation,
  type DataOf,
  eventFlags,
  eventsInForce,
  type HookStart,
  type JournalEvent,
  type OpenWork,
  openWork,
  ownEvents,
  project,
  type Recorded,
  type RecordedOf,
} from '../../journal/index.ts';
import { tokenRatio } from '../../llm/index.ts';
import { isEnded, type ThreadRow } from '../../store/index.ts';
import { unpackLimits } from '../limits/effective-limits.ts';
import { type EffectiveLimits, markKey } from '../limits/limit.ts';
import { type ModelUser, switchModel } from './choose-model.ts';
import { FROM_USER, packMarks, unpackMarks } from './conversation.ts';
import { changeRoom } from './room.ts';
import { countFailure, startOver, withoutTime } from './talk.ts';
import type { Thread } from './thread.ts';

/** Number of the event that made a snapshot, or `last` for the latest snapshot. */
export type SnapshotName = number | 'last';

/** Records a snapshot and returns its number. */
export async function recordSnapshot(
  { journal }: Pick<Thread, 'journal'>,
  reason: string,
): Promise<Outcome<Json>> {
  const recorded = await journal.commit({ type: 'snapshot', data: { reason } }, {});
  return recorded.ok ? ok({ action: 'checkpoint', snapshot: recorded.output.seq }) : recorded;
}

/** Returns the number of a snapshot. Fails with `not_found` and the list of snapshots if it does not exist. */
export function findSnapshot(
  thread: string,
  history: readonly Recorded[],
  name: SnapshotName,
): Outcome<number> {
  const all = ownEvents(eventsInForce(history)).filter((event) => event.type === 'snapshot');
  const snapshot = name === 'last' ? all.at(-1) : all.find(({ seq }) => seq === name);
  if (snapshot) return ok(snapshot.seq);
  const list = all.map(({ seq, data }) => `${seq} (${data.reason})`);
  const there =
    list.length === 0
      ? 'it has none; a model makes one with `help` and the action `checkpoint`'
      : `it has ${list.join(', ')}`;
  return fail('not_found', `thread \`${thread}\` has no snapshot \`${name}\`: ${there}`, {
    thread,
    snapshots: all.map(({ seq }) => seq),
  });
}

/** Fails with `thread_ended` for an ended child, because its parent has used that end. */
export function mayRewind({ id, status, parent, root }: ThreadRow): Outcome<null> {
  if (!isEnded(status) || parent === undefined) return ok(null);
  const message = `thread \`${id}\` has ended (${status}) and its parent has the result; rewind its root \`${root}\``;
  return fail('thread_ended', message, { thread: id, status, root });
}

/** Returns the call that made the snapshot, if it had no result then. */
export function snapshotCall(inForce: readonly Recorded[], from: number): string | undefined {
  const before = inForce.filter(({ seq }) => seq <= from);
  const call = before.findLast((event) => event.type === 'tool_call');
  if (call?.data.verb !== 'help') return undefined;
  const { call_id } = call.data;
  const isDone = before.some(
    (event) =>
      event.type === 'tool_result' && event.seq > call.seq && event.data.call_id === call_id,
  );
  return isDone ? undefined : call_id;
}

export interface RewindWords {
  text: string;
  by: string;
}

/** Returns the events of a rewind: the signal with the snapshot, and the message for the model. */
export function rewindEvents(
  { talk: { conversation } }: Pick<Thread, 'talk'>,
  history: readonly Recorded[],
  signal: Omit<DataOf<'signal'>, 'kind'> & { from: number },
  words?: RewindWords,
  files: readonly JournalEvent[] = [],
): JournalEvent[] {
  const { from } = signal;
  const marks = packMarks(conversation.marks());
  const call = snapshotCall(eventsInForce(history), from);
  const content: Json = { action: 'checkpoint', snapshot: from };
  const text = `[harness] this thread went back to snapshot ${from}. Effects after it are not undone: check before you repeat one.`;
  const events: JournalEvent[] = [{ type: 'signal', data: { kind: 'resume', ...signal } }];
  if (call !== undefined) {
    events.push({ type: 'tool_result', data: { call_id: call, content, is_error: false, marks } });
  }
  events.push({ type: 'injected_message', data: { text, by: 'harness', marks } }, ...files);
  if (words)
    events.push({ type: 'injected_message', data: { ...words, marks: packMarks(FROM_USER) } });
  return events;
}

export const NO_BOUNDS: Bounds = { retries: 0, skips: {} };

/** Returns the bounds after a step was run, which resets the count of its skips in a row. */
export function stepDone(bounds: Bounds, step: string): Bounds {
  if (!Object.hasOwn(bounds.skips, step)) return bounds;
  const { [step]: _, ...skips } = bounds.skips;
  return { ...bounds, skips };
}

function restoreFired({ hooks }: Pick<Thread, 'hooks'>, fired: readonly number[]): void {
  hooks.fired.clear();
  for (const index of fired) hooks.fired.add(index);
}

/** Adds the marks of a withheld result, which a hook has read even if the model never gets it. */
function learnHeld({ talk }: Pick<Thread, 'talk'>, { held }: Pick<HookStart, 'held'>): void {
  if (held) talk.conversation.learn(unpackMarks(held.marks), false);
}

function hookStarted(thread: Pick<Thread, 'talk' | 'hooks'>, data: HookStart): void {
  learnHeld(thread, data);
  if (data.step !== undefined) restoreFired(thread, data.fired ?? []);
}

function hookDecided(thread: ModelUser & Pick<Thread, 'hooks'>, data: DataOf<'hook'>): void {
  learnHeld(thread, data);
  restoreFired(thread, data.fired);
  thread.hooks.bounds = data.bounds;
  if (data.model !== undefined) switchModel(thread, data.model);
  // The commit of this event also raised the limits in the store.
  if (data.limits) thread.budget.limits = unpackLimits(data.limits);
}

function newAttempt(
  thread: Pick<Thread, 'place' | 'talk'>,
  retry: Extract<DataOf<'retry'>, { attempt: number }>,
): void {
  if (!retry.annealed && retry.inputs) thread.place.inputs = retry.inputs;
  // A changed directive or other inputs have another opening.
  startOver(thread, retry.opening);
}

/** Applies a resume with new limits or another model. `own`: the new limits without the part for hooks. */
function resumedWith(thread: ModelUser, data: DataOf<'signal'>, own: EffectiveLimits): void {
  const { talk, budget } = thread;
  // The thread had stopped at one of these bounds and gets a new try.
  if (data.after !== undefined) [talk.reminders, talk.loops] = [0, 0];
  for (const name of [...LIMIT_NAMES, COMPACT] as const) {
    if (!data.limits || !Object.hasOwn(data.limits, name)) continue;
    budget.limits = { ...budget.limits, [name]: own[name] };
    for (const key of budget.warned) if (key.startsWith(`${name}:`)) budget.warned.delete(key);
  }
  if (data.model === undefined) return;
  talk.triedModels.clear();
  switchModel(thread, data.model);
}

/**
 * Starts rights, limits, hooks and the model of a fork anew. The conversation, its marks and the rules of executed
 * directives stay. INVARIANT: no approval of the source is ever in force in the fork.
 */
function forked(thread: RestorableState, data: DataOf<'fork'>, own: EffectiveLimits): void {
  const { talk, budget, hooks, control, rights } = thread;
  rights.approved.startOver();
  [talk.reminders, talk.loops] = [0, 0];
  talk.triedModels.clear();
  talk.detector.startOver();
  budget.limits = own;
  budget.warned.clear();
  hooks.fired.clear();
  hooks.bounds = NO_BOUNDS;
  control.failures.clear();
  switchModel(thread, data.model);
  // The replies of the source can quote text that is a reference from now on.
  if (data.untrusted) talk.conversation.learn(talk.conversation.allMarks());
}

/** Applies the result of a step to rights, rules, failures in a row and skips in a row. */
function stepEnded(
  thread: Pick<Thread, 'rights' | 'hooks' | 'control'>,
  data: DataOf<'tool_result'>,
): void {
  const { call_id, tool, is_error, rules, content } = data;
  thread.rights.approved.restoreResult(call_id);
  if (rules) thread.rights.rules.restore(rules);
  // The count starts again after a person was asked.
  const wasAsked = getOwn(getOwn(getOwn(content, 'error'), 'detail'), 'escalated') !== undefined;
  if (tool !== undefined) countFailure(thread, tool, is_error && !wasAsked);
  if (tool !== undefined && !is_error) thread.hooks.bounds = stepDone(thread.hooks.bounds, tool);
}

/** Everything that the journal restores. A restore never writes to the journal. */
type RestorableState = Omit<Thread, 'journal'>;

function restore(thread: RestorableState, event: Recorded, own: EffectiveLimits): void {
  changeRoom(thread.talk.room, event, event.turn);
  switch (event.type) {
    case 'signal':
      resumedWith(thread, event.data, own);
      return;
    case 'hook':
      hookDecided(thread, event.data);
      return;
    case 'hook_start':
      hookStarted(thread, event.data);
      return;
    case 'hook_state':
      restoreFired(thread, event.data.fired);
      return;
    case 'model_fallback':
      thread.talk.triedModels.add(event.data.to);
      switchModel(thread, event.data.to);
      return;
    case 'warning':
      if (event.data.code === 'seals_dropped') thread.talk.areSealsDropped = true;
      else thread.budget.warned.add(markKey(event.data));
      return;
    case 'loop_detected':
      thread.talk.loops += 1;
      return;
    case 'injected_message':
      if (event.data.reminder) thread.talk.reminders += 1;
      return;
    case 'approval':
      thread.rights.approved.restore(event.data);
      return;
    case 'fork':
      forked(thread, event.data, own);
      return;
    case 'assistant_message': {
      if (event.data.injected) return;
      const { usage, bytes, apart } = event.data;
      // A reply apart has another request, whose ratio says nothing about the conversation.
      if (!apart && !usage.estimated && bytes > 0) thread.talk.ratio = tokenRatio(usage, bytes);
      return;
    }
    case 'retry':
      if (event.data.try === undefined) newAttempt(thread, event.data);
      else if (event.data.seals) thread.talk.areSealsOff = true;
      return;
    case 'tool_result':
      stepEnded(thread, event.data);
      return;
    default:
  }
}

/** Returns an observer that passes each finished call to the loop detector, once. */
function watchLoops(thread: Pick<Thread, 'talk'>): (event: Recorded) => void {
  const open = new Map<string, RecordedOf<'tool_call'>>();
  return (event) => {
    if (event.type === 'tool_call') open.set(event.data.call_id, event);
    if (event.type !== 'tool_result') return;
    const { call_id: id, content, is_error } = event.data;
    const call = open.get(id);
    if (!call) return;
    open.delete(id);
    const { tool, verb, effect, arguments: request, volatile = [] } = call.data;
    thread.talk.detector.observe({
      id,
      turn: call.turn,
      tool,
      effect,
      // The detector compares the parameters of a tool, or the request of another verb.
      arguments: verb === 'execute' ? (getOwn(request, 'parameters') ?? {}) : request,
      volatile: [...volatile],
    });
    thread.talk.detector.learned(id, withoutTime(content), is_error);
  };
}

/** Gives a thread the state that it had after its last event. Returns the work that is open there. */
export function restoreThread(thread: RestorableState, history: readonly Recorded[]): OpenWork {
  thread.talk.opening.push(...project(conversation, history).opening());
  const { limits } = thread.budget;
  const watch = watchLoops(thread);
  const inForce = new Set(eventsInForce(history));
  for (const event of history) {
    if (inForce.has(event)) addToConversation(thread.talk, event);
    else if (!eventFlags(event.type).survivesRewind) continue;
    restore(thread, event, limits);
    if (inForce.has(event)) watch(event);
  }
  // Messages from now on are not part of the withheld reply.
  if (thread.talk.unjudged) thread.talk.unjudged.isAsked = true;
  const work = project(openWork, history);
  for (const [id, start] of work.hooks) thread.hooks.pending.set(id, start);
  for (const [call, note] of work.approvals) thread.control.escalated.set(call, note);
  return work;
}
