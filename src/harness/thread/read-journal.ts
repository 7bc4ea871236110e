import { ok } from '../../base/index.ts';
import type { Answer, Store, StoredEvent } from '../../store/index.ts';
import { decodeAll } from './journal-codec.ts';
import type { Recorded } from './journal-event.ts';

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
