// Looking at threads: their state, their events, their results. What comes back carries the marks
// that were recorded with it. A thread sees and steers itself and those below it; a person or program
// outside of threads sees the registry of the project, as far as the policy for the surface allows.
import {
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  setOwn,
} from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeAll } from '../../flow/index.ts';
import type { Verifier } from '../../kernel/index.ts';
import {
  isEnded,
  type StoredEvent,
  type ThreadRow,
  type ThreadStatus,
  type ThreadSummary,
} from '../../store/index.ts';
import { awaitEnd, RESTS, shownResult } from '../children/children.ts';
import { unpackMarks } from '../thread/conversation.ts';
import { readJournal } from '../thread/journal-event.ts';
import type { CallIntent, HarnessPorts, Thread } from '../thread/thread.ts';

/** Who asks about a thread or wants something of it. */
export interface Asker {
  readonly ports: HarnessPorts;
  /** The thread that asks; undefined for a person or a program. */
  readonly thread: Thread | undefined;
  readonly surface: string;
  /** For the records. */
  readonly by: string;
  readonly verify: Verifier;
  /** What its words carry. */
  readonly given: Descriptor;
  readonly signal: AbortSignal;
  /** The call it asks with, when it is a thread. */
  readonly intent?: CallIntent;
}

/** Finds a thread that the asker may read or control. */
export async function reach(
  { ports, thread, verify }: Asker,
  id: string,
  capability: 'thread.read' | 'thread.control' | 'registry.read',
): Promise<Outcome<ThreadRow>> {
  const row = await ports.store.thread(id);
  const isBelow = !thread || (row.ok && row.output.chain.includes(thread.place.id));
  const isRegistry = capability === 'registry.read';
  const held = verify({ capability, ...(!isRegistry && { scope: { subtree: 'own' } }) });
  if (!held.ok) return held;
  if (isBelow || !row.ok) return row;
  // Before it is told whether there is such a thread: ids of others are none of its business.
  const wider = isRegistry ? 'thread.read' : capability;
  const any = verify({ capability: wider, scope: { subtree: 'any' } });
  return any.ok ? row : any;
}

export interface Answer {
  output: Json;
  marks: Descriptor;
}

const plain = (output: Json): Outcome<Answer> => ok({ output, marks: EMPTY });
const when = (ms: number): string => new Date(ms).toISOString();

/** As a list shows it. */
function summary(row: ThreadSummary): JsonObject {
  const { id, directive, version, runner, status, depth, parent, kind, attempt, seq, cost } = row;
  return {
    thread_id: id,
    status,
    directive,
    version,
    runner,
    kind,
    depth,
    attempt,
    seq,
    ...(parent === undefined ? {} : { parent }),
    created_at: when(row.created),
    updated_at: when(row.updated),
    ...(row.ended === undefined ? {} : { ended_at: when(row.ended) }),
    cost,
  };
}

export async function threadStatus(
  asker: Asker,
  id: string,
  capability: 'thread.read' | 'registry.read' = 'thread.read',
): Promise<Outcome<Answer>> {
  const row = await reach(asker, id, capability);
  if (!row.ok) return row;
  return plain({ ...summary(row.output), limits: row.output.limits });
}

export async function queryThreads(asker: Asker, filter: JsonObject): Promise<Outcome<Answer>> {
  const held = asker.verify({ capability: 'registry.read' });
  if (!held.ok) return held;
  const { directive_name, status, limit, cursor } = filter;
  const order = plainText(filter.order_by ?? 'created_at DESC').toLowerCase();
  const [column = '', direction = 'desc'] = order.split(/\s+/);
  if (!['created', 'created_at', 'updated', 'updated_at'].includes(column)) {
    const message = `threads cannot be ordered by \`${order}\`; use \`created_at\` or \`updated_at\`, with \`asc\` or \`desc\``;
    return fail('invalid_input', message);
  }
  const page = await asker.ports.store.query({
    order_by: column.startsWith('updated') ? 'updated' : 'created',
    direction: direction === 'asc' ? 'asc' : 'desc',
    ...(asker.thread ? { within: asker.thread.place.id } : {}),
    ...(directive_name === undefined ? {} : { directive: plainText(directive_name) }),
    ...(status === undefined ? {} : { status: plainText(status) as ThreadStatus }),
    ...(typeof limit === 'number' ? { limit } : {}),
    ...(cursor === undefined ? {} : { cursor: plainText(cursor) }),
  });
  if (!page.ok) return page;
  const { rows, next_cursor } = page.output;
  return plain({ threads: rows.map(summary), ...(next_cursor ? { next_cursor } : {}) });
}

