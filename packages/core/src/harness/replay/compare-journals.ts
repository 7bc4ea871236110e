// Compares two journals of one thread, and finds the first event that differs.
import {
  canonicalJson,
  isObject,
  type Json,
  type JsonObject,
  plainText,
} from '../../base/index.ts';
import { eventFlags, type Noted, notedOf, type Recorded } from '../../journal/index.ts';

export interface JournalComparison {
  /** The number of events that were compared and are the same. */
  same: number;
  /** The number of events in the recorded journal, up to the last one that was compared. */
  recorded: number;
  isSame: boolean;
  /** The first event that differs. A side is absent if its journal has ended. */
  difference?: { seq: number; recorded?: Noted; replayed?: Noted };
}

/** Parts of costs and results, and sizes of requests. The event table names the other fields that can differ. */
const OF_ONE_RUN: ReadonlySet<string> = new Set(
  'duration_seconds duration_ms failed_calls bytes'.split(' '),
);

/** Names of sets, which events store as lists. Older journals have them in order of appearance. */
const MARKS: ReadonlySet<string> = new Set(['labels', 'taint', 'sources']);

const sorted = (marks: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(marks).map(([name, list]) => [
      name,
      MARKS.has(name) && Array.isArray(list) ? list.map(plainText).toSorted() : list,
    ]),
  );

function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !OF_ONE_RUN.has(name))
      .map(([name, inner]) => [
        name,
        name === 'marks' && isObject(inner) ? sorted(inner) : plain(inner),
      ]),
  );
}

function withoutVolatile(data: JsonObject, { type }: Recorded): JsonObject {
  const volatile = eventFlags(type).volatile ?? [];
  if (volatile.length === 0) return data;
  return Object.fromEntries(Object.entries(data).filter(([name]) => !volatile.includes(name)));
}

function textOf(event: Recorded | undefined, recorded = event): string {
  if (!event) return '';
  // The data is JSON, because `decode` has checked it.
  const whole = event.data as JsonObject;
  // Other threads determined the free budget, and so the maximum length of the answer.
  const isFitted = recorded?.type === 'turn_start' && recorded.data.fitted === true;
  const { max_tokens: _, fitted: __, ...rest } = whole;
  const data = isFitted ? rest : whole;
  const all = recorded ? withoutVolatile(data, recorded) : data;
  return canonicalJson([event.type, event.turn, plain(all)]);
}

/** Compares journals of the same thread. Fields that can differ between two runs are left out. */
export function compareJournals(
  recorded: readonly Recorded[],
  replayed: readonly Recorded[],
): JournalComparison {
  const length = Math.max(recorded.length, replayed.length);
  for (let at = 0; at < length; at++) {
    if (textOf(recorded[at]) === textOf(replayed[at], recorded[at])) continue;
    const [was, is] = [recorded[at], replayed[at]].map((event) => event && notedOf(event));
    const seq = recorded[at]?.seq ?? replayed[at]?.seq ?? 0;
    const difference = { seq, ...(was && { recorded: was }), ...(is && { replayed: is }) };
    return { same: at, recorded: recorded.length, isSame: false, difference };
  }
  return { same: length, recorded: recorded.length, isSame: true };
}
