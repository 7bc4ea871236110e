// Reads journals. `decode` refuses an event that no version of the harness wrote, so that readers trust the
// types of events.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../base/index.ts';
import type { Answer, Store, StoredEvent } from '../store/index.ts';
import { oddField } from './event-facts.ts';
import type { DataOf, EventType, JournalEvent } from './events.ts';

/** An event before the store numbers it. `text` is its data as JSON, with secrets in clear. */
export type Noted = JournalEvent & { readonly turn: number; readonly text?: string };
/** An event with its position in the journal. */
export type Recorded = Noted & {
  readonly thread: string;
  readonly seq: number;
  readonly ts: number;
};
export type RecordedOf<Type extends EventType> = Extract<Recorded, { type: Type }>;

/** Returns the event without its position in the journal. */
export function notedOf(event: Recorded): Noted {
  const { thread: _thread, seq: _seq, ts: _ts, ...noted } = event;
  return noted;
}

/** Returns the event with changed texts in its data, such as masks for secrets, and without `text`. */
export function withTexts(event: Noted, change: (data: JsonObject) => JsonObject): Noted {
  const { text: _, ...plain } = event;
  return { ...plain, data: change(event.data as JsonObject) } as Noted;
}

/** Returns the content of a reply without its seals, for guards, hooks and people. */
export function withoutSeals(content: Json): Json {
  if (!Array.isArray(content) || !content.some((block) => getOwn(block, 'seal'))) return content;
  return content.map((block) => {
    const { seal: _, ...rest } = isObject(block) ? block : {};
    return rest;
  });
}

/** Returns the data of an event without seals. Only the journal and the model that wrote them get them. */
export function shownData(type: string, data: JsonObject): JsonObject {
  if (type !== 'assistant_message' || data.content === undefined) return data;
  const content = withoutSeals(data.content);
  return content === data.content ? data : { ...data, content };
}

/** Fails with `journal_unreadable` {thread, seq, type, field} if no version of this harness wrote the event. */
export function decode(event: StoredEvent): Outcome<Recorded> {
  const { thread, seq, type } = event;
  const field = oddField(type, event.data);
  // This is the only cast of a stored event, directly after its check.
  if (field === undefined) return ok(event as unknown as Recorded);
  return fail(
    'journal_unreadable',
    `event ${seq} of thread \`${thread}\` cannot be read: \`${field}\` of \`${type}\` is invalid`,
    { thread, seq, type, field },
  );
}

/** Returns all events, or the failure of the first one that cannot be read. */
export function decodeAll(events: readonly StoredEvent[]): Outcome<Recorded[]> {
  const decoded: Recorded[] = [];
  for (const event of events) {
    const one = decode(event);
    if (!one.ok) return one;
    decoded.push(one.output);
  }
  return ok(decoded);
}

/** Returns the events that can be read. It skips the others. */
export const readableEvents = (events: readonly StoredEvent[]): Recorded[] =>
  events.flatMap((event) => {
    const one = decode(event);
    return one.ok ? [one.output] : [];
  });

/** Codes of a hook that the budget did not allow or that could not run. It counts as no match. */
export const PASSED_HOOK: ReadonlySet<string> = new Set(['hook_unaffordable', 'hook_unfit']);

export const startOf = (history: readonly Recorded[]): DataOf<'thread_start'> | undefined =>
  history.find((event) => event.type === 'thread_start')?.data;

/** Returns the last fork in a journal. The events before it are copies. `undefined`: the thread is no fork. */
export const forkOf = (history: readonly Recorded[]): RecordedOf<'fork'> | undefined =>
  history.findLast((event) => event.type === 'fork');

/** Returns the events that are no copies from another thread. */
export const ownEvents = (history: readonly Recorded[]): readonly Recorded[] =>
  history.slice(history.findLastIndex(({ type }) => type === 'fork') + 1);

/** Returns true if the model gets untrusted values by reference. A fork can be stricter than its source. */
export const hidesUntrusted = (history: readonly Recorded[]): boolean =>
  history.some(
    ({ type, data }) =>
      (type === 'thread_start' || type === 'fork') && data.untrusted !== undefined,
  );

/**
 * Reads a journal, or its events of these types, in pages, because it can be longer than one read. `from`: the event
 * after which it begins. `most`: the largest number of events. `isShown`: people get them, so they have no seals.
 */
export async function readStored(
  store: Pick<Store, 'read'>,
  thread: string,
  types?: readonly EventType[],
  how: { from?: number; most?: number; isShown?: boolean } = {},
): Answer<StoredEvent[]> {
  const { from = 0, most = Number.POSITIVE_INFINITY, isShown = false } = how;
  const events: StoredEvent[] = [];
  for (;;) {
    const after = events.at(-1)?.seq ?? from;
    const page = await store.read(thread, types ? { after, types } : { after });
    if (!page.ok) return page;
    for (const event of page.output) {
      events.push(isShown ? { ...event, data: shownData(event.type, event.data) } : event);
    }
    if (page.output.length === 0 || events.length >= most) return ok(events.slice(0, most));
  }
}

/** Reads and checks a journal. Fails with `journal_unreadable` for the first event that cannot be read. */
export async function readJournal(
  store: Pick<Store, 'read'>,
  thread: string,
  types?: readonly EventType[],
  from = 0,
): Answer<Recorded[]> {
  const stored = await readStored(store, thread, types, { from });
  return stored.ok ? decodeAll(stored.output) : stored;
}
