// Decides when a thread makes room in the context window of its model, from the journal and the estimate of its next
// request. `make-room.ts` has the pass itself, which most threads never load.
import { getOwn, type JsonObject, numberAt, objectAt } from '../../base/index.ts';
import type { Compaction, JournalEvent, Marks } from '../../journal/index.ts';
import { bytesForTokens, estimateTokens } from '../../llm/index.ts';
import { fitFiles } from '../files/fit-files.ts';
import type { HarnessPorts, Thread } from '../thread/thread.ts';
import { toolBytes } from '../turn/ask-model.ts';

/** A request of a person or of the model to make room. `focus`: what the summary must keep. */
export interface Request {
  readonly from: 'person' | 'model';
  readonly by: string;
  readonly focus?: { readonly text: string; readonly marks: Marks };
}

/** State of compaction. The journal restores it. */
export interface Room {
  /** Number of passes in this conversation so far. */
  passes: number;
  /** The turn in which the last pass was made. */
  lastTurn: number;
  /** Turn before which a hook wants no automatic pass. */
  notBefore: number;
  /** Result of the last pass that replaced turns. */
  last: Pick<Compaction, 'summary' | 'rejected' | 'upto'>;
  /** A request that no pass has answered yet. */
  request: Request | undefined;
}

export const createRoom = (): Room => ({
  passes: 0,
  lastTurn: Number.NEGATIVE_INFINITY,
  notBefore: 0,
  last: {},
  request: undefined,
});

/** Longest text in a request that says what to keep, in characters. */
export const MAX_FOCUS = 2000;

/** Number of turns after a pass, and after a hook said not now, without another automatic pass. */
const [REST_TURNS, DEFERRED_TURNS] = [2, 5];

/** Name of the step of a pass in hooks. */
export const passName = (number: number): string => `compact ${number}`;
export const isPassName = (step: string): boolean => /^compact \d+$/.test(step);

/** Applies the answer of a hook that wants no pass now. */
export function deferPass(room: Room, turn: number): void {
  [room.notBefore, room.request] = [turn + DEFERRED_TURNS, undefined];
}

/** Applies an event to the state of compaction. A live thread and a resumed one use the same function. */
export function changeRoom(room: Room, { type, data }: JournalEvent, turn: number): void {
  if (type === 'compaction') {
    const { summary, rejected, upto } = data;
    room.passes = data.number;
    room.lastTurn = turn;
    room.request = undefined;
    if (upto !== undefined)
      room.last = { upto, ...(summary && { summary }), ...(rejected && { rejected }) };
  } else if (type === 'hook') {
    if (isPassName(data.step) && data.decision === 'skip_step') deferPass(room, turn);
  } else if (type === 'signal' && data.kind === 'compact') {
    const from = data.own ? 'model' : 'person';
    room.request = { from, by: data.by, ...(data.focus && { focus: data.focus }) };
  } else if (type === 'signal' && data.kind === 'interrupt') {
    if (room.request) room.request = undefined;
  } else if (type === 'retry' && data.try === undefined) room.last = {};
}

/** Default figures. `compaction` of `limits.yaml` overrides them. */
const FIGURES = {
  result_characters: 800,
  frees: 0.2,
  enough: 0.6,
  kept: 0.25,
  facts: 0.15,
  summary_tokens: 4096,
};

export type Figures = Readonly<typeof FIGURES>;

const settings = ({ library }: Pick<HarnessPorts, 'library'>): JsonObject =>
  objectAt(library.config('limits').value, 'compaction');

export function figuresOf(ports: Pick<HarnessPorts, 'library'>): Figures {
  const set = settings(ports);
  const names = Object.keys(FIGURES) as (keyof Figures)[];
  return Object.fromEntries(
    names.map((name) => [name, numberAt(set, name) ?? FIGURES[name]]),
  ) as unknown as Figures;
}

