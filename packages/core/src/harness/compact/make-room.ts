// Makes room in the context window of a thread. Old results become references to the journal first. If that is not
// enough, a message of the harness with facts and a summary takes the place of old turns. One event records a pass,
// and it alone determines the conversation of a resumed thread.
import { getOwn, type Json } from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeAll } from '../../flow/index.ts';
import {
  clearedResult,
  compactionText,
  type DataOf,
  packMarks,
  type Recorded,
  readJournal,
  unpackMarks,
} from '../../journal/index.ts';
import type { Message } from '../../llm/index.ts';
import { raise, raiseCompaction } from '../hooks/raise-checkpoint.ts';
import { packCost } from '../limits/cost.ts';
import { limitEvent, limitFault } from '../limits/limit.ts';
import type { Ending, Turn } from '../loop.ts';
import type { Thread } from '../thread/thread.ts';
import { Facts, shownFacts, targetKind } from './facts.ts';
import {
  bytesFor,
  changeRoom,
  deferPass,
  figuresOf,
  inputOf,
  isPassName,
  passName,
  type RoomNeed,
  type Window,
  windowOf,
} from './room.ts';
import { askForSummary, type Summary } from './summary.ts';

type CompactionData = DataOf<'compaction'>;
type Pass = { -readonly [field in keyof CompactionData]: CompactionData[field] };
type Between = () => Promise<Ending | undefined>;

/** Window of a thread that knows none, for a pass that somebody asked for. */
const UNKNOWN: Window = { whole: 200_000, usable: 190_000 };
/** A result of the last turn above this number of characters becomes a reference if nothing else helps. */
const LARGE_RESULT = 2000;
const MAX_KEPT_NOTE = 2000;

const factsOf = new WeakMap<Thread['talk'], Facts>();

const sizeOf = (messages: readonly Message[]): number => JSON.stringify(messages).length;

/** Reads the events since the last pass, for the facts and for the numbers of results. */
async function readWindow(thread: Thread): Promise<{ facts: Facts; events: Recorded[] } | Turn> {
  const { ports, talk, place, journal } = thread;
  const facts = factsOf.get(talk) ?? new Facts(targetKind(ports));
  factsOf.set(talk, facts);
  await journal.flush();
  const events: Recorded[] = [];
  const read = await readJournal(ports.store, place.id, undefined, facts.seq);
  if (!read.ok) {
    return {
      ending: { status: 'interrupted', reason: read.error.detail.message, code: read.error.code },
    };
  }
  events.push(...read.output);
  facts.add(events);
  const results = events.flatMap((event) =>
    event.type === 'tool_result' ? [{ seq: event.seq, id: event.data.call_id }] : [],
  );
  talk.conversation.numberResults(results);
  return { facts, events };
}

/** Returns the last turn that a summary can replace. The kept turns are at most a share of the window. */
function lastReplaced(thread: Thread, keep: number, bytes: number): number | undefined {
  const { conversation } = thread.talk;
  const turns = conversation.turns();
  for (let kept = Math.min(keep, turns.length - 1); kept >= 1; kept--) {
    const upto = turns[turns.length - kept - 1];
    if (upto === undefined) continue;
    if (kept === 1 || sizeOf(conversation.since(upto).kept) <= bytes) return upto;
  }
  return undefined;
}

/** Returns the results that can become references, and the number of characters that this frees. */
function clearable(thread: Thread, keep: number, above: number): { seqs: number[]; frees: number } {
  const { conversation } = thread.talk;
  const firstKept = keep === 0 ? Number.POSITIVE_INFINITY : (conversation.turns().at(-keep) ?? 0);
  const seqs: number[] = [];
  let frees = 0;
  for (const { block, tool, turn, seq } of conversation.results()) {
    if (seq === undefined || turn === 0 || turn >= firstKept || tool === 'help') continue;
    const size = JSON.stringify(block.content).length;
    if (size <= above || isUnknown(block.content)) continue;
    seqs.push(seq);
    frees += size - JSON.stringify(clearedResult(seq, tool, block.content)).length;
  }
  return { seqs, frees };
}

const isUnknown = (content: Json): boolean =>
  getOwn(getOwn(content, 'error'), 'code') === 'outcome_unknown';

interface PassTask {
  readonly need: RoomNeed;
  readonly number: number;
  readonly window: Window;
  readonly before: number;
  /** Text of a hook that the facts keep, with its marks. */
  readonly kept: { readonly text: string; readonly marks: Descriptor } | undefined;
}

/** Applies the pass to the conversation and fills in its size. The conversation changes before the journal is written. */
function apply(thread: Thread, pass: Pass): void {
  thread.talk.conversation.compact(pass);
  pass.after = inputOf(thread.talk);
}