/** An event without what is only for the machine. */
function shownEvent({ seq, ts, turn, type, data }: StoredEvent): JsonObject {
  const shown: JsonObject = { seq, ts: when(ts), turn, type };
  for (const [name, value] of Object.entries(data)) {
    if (name !== 'marks') setOwn(shown, name, value);
  }
  return shown;
}

// INVARIANT: an event's words may repeat what any earlier event said, so all of them carry the marks
// of the whole journal up to there.
async function marksUpTo(asker: Asker, id: string): Promise<Outcome<Descriptor>> {
  const live = asker.ports.threads.live.get(id);
  if (live) return ok(live.thread.talk.conversation.ownMarks());
  const history = await readJournal(asker.ports.store, id);
  if (!history.ok) return history;
  const marked = history.output.flatMap(({ data }) => ('marks' in data ? [data.marks] : []));
  return ok(mergeAll(marked.map(unpackMarks)));
}

export async function threadEvents(
  asker: Asker,
  id: string,
  count: number,
  capability: 'thread.read' | 'registry.read',
): Promise<Outcome<Answer>> {
  const row = await reach(asker, id, capability);
  if (!row.ok) return row;
  const events = await asker.ports.store.read(id, { last: Math.max(1, Math.min(count, 1000)) });
  if (!events.ok) return events;
  const marks = await marksUpTo(asker, id);
  if (!marks.ok) return marks;
  const { status } = row.output;
  const output = { thread_id: id, status, events: events.output.map(shownEvent) };
  return ok({ output, marks: marks.output });
}

const MAX_WAIT_MS = 24 * 3600 * 1000;

/** The result, or how far it is when the time is up. */
async function waitOne(asker: Asker, id: string, signal: AbortSignal): Promise<Outcome<Answer>> {
  const own = asker.thread?.place;
  // Itself and those above wait for it: it would wait for ever.
  if (own?.chain.includes(id)) {
    const message = `thread \`${own.id}\` cannot wait for \`${id}\`, which waits for it`;
    return fail('invalid_input', message);
  }
  const row = await reach(asker, id, 'thread.read');
  if (!row.ok) return row;
  // Who waits for a person is told as such, whether it came to rest before or meanwhile.
  if (RESTS.has(row.output.status)) return await stillRunning(asker, id);
  const ended = await awaitEnd(asker.ports, id, signal);
  if (!ended.ok) return ended;
  const result = ended.output;
  return result && isEnded(result.status)
    ? ok({ output: shownResult(result), marks: unpackMarks(result.marks) })
    : await stillRunning(asker, id);
}

async function stillRunning({ ports }: Asker, id: string): Promise<Outcome<Answer>> {
  const row = await ports.store.thread(id);
  if (!row.ok) return row;
  const { status, seq, cost } = row.output;
  return plain({ thread_id: id, status: status === 'spawning' ? 'running' : status, seq, cost });
}

export async function waitThreads(
  asker: Asker,
  ids: readonly string[],
  timeoutMs: number,
): Promise<Outcome<Answer[]>> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), Math.max(0, Math.min(timeoutMs, MAX_WAIT_MS)));
  const signal = AbortSignal.any([over.signal, asker.signal]);
  // Whoever waits can be spoken to: it answers with how far things are, and listens.
  const deaf = asker.thread
    ? asker.ports.store.onSignal(({ thread }) => {
        if (thread === asker.thread?.place.id) over.abort();
      })
    : () => {};
  try {
    const answers = await Promise.all(ids.map((id) => waitOne(asker, id, signal)));
    const failed = answers.find((answer) => !answer.ok);
    if (failed && !failed.ok) return failed;
    return asker.signal.aborted
      ? fail('cancelled', 'the wait was cancelled')
      : ok(answers.flatMap((answer) => (answer.ok ? [answer.output] : [])));
  } finally {
    clearTimeout(timer);
    deaf();
    over.abort();
  }
}
