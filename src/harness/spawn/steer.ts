// Ending a thread that nobody is at work on, or that no longer answers: it cannot read a signal, so
// its end is written for it, and its books are closed with it.
import { fail, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { EMPTY } from '../../flow/index.ts';
import type { Store, ThreadStatus } from '../../store/index.ts';
import { countChild, unfinished } from '../children/children.ts';
import { resultOf } from '../children/wait.ts';
import { packCost } from '../limits/cost.ts';
import { apartKey } from '../thread/budget.ts';
import { packMarks } from '../thread/conversation.ts';
import { encode } from '../thread/journal-codec.ts';
import type { JournalEvent } from '../thread/journal-event.ts';
import { type HarnessPorts } from '../thread/thread.ts';
import { finalAccount } from '../turn/turn-account.ts';
import { type Asker, reach } from './access.ts';
import type { Answer } from './read-threads.ts';

const LEASE_MS = 30_000;

/**
 * Takes the thread and writes its end. `lease_held` when somebody is at work on it, unless `force`:
 * then whoever it was can no longer append, nor act.
 */
export function endUnattended(
  store: Store,
  id: string,
  status: 'terminated' | 'killed',
  by: string,
  { force = false }: { force?: boolean } = {},
): Outcome<null> {
  const lease = store.claim(id, by, LEASE_MS, { force });
  if (!lease.ok) return lease;
  const row = store.thread(id);
  if (!row.ok) return row;
  const { epoch, seq } = lease.output;
  const { settle, cost: used } = finalAccount({ store }, row.output);
  const cost = packCost(used);
  const reason = `${status} by ${by}`;
  const result: JsonObject = { thread_id: id, status, outputs: {}, text: '', reason, cost };
  const events: JournalEvent[] = [
    { type: 'signal', data: { kind: status === 'killed' ? 'kill' : 'terminate', by } },
    { type: 'thread_end', data: { status, reason, cost } },
  ];
  const encoded = events.map((event) => encode(event, 0));
  const written = store.append(id, seq, epoch, encoded, { status, cost, settle, result });
  store.release(id, epoch);
  return written.ok ? ok(null) : written;
}

// Wanting something of a thread: a signal in the registry, which whoever runs it obeys. A thread that
// nobody runs is ended here, or taken up again.

export type Wish = 'message' | 'pause' | 'interrupt' | 'terminate' | 'kill';

/** Nobody works on these: a signal alone would wait for ever. */
const IDLE: ReadonlySet<ThreadStatus> = new Set<ThreadStatus>([
  'paused',
  'waiting',
  'needs_input',
  'interrupted',
]);
type EndedFromOutside = 'terminated' | 'killed';

/** Two wishes are two signals, however alike. */
const keyOf = ({ random }: HarnessPorts, wish: string): string =>
  `${wish}:${Buffer.from(random(12)).toString('hex')}`;

const answered = (output: Json): Outcome<Answer> => ok({ output, marks: EMPTY });

/** Ends a thread that nobody runs, and those below it; a parent that runs here hears of it. */
function endIdle(
  ports: HarnessPorts,
  id: string,
  status: EndedFromOutside,
  by: string,
): Outcome<null> {
  const ended = endUnattended(ports.store, id, status, by);
  if (!ended.ok) return ended;
  for (const child of unfinished(ports, id)) endThread(ports, child.id, status, by);
  const row = ports.store.thread(id);
  const result = row.ok ? resultOf(row.output) : undefined;
  if (!row.ok || !result) return ok(null);
  if (row.output.detached) ports.store.cancel(apartKey(id));
  const parent = ports.threads.live.get(row.output.parent ?? '')?.thread;
  if (parent && row.output.kind === 'thread') countChild(parent, result);
  return ok(null);
}

function endThread(
  ports: HarnessPorts,
  id: string,
  status: EndedFromOutside,
  by: string,
): Outcome<null> {
  const row = ports.store.thread(id);
  if (!row.ok) return row;
  if (IDLE.has(row.output.status)) return endIdle(ports, id, status, by);
  const kind = status === 'killed' ? 'kill' : 'terminate';
  return ports.store.signal(id, kind, {}, keyOf(ports, kind), by);
}

/** Another thread's words carry what it has read; a person's are a person's. */
const marksOf = ({ thread, given }: Asker): JsonObject =>
  thread ? { marks: packMarks(given) } : {};

export function steer(
  asker: Asker,
  id: string,
  wish: Wish,
  payload: JsonObject = {},
): Outcome<Answer> {
  const { ports, by } = asker;
  const row = reach(asker, id, 'thread.control');
  if (!row.ok) return row;
  const { status } = row.output;
  if (IDLE.has(status) && (wish === 'terminate' || wish === 'kill')) {
    const now = wish === 'kill' ? 'killed' : 'terminated';
    const ended = endIdle(ports, id, now, by);
    return ended.ok ? answered({ thread_id: id, status: now }) : ended;
  }
  if (wish === 'pause' && status === 'paused') return answered({ thread_id: id, status });
  const marked = { ...payload, ...marksOf(asker) };
  const sent = ports.store.signal(id, wish, marked, keyOf(ports, wish), by);
  return sent.ok ? answered({ thread_id: id, status, signal: wish }) : sent;
}

/** Takes up a thread that is paused or was left behind; it runs in this process from here on. */
export async function resume(asker: Asker, id: string, message: string): Promise<Outcome<Answer>> {
  const { ports, by } = asker;
  const row = reach(asker, id, 'thread.control');
  if (!row.ok) return row;
  const { status } = row.output;
  if (!IDLE.has(status)) {
    return fail(
      'invalid_input',
      `thread \`${id}\` is ${status}; only a paused, waiting or interrupted thread can be resumed`,
      {
        thread: id,
        status,
      },
    );
  }
  const payload = { ...(message ? { content: message } : {}), ...marksOf(asker) };
  const sent = ports.store.signal(id, 'resume', payload, keyOf(ports, 'resume'), by);
  if (!sent.ok) return sent;
  const resumed = ports.threads.resume(id);
  const first = await Promise.race([resumed, ports.threads.live.entered(id)]);
  if (first && !first.ok) return first;
  return answered({ thread_id: id, status: first ? first.output.status : 'running' });
}
