// The one way into a journal and the one way out of it. What comes out was checked field by field: no
// reader has to doubt a shape, and what nobody wrote is refused (`journal_unreadable`) instead of being
// restored as something that happened.
import { fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { Answer, NewEvent, Store, StoredEvent } from '../../store/index.ts';
import { type JournalEvent, type Noted, problemIn, type Recorded } from './journal-event.ts';

/** Ready to be written. Its text is made once: for the registry, for sealing and for the transcript. */
export type Encoded = Noted & NewEvent & { readonly text: string };

/** What was noted before, in a replay, keeps its turn. */
export const encode = (event: JournalEvent & Partial<Noted>, turn: number): Encoded =>
  // JSON by construction: the union holds nothing else.
  ({ turn, text: event.text ?? JSON.stringify(event.data), ...event }) as Encoded;

/** Without its text, and with other texts in its data, such as masks for secrets; the shape stays. */
export function withTexts(event: Noted, change: (data: JsonObject) => JsonObject): Noted {
  const { text: _, ...plain } = event;
  return { ...plain, data: change(event.data as JsonObject) } as Noted;
}

/** `journal_unreadable` {thread, seq, type, field} for what no version of this harness wrote. */
export function decode(event: StoredEvent): Outcome<Recorded> {
  const { thread, seq, type } = event;
  const problem = problemIn(type, event.data);
  // The only cast on the way out: where the check is.
  if (problem === undefined) return ok(event as unknown as Recorded);
  const field = problem === '' ? 'data' : problem;
  return fail(
    'journal_unreadable',
    `event ${seq} of thread \`${thread}\` cannot be read: \`${field}\` of \`${type}\` is not what it should be`,
    { thread, seq, type, field },
  );
}

/** All of them, or the first that cannot be read. */
export function decodeAll(events: readonly StoredEvent[]): Outcome<Recorded[]> {
  const decoded: Recorded[] = [];
  for (const event of events) {
    const one = decode(event);
    if (!one.ok) return one;
    decoded.push(one.output);
  }
  return ok(decoded);
}

/** All of it as it is stored, a page at a time: a journal may be longer than one read. */
export async function readStored(
  store: Pick<Store, 'read'>,
  thread: string,
): Answer<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (;;) {
    const page = await store.read(thread, { after: events.at(-1)?.seq ?? 0 });
    if (!page.ok) return page;
    if (page.output.length === 0) return ok(events);
    events.push(...page.output);
  }
}

/** All of it, checked; the first event that cannot be read is the answer. */
export async function readJournal(store: Pick<Store, 'read'>, thread: string): Answer<Recorded[]> {
  const stored = await readStored(store, thread);
  return stored.ok ? decodeAll(stored.output) : stored;
}
