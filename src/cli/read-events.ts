import { type Outcome, ok } from '../base/index.ts';
import type { Store, StoredEvent } from '../store/index.ts';

const PAGE = 5000;

/** Every event of a thread after `seq`, however many there are. */
export function readEvents(store: Store, thread: string, after = 0): Outcome<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (let seq = after; ; ) {
    const page = store.read(thread, seq, PAGE);
    if (!page.ok) return page;
    for (const event of page.output) events.push(event);
    seq = page.output.at(-1)?.seq ?? seq;
    if (page.output.length < PAGE) return ok(events);
  }
}
