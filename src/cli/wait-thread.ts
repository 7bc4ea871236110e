// Waiting for a thread of any process, without asking again and again.
import { type Outcome, ok } from '../base/index.ts';
import { isEnded, type Store, type ThreadRow, type ThreadStatus } from '../store/index.ts';

/** It goes on only when a person does something. */
const STANDS_STILL: ReadonlySet<ThreadStatus> = new Set(['paused', 'needs_input', 'interrupted']);
const EXPIRY_CHECK_MS = 2000;

const isOver = ({ status }: ThreadRow, untilEnd: boolean): boolean =>
  isEnded(status) || (!untilEnd && STANDS_STILL.has(status));

/** The row when it is over, or as it is when the signal aborts. */
export async function waitForEnd(
  store: Store,
  id: string,
  signal: AbortSignal,
  { untilEnd = true }: { untilEnd?: boolean } = {},
): Promise<Outcome<ThreadRow>> {
  const row = store.thread(id);
  if (!row.ok || isOver(row.output, untilEnd)) return row;
  // A process that died says nothing; its lease does.
  const timer = setInterval(() => store.interruptExpired(), EXPIRY_CHECK_MS);
  try {
    for await (const news of store.watch({ thread: id, seq: row.output.seq }, signal)) {
      if (news.kind !== 'status') continue;
      const now = store.thread(id);
      if (!now.ok || isOver(now.output, untilEnd)) return now;
    }
  } finally {
    clearInterval(timer);
  }
  const last = store.thread(id);
  return last.ok ? ok(last.output) : last;
}
