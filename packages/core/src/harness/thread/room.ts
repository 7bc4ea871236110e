// The state of compaction in a thread: passes so far, requests, and how long no automatic pass runs.
import type { Compaction, JournalEvent, Marks } from '../../journal/index.ts';

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
  /** The last pass of this conversation. `undefined`: none so far. */
  last: Compaction | undefined;
  /** Summary in the conversation, and whether the last one was rejected. */
  summary: string | undefined;
  isRejected: boolean;
  /** A request that no pass has answered yet. */
  request: Request | undefined;
}

export const createRoom = (): Room => ({
  passes: 0,
  lastTurn: Number.NEGATIVE_INFINITY,
  notBefore: 0,
  last: undefined,
  summary: undefined,
  isRejected: false,
  request: undefined,
});

/** Longest text in a request that says what to keep, in characters. */
export const MAX_FOCUS = 2000;

/** Number of turns without an automatic pass after a hook said not now, and between requests of the model. */
export const DEFERRED_TURNS = 5;

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
    const { number, upto, summary, rejected } = data;
    [room.passes, room.lastTurn, room.last, room.request] = [number, turn, data, undefined];
    if (upto !== undefined) [room.summary, room.isRejected] = [summary, rejected !== undefined];
  } else if (type === 'hook') {
    if (isPassName(data.step) && data.decision === 'skip_step') deferPass(room, turn);
  } else if (type === 'signal' && (data.kind === 'compact' || data.compact)) {
    const from = data.own ? 'model' : 'person';
    room.request = { from, by: data.by, ...(data.focus && { focus: data.focus }) };
  } else if (type === 'signal' && data.kind === 'interrupt') {
    if (room.request) room.request = undefined;
  } else if (type === 'retry' && data.try === undefined) {
    [room.summary, room.isRejected] = [undefined, false];
  }
}
