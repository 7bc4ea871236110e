import { type Outcome, ok } from '../../base/index.ts';
import type { Store, StoredEvent } from '../../store/index.ts';

/** All of it, a page at a time: a journal may be longer than one read. */
export function readJournal(store: Pick<Store, 'read'>, thread: string): Outcome<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (;;) {
    const page = store.read(thread, events.at(-1)?.seq ?? 0);
    if (!page.ok) return page;
    if (page.output.length === 0) return ok(events);
    events.push(...page.output);
  }
}