/** Returns the recorded pass of a replay. Its facts and figures rest on data that a replay does not have. */
function recordedPass({ ports, place }: Thread): CompactionData | undefined {
  const next = ports.replay?.rest(place.id).find(({ type }) => type === 'compaction');
  return next?.type === 'compaction' ? next.data : undefined;
}

/** Makes one pass and records it. Returns an ending if a signal stopped the thread meanwhile. */
async function runPass(
  thread: Thread,
  { need, number, window, before, kept }: PassTask,
  between: Between,
): Promise<Pass | Turn | undefined> {
  const { ports, talk, budget, journal } = thread;
  const { conversation } = talk;
  const figures = figuresOf(ports);
  const { value: mode, keep } = budget.limits.context_compact;
  const { request } = need;
  const read = await readWindow(thread);
  if (!('facts' in read)) return read;
  const marks = mergeAll([conversation.ownMarks(), kept?.marks ?? EMPTY, ...focusMarks(need)]);
  const pass: Pass = {
    number,
    tier: 'results',
    asked: request?.asked ?? 'harness',
    ...(request && { by: request.by }),
    marks: packMarks(marks),
    before,
    after: before,
  };
  const old = clearable(thread, keep, figures.result_characters);
  const isWorth = old.frees >= bytesFor(figures.frees * window.usable, talk.ratio);
  if (isWorth || (mode === 'results' && need.isForced && old.seqs.length > 0)) {
    pass.cleared = old.seqs;
    apply(thread, pass);
  }
  const isEnough =
    !request && pass.cleared !== undefined && pass.after <= figures.enough * window.usable;
  const room = bytesFor(figures.kept * window.usable, talk.ratio);
  const upto =
    isEnough || (mode === 'results' && !request) ? undefined : lastReplaced(thread, keep, room);
  if (upto !== undefined) {
    const ending = await replaceTurns(thread, pass, { need, window, read, upto, kept, between });
    if (ending) return ending === 'stopped' ? undefined : { ending };
  }
  if (mode !== 'off' && pass.after > window.usable) squeeze(thread, pass);
  const recorded = recordedPass(thread);
  if (recorded) [pass.before, pass.after] = [recorded.before, recorded.after];
  const event = { type: 'compaction', data: pass } as const;
  budget.meter.countCompaction();
  journal.note(event, { cost: packCost(budget.meter.read()) });
  changeRoom(talk.room, event, journal.turn);
  return pass;
}

const focusMarks = ({ request }: RoomNeed): Descriptor[] =>
  request?.focus ? [unpackMarks(request.focus.marks)] : [];

interface Replacing extends Pick<PassTask, 'need' | 'window' | 'kept'> {
  readonly read: { readonly facts: Facts; readonly events: readonly Recorded[] };
  readonly upto: number;
  readonly between: Between;
}

/** Replaces the turns up to `upto`. The summary is left out if it is late, empty or too long. */
async function replaceTurns(
  thread: Thread,
  pass: Pass,
  { need, window, read, upto, kept, between }: Replacing,
): Promise<Ending | 'stopped' | undefined> {
  const { ports, talk } = thread;
  const { conversation, room, ratio } = talk;
  const figures = figuresOf(ports);
  const { replaced } = conversation.since(upto);
  const task = { number: pass.number, replaced, window, request: need.request };
  const isSkipped = room.last.rejected !== undefined && need.request === undefined;
  const summary: Summary | { ending: Ending } | 'stopped' = isSkipped
    ? { rejected: '' }
    : await askForSummary(thread, task, read.events, between);
  if (summary === 'stopped') return 'stopped';
  if ('ending' in summary) return summary.ending;
  const facts =
    recordedPass(thread)?.facts ??
    shownFacts(thread, read.facts, bytesFor(figures.facts * window.usable, ratio), kept?.text);
  Object.assign(pass, { tier: 'facts', upto, facts });
  const { spend, model } = summary;
  if (spend !== undefined) pass.spend = spend;
  if (model !== undefined) pass.model = model;
  const past =
    room.last.upto === undefined
      ? 0
      : compactionText({ ...pass, summary: room.last.summary ?? '' }).length;
  const most = (past + sizeOf(replaced)) / 2;
  if ('text' in summary) {
    const whole = compactionText({ ...pass, summary: summary.text });
    if (whole.length <= most) Object.assign(pass, { tier: 'summary', summary: summary.text });
    else
      pass.rejected = `its message has ${whole.length} characters, at most ${Math.floor(most)} are useful`;
  } else if (summary.rejected !== '') pass.rejected = summary.rejected;
  if (compactionText(pass).length < past + sizeOf(replaced)) apply(thread, pass);
  // Nothing would be gained, so the turns stay.
  else for (const field of ['upto', 'facts', 'summary'] as const) delete pass[field];
  if (pass.upto === undefined) pass.tier = 'results';
  return undefined;
}