/** Returns the model for summaries. `undefined`: the model of the thread. */
export function summaryModel(ports: Pick<HarnessPorts, 'library'>): string | undefined {
  const name = getOwn(settings(ports), 'model');
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/** Longest answer for which room is kept, in tokens. */
const ANSWER = 8192;

export interface Window {
  /** Size of the context window in tokens. */
  readonly whole: number;
  /** Tokens that a request can have, so that an answer still fits. */
  readonly usable: number;
}

/** Returns the window of the thread. `undefined`: neither its limits nor the price row of its model name one. */
export function windowOf({
  talk: { model, price },
  budget: { limits },
}: Pick<Thread, 'talk' | 'budget'>): Window | undefined {
  const own = limits.context?.value;
  const whole = Math.min(
    Number(own ?? Number.POSITIVE_INFINITY),
    price.context ?? Number.POSITIVE_INFINITY,
  );
  if (!Number.isFinite(whole)) return undefined;
  return { whole, usable: whole - Math.min(model.max_output ?? ANSWER, ANSWER, whole / 4) };
}

/** Returns the size of the next request in bytes. Files count as the text that would have as many tokens. */
export function requestBytes(thread: Pick<Thread, 'ports' | 'talk'>): number {
  const { conversation, system, tools } = thread.talk;
  const files = bytesForTokens(fitFiles(thread).tokens);
  return (
    conversation.bytes() + system.length + (tools?.length === 0 ? 0 : toolBytes(tools)) + files
  );
}

/** Returns the estimated input of the next request, as it will be reserved. */
export const inputOf = (thread: Pick<Thread, 'ports' | 'talk'>): number =>
  estimateTokens(requestBytes(thread), thread.talk.ratio);

/** Returns the number of bytes whose estimate is this number of tokens. */
export const bytesFor = (tokens: number, ratio?: number): number =>
  Math.floor((tokens * 1000) / estimateTokens(1000, ratio));

/** A reason for a pass. `isForced`: the next request does not fit, or somebody asked for the pass. */
export interface RoomNeed {
  readonly request?: Request;
  readonly isForced: boolean;
}

/** Returns why the thread must make room before its next turn. `undefined`: it need not. */
export function roomNeeded(
  thread: Pick<Thread, 'ports' | 'talk' | 'budget' | 'hooks' | 'journal'>,
): RoomNeed | undefined {
  const { talk, budget, hooks, journal } = thread;
  const { room, unjudged } = talk;
  const { value: mode, at, from } = budget.limits.context_compact;
  const isPassOpen =
    hooks.pending.size > 0 && [...hooks.pending.values()].every((one) => isPassName(one.step));
  if (unjudged || (hooks.pending.size > 0 && !isPassOpen)) return undefined;
  const { request } = room;
  // Only a policy forbids a pass that a person asks for.
  if (request && (mode !== 'off' || from !== 'policy')) return { request, isForced: true };
  if (isPassOpen) return { isForced: true };
  const window = mode === 'off' ? undefined : windowOf({ talk, budget });
  if (!window) return undefined;
  const input = inputOf(thread);
  if (input <= at * window.usable) return undefined;
  const isForced = input > window.usable;
  const isResting = journal.turn < room.notBefore || journal.turn - room.lastTurn < REST_TURNS;
  const hasTurns = talk.conversation.turns().length > 0;
  return isForced || (hasTurns && !isResting) ? { isForced } : undefined;
}

/** Returns why the model's own request is refused. `undefined`: it is accepted. */
export function requestProblem({
  talk: { room },
  budget,
  journal,
}: Pick<Thread, 'talk' | 'budget' | 'journal'>): string | undefined {
  if (budget.limits.context_compact.value === 'off') return 'compaction is off for this thread';
  if (room.request) return 'a pass is already requested';
  if (journal.turn - room.lastTurn < DEFERRED_TURNS)
    return 'the last pass was less than five turns ago';
  return undefined;
}
