// Decides when a thread makes room in the context window of its model, from the journal and the estimate of its next
// request. `make-room.ts` has the pass itself, which most threads never load.
import { getOwn, type JsonObject, numberAt, objectAt } from '../../base/index.ts';
import { estimateTokens } from '../../llm/index.ts';
import { isPassName, type Request } from '../thread/room.ts';
import type { HarnessPorts, Thread } from '../thread/thread.ts';
import { requestBytes } from '../turn/ask-model.ts';

/** Number of turns after a pass without another automatic pass. */
const REST_TURNS = 2;

/** Figures of a pass. `compaction` of `limits.yaml` overrides them. */
export function figuresOf(ports: Pick<HarnessPorts, 'library'>) {
  const set = settings(ports);
  const figure = (name: string, otherwise: number): number => numberAt(set, name) ?? otherwise;
  return {
    result_characters: figure('result_characters', 800),
    frees: figure('frees', 0.2),
    enough: figure('enough', 0.6),
    kept: figure('kept', 0.25),
    facts: figure('facts', 0.15),
    summary_tokens: figure('summary_tokens', 4096),
  };
}

const settings = ({ library }: Pick<HarnessPorts, 'library'>): JsonObject =>
  objectAt(library.config('limits').value, 'compaction');

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

/** Returns the estimated input of the next request, as it will be reserved. */
export const nextInput = (thread: Pick<Thread, 'ports' | 'talk'>): number =>
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
  const input = nextInput(thread);
  if (input <= at * window.usable) return undefined;
  const isForced = input > window.usable;
  const isResting = journal.turn < room.notBefore || journal.turn - room.lastTurn < REST_TURNS;
  const hasTurns = (talk.conversation.parts().at(-1)?.turn ?? 0) > 0;
  return isForced || (hasTurns && !isResting) ? { isForced } : undefined;
}
