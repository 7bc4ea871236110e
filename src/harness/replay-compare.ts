// Two journals side by side: where is the first event that is another one?
import { canonicalJson, isObject, type Json, type JsonObject } from '../base/index.ts';
import type { StoredEvent } from '../store/index.ts';

export interface ReplayedEvent {
  type: string;
  turn: number;
  data: JsonObject;
}

export interface ReplayReport {
  thread_id: string;
  /** How many events were compared and found to be the same. */
  same: number;
  /** How many the journal has, up to the one that was asked for. */
  recorded: number;
  isSame: boolean;
  /** The first event that is another one; a side is absent when its journal has ended. */
  difference?: { seq: number; recorded?: ReplayedEvent; replayed?: ReplayedEvent };
  /** How the replay ended; absent when it was stopped at `until`. */
  status?: string;
}

/** Names, times, sizes and places in the books of one run. */
const OF_ONE_RUN: ReadonlySet<string> = new Set(
  'key n child by bytes duration_seconds duration_ms'.split(' '),
);

function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !OF_ONE_RUN.has(name))
      .map(([name, inner]) => [name, plain(inner)]),
  );
}

const shown = (event: StoredEvent | undefined): ReplayedEvent | undefined =>
  event && { type: event.type, turn: event.turn, data: event.data };

const textOf = (event: StoredEvent | undefined): string =>
  event ? canonicalJson([event.type, event.turn, plain(event.data)]) : '';

export function compareJournals(
  recorded: readonly StoredEvent[],
  replayed: readonly StoredEvent[],
): Pick<ReplayReport, 'same' | 'recorded' | 'isSame' | 'difference'> {
  const length = Math.max(recorded.length, replayed.length);
  for (let at = 0; at < length; at++) {
    if (textOf(recorded[at]) === textOf(replayed[at])) continue;
    const [was, is] = [shown(recorded[at]), shown(replayed[at])];
    const seq = recorded[at]?.seq ?? replayed[at]?.seq ?? 0;
    const difference = { seq, ...(was && { recorded: was }), ...(is && { replayed: is }) };
    return { same: at, recorded: recorded.length, isSame: false, difference };
  }
  return { same: length, recorded: recorded.length, isSame: true };
}