/** Frees what is possible besides: only the last turn stays, and its large results become references. */
function squeeze(thread: Thread, pass: Pass): void {
  const { conversation } = thread.talk;
  const upto = lastReplaced(thread, 1, 0);
  if (pass.upto !== undefined && upto !== undefined && upto > pass.upto) {
    pass.upto = upto;
    apply(thread, pass);
  }
  const { whole, usable } = windowOf(thread) ?? UNKNOWN;
  if (pass.after <= Math.min(whole, usable)) return;
  const { seqs } = clearable(thread, 0, LARGE_RESULT);
  if (seqs.length === 0 || conversation.turns().length === 0) return;
  pass.cleared = [...(pass.cleared ?? []), ...seqs];
  apply(thread, pass);
}

/** Ends the run at the limit `context`, with the sizes of the parts that no pass removes. */
async function endTooLarge(thread: Thread, { usable }: Window): Promise<Turn | undefined> {
  const { talk, journal, control } = thread;
  const { conversation, system, opening, room } = talk;
  const [bytes, input] = [conversation.bytes(), inputOf(talk)];
  const message = room.last.upto === undefined ? 0 : sizeOf(conversation.since(-1).kept);
  const begin = opening.reduce((sum, { data }) => sum + JSON.stringify(data).length, 0);
  const failure = limitFault(
    limitEvent('context', BigInt(input), BigInt(Math.floor(usable))),
    BigInt(input),
  );
  failure.error.detail.message = `the next request has about ${input} tokens, and the window has room for ${Math.floor(usable)}: system text ${system.length} characters, directive ${begin}, kept turns ${message}, all messages ${bytes}; shorten the directive, or use a model with a larger window`;
  const step = { kind: 'turn', turn: journal.turn + 1 } as const;
  const verdict = await raise(thread, { name: 'limit', fault: failure.error, arguments: [] }, step);
  if (verdict?.action === 'retry') return undefined;
  const { code, detail } = failure.error;
  const ending = control.ending ?? { status: 'limit', reason: '', code };
  const isOwn = ending.code === code;
  if (isOwn) control.ending = { ...ending, reason: detail.message };
  return { ending: control.ending ?? ending };
}

/** Asks the hooks after a pass. Returns true if one of them wants another pass. */
async function isRepeated(
  thread: Thread,
  { number, tier, before, after }: CompactionData,
): Promise<boolean> {
  const step = passName(number);
  const { turn } = thread.journal;
  const result = { tier, before, after };
  const event = { name: 'after_step', kind: 'compact', step, turn, result } as const;
  return (await raiseCompaction(thread, event)).does === 'again';
}

/** Finishes a pass whose hook had not answered when its process was lost. */
async function finishLostPass(thread: Thread): Promise<boolean> {
  const lost = [...thread.hooks.pending.values()].find(
    ({ step, event }) => isPassName(step) && event === 'after_step',
  );
  if (!lost) return false;
  const read = await readJournal(thread.ports.store, thread.place.id, ['compaction']);
  const last = read.ok ? read.output.at(-1) : undefined;
  if (last?.type === 'compaction') await isRepeated(thread, last.data);
  return true;
}

/**
 * Makes room before a turn. Returns the turn of an ending, `again` if signals must be handled first, or `undefined`
 * if the turn can begin.
 */
export async function makeRoom(
  thread: Thread,
  first: RoomNeed,
  between: Between,
): Promise<Turn | undefined> {
  const { talk, control, journal } = thread;
  if (await finishLostPass(thread))
    return control.ending ? { ending: control.ending } : { again: true };
  let need: RoomNeed | undefined = first;
  for (let repeats = 0; need && repeats < 2; repeats++) {
    const window: Window = windowOf(thread) ?? UNKNOWN;
    const number = talk.room.passes + 1;
    const before = inputOf(talk);
    const asked = need.request?.asked ?? 'harness';
    const event = {
      name: 'before_step',
      kind: 'compact',
      step: passName(number),
      turn: journal.turn,
      asked,
      tokens: before,
      window: window.whole,
    } as const;
    const { does, keep } = await raiseCompaction(thread, event);
    if (control.ending) return { ending: control.ending };
    // A request that does not fit cannot wait.
    if (does === 'skip' && before <= window.usable) {
      deferPass(talk.room, journal.turn);
      return undefined;
    }
    const kept = keep && { text: keep.text.slice(0, MAX_KEPT_NOTE), marks: keep.marks };
    const pass = await runPass(thread, { need, number, window, before, kept }, between);
    if (pass === undefined) {
      // A person broke the request off.
      talk.room.lastTurn = journal.turn;
      return { again: true };
    }
    if (!('tier' in pass)) return pass;
    need = (await isRepeated(thread, pass)) ? { isForced: true } : undefined;
    if (control.ending) return { ending: control.ending };
  }
  const window = windowOf(thread);
  const isOff = thread.budget.limits.context_compact.value === 'off';
  if (!window || isOff || inputOf(talk) <= window.usable) return undefined;
  return await endTooLarge(thread, window);
}
