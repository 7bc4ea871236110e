// Reads threads: their state, events and results, with the marks that were recorded with them. A thread can read
// and steer itself and its descendants. A person or program outside of threads can read the store of the project,
// within the policy of the surface.
import {
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  setOwn,
} from '../../base/index.ts';
import { type Descriptor, EMPTY, mergeAll, type Value } from '../../flow/index.ts';
import { eventFlags, readJournal } from '../../journal/index.ts';
import type { Handles, Verifier } from '../../kernel/index.ts';
import {
  isEnded,
  type StoredEvent,
  type ThreadRow,
  type ThreadStatus,
  type ThreadSummary,
} from '../../store/index.ts';
import { awaitEnd, RESTS, shownResult } from '../children/children.ts';
import { unpackMarks } from '../thread/conversation.ts';
import type { CallIntent, HarnessPorts, Interruption, Thread } from '../thread/thread.ts';

/** The caller of a function about a thread. */
export interface ThreadReader {
  readonly ports: HarnessPorts;
  /** Thread that calls. `undefined`: a person or a program. */
  readonly thread: Thread | undefined;
  readonly surface: string;
  readonly by: string;
  readonly verify: Verifier;
  readonly given: Descriptor;
  /** Parameters of the call with their labels. */
  readonly values?: ReadonlyMap<string, Value>;
  readonly signal: AbortSignal;
  readonly intent?: CallIntent;
  readonly handles?: Handles | undefined;
}

/** True for a remote program, which is not the owner of these threads. */
export const isClient = ({ thread, surface }: ThreadReader): boolean =>
  !thread && surface === 'mcp';

// INVARIANT: a client only ever names the handles that it got, whatever its policy allows. It never gets the ids
// of other threads.
const idFor = (asker: ThreadReader, name: string): string | undefined =>
  isClient(asker) ? asker.handles?.idOf(name) : name;

export const nameFor = (asker: ThreadReader, id: string): string =>
  isClient(asker) ? (asker.handles?.handleOf(id) ?? '') : id;

const NOT_HANDED = fail(
  'permission_denied',
  'thread not found among your handles; use the whole handle that the start of the thread returned',
  { missing: 'handle' },
);

/** Finds a thread that the asker may read or control. */
export async function reach(
  asker: ThreadReader,
  name: string,
  capability: 'thread.read' | 'thread.control' | 'registry.read',
): Promise<Outcome<ThreadRow>> {
  const { ports, thread, verify } = asker;
  const id = idFor(asker, name);
  if (id === undefined) return NOT_HANDED;
  const row = await ports.store.thread(id);
  const isBelow = !thread || (row.ok && row.output.chain.includes(thread.place.id));
  const isRegistry = capability === 'registry.read';
  const allowed = verify({ capability, ...(!isRegistry && { scope: { subtree: 'own' } }) });
  if (!allowed.ok) return allowed;
  if (isBelow || !row.ok) return row;
  // This check precedes the lookup, so that a caller cannot probe for ids of other threads.
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

function summary(asker: ThreadReader, row: ThreadSummary): JsonObject {
  const { id, directive, version, runner, status, depth, kind, attempt, seq, cost } = row;
  const parent = isClient(asker) ? undefined : row.parent;
  return {
    thread_id: nameFor(asker, id),
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
  asker: ThreadReader,
  id: string,
  capability: 'thread.read' | 'registry.read' = 'thread.read',
): Promise<Outcome<Answer>> {
  const row = await reach(asker, id, capability);
  if (!row.ok) return row;
  return plain({ ...summary(asker, row.output), limits: row.output.limits });
}

const MAX_HANDED = 100;

// INVARIANT: a client is only ever listed the threads whose handles it got.
async function queryHanded(asker: ThreadReader, filter: JsonObject): Promise<Outcome<Answer>> {
  const { directive_name, status, limit } = filter;
  const order = plainText(filter.order_by).toLowerCase();
  const isUpdated = order.startsWith('updated');
  const rows = [];
  for (const id of (asker.handles?.handed?.() ?? []).slice(-MAX_HANDED)) {
    const row = await asker.ports.store.thread(id);
    if (!row.ok) continue;
    if (directive_name !== undefined && row.output.directive !== directive_name) continue;
    if (status === undefined || row.output.status === status) rows.push(row.output);
  }
  const at = ({ created, updated }: ThreadSummary): number => (isUpdated ? updated : created);
  rows.sort((a, b) => (order.endsWith(' asc') ? at(a) - at(b) : at(b) - at(a)));
  const listed = rows.slice(0, typeof limit === 'number' ? Math.max(0, limit) : MAX_HANDED);
  return plain({ threads: listed.map((row) => summary(asker, row)) });
}

export async function queryThreads(
  asker: ThreadReader,
  filter: JsonObject,
): Promise<Outcome<Answer>> {
  const allowed = asker.verify({ capability: 'registry.read' });
  if (!allowed.ok) return allowed;
  if (isClient(asker)) return await queryHanded(asker, filter);
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
  return plain({
    threads: rows.map((row) => summary(asker, row)),
    ...(next_cursor ? { next_cursor } : {}),
  });
}

/** Returns an event without fields that only programs read. */
function shownEvent({ seq, ts, turn, type, data }: StoredEvent): JsonObject {
  const visible: JsonObject = { seq, ts: when(ts), turn, type };
  for (const [name, value] of Object.entries(data)) {
    if (name !== 'marks') setOwn(visible, name, value);
  }
  return visible;
}

// INVARIANT: the text of an event can repeat any earlier event, so it always carries the marks of the whole
// journal up to there.
async function marksUpTo(asker: ThreadReader, id: string): Promise<Outcome<Descriptor>> {
  const live = asker.ports.threads.live.get(id);
  if (live) return ok(live.thread.talk.conversation.allMarks());
  const history = await readJournal(asker.ports.store, id);
  if (!history.ok) return history;
  const marked = history.output.flatMap(({ data }) => ('marks' in data ? [data.marks] : []));
  // The journal also has the arguments of calls and the progress of tools.
  const described = history.output.flatMap(({ type, data }) =>
    type === 'tool_call' ? Object.values(data.about ?? {}) : [],
  );
  return ok(mergeAll([...marked, ...described].map(unpackMarks)));
}

/** Matches ids that are generated from a name and the time. Nothing else has this form. */
const AUTO_ID = /_\d{8}_\d{6}_[0-9a-z]{4}$/;

/** Returns events for a client, with the thread and its children under the client's handles. */
function withHandles(
  asker: ThreadReader,
  id: string,
  events: readonly StoredEvent[],
): JsonObject[] {
  const visible = events.map(shownEvent);
  if (!isClient(asker)) return visible;
  const spawned = events.flatMap(({ type, data: { thread_id } }) =>
    type === 'spawn' && typeof thread_id === 'string' ? [thread_id] : [],
  );
  const names = new Map([id, ...spawned].map((each) => [each, nameFor(asker, each)]));
  const rename = (_key: string, value: Json): Json => {
    if (typeof value !== 'string') return value;
    let text = names.get(value) ?? value;
    if (text !== value) return text;
    for (const [each, name] of names) if (AUTO_ID.test(each)) text = text.replaceAll(each, name);
    return text;
  };
  return JSON.parse(JSON.stringify(visible, rename)) as JsonObject[];
}

export async function threadEvents(
  asker: ThreadReader,
  name: string,
  { count, after }: { count: number; after: number | undefined },
  capability: 'thread.read' | 'registry.read',
): Promise<Outcome<Answer>> {
  const row = await reach(asker, name, capability);
  if (!row.ok) return row;
  const { id, status } = row.output;
  const limit = Math.max(1, Math.min(count, 1000));
  const range = after === undefined ? { last: limit } : { after, limit };
  const events = await asker.ports.store.read(id, range);
  if (!events.ok) return events;
  const marks = await marksUpTo(asker, id);
  if (!marks.ok) return marks;
  const visible = withHandles(asker, id, events.output);
  const output = { thread_id: nameFor(asker, id), status, events: visible };
  return ok({ output, marks: marks.output });
}

const MAX_WAIT_MS = 24 * 3600 * 1000;

/** Waits for a thread. Returns its result, or its state when the time is up. */
async function waitOne(
  asker: ThreadReader,
  name: string,
  signal: AbortSignal,
): Promise<Outcome<Answer>> {
  const own = asker.thread?.place;
  // The thread itself and its ancestors wait for this call, so the wait would never end.
  if (own?.chain.includes(name)) {
    const message = `thread \`${own.id}\` cannot wait for \`${name}\`, which waits for it`;
    return fail('invalid_input', message);
  }
  const row = await reach(asker, name, 'thread.read');
  if (!row.ok) return row;
  const { id } = row.output;
  // A parked thread waits for a person, so the answer says that.
  if (RESTS.has(row.output.status)) return await stillRunning(asker, id);
  const news = isEnded(row.output.status) ? undefined : showProgress(asker, row.output, signal);
  const ended = await awaitEnd(asker.ports, id, signal);
  if (!ended.ok) return ended;
  const result = ended.output;
  // The events of the last turns precede the result.
  if (result && isEnded(result.status)) await news;
  return result && isEnded(result.status)
    ? ok({
        output: { ...shownResult(result), thread_id: nameFor(asker, id) },
        marks: unpackMarks(result.marks),
      })
    : await stillRunning(asker, id);
}

async function stillRunning(asker: ThreadReader, id: string): Promise<Outcome<Answer>> {
  const row = await asker.ports.store.thread(id);
  if (!row.ok) return row;
  const { seq, cost } = row.output;
  const status = row.output.status === 'spawning' ? 'running' : row.output.status;
  const name = nameFor(asker, id);
  const next = isClient(asker) ? { next: nextStep(name, status) } : {};
  return plain({ thread_id: name, status, seq, cost, ...next });
}

/** Returns the next step as text, for a client that has only this answer. */
function nextStep(name: string, status: ThreadStatus): string {
  const call = (action: string) =>
    `execute ${JSON.stringify({ item_type: 'thread', item_id: name, action })}`;
  if (status === 'waiting' || status === 'needs_input') {
    return `a person must decide first; then ${call('resume')}`;
  }
  return status === 'paused' || status === 'interrupted'
    ? `it is parked; ${call('resume')}`
    : `${call('wait')}; or action status, inject, pause, cancel`;
}

/** Interval of reports without an event, because some clients drop a silent call. */
const SILENCE_MS = 5000;
/** True for the beginning of a turn or a call, and for the end of the thread. */
const isStep = (type: string): boolean =>
  type === 'tool_call' || type === 'thread_end' || eventFlags(type).turn === 'begins';

/** Reports every turn and step, and that the thread still runs. */
async function showProgress(
  { ports, handles }: ThreadReader,
  { id, seq, limits }: ThreadRow,
  signal: AbortSignal,
): Promise<void> {
  if (!handles?.onProgress) return;
  let state: JsonObject = {};
  const sendState = async (more: JsonObject): Promise<void> => {
    const row = await ports.store.thread(id);
    if (!row.ok || signal.aborted) return;
    const { status, cost } = row.output;
    state = { ...state, ...more, status, cost, limits };
    handles.onProgress?.(state);
  };
  await sendState({});
  const timer = setInterval(() => void sendState({}), SILENCE_MS);
  try {
    for await (const { type, turn, data } of ports.store.watch({ thread: id, seq }, signal)) {
      if (!isStep(type)) continue;
      timer.refresh();
      await sendState({ turn, step: type === 'tool_call' ? plainText(data.tool) : '' });
      if (type === 'thread_end') return;
    }
  } catch {
    // The store was closed. The wait itself fails then.
  } finally {
    clearInterval(timer);
  }
}

export async function waitThreads(
  asker: ThreadReader,
  ids: readonly string[],
  timeoutMs: number,
): Promise<Outcome<Answer[]>> {
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(), Math.max(0, Math.min(timeoutMs, MAX_WAIT_MS)));
  const signal = AbortSignal.any([over.signal, asker.signal]);
  // A thread that waits can get signals. The wait ends with the current state then.
  const unsubscribe = asker.thread
    ? asker.ports.store.onSignal(({ thread }) => {
        if (thread === asker.thread?.place.id) over.abort();
      })
    : () => {};
  const control = asker.thread?.control;
  // The process that resumes the thread waits again.
  const leave: Interruption = {
    signal: over.signal,
    cause: () => undefined,
    check() {
      if (control?.leaving) over.abort();
    },
    release: () => void control?.interruptions.delete(leave),
  };
  control?.interruptions.add(leave);
  leave.check();
  try {
    const answers = await Promise.all(ids.map((id) => waitOne(asker, id, signal)));
    if (control?.leaving) {
      control.ending ??= control.leaving;
      return fail('handed_over', 'another process continues the wait');
    }
    const failed = answers.find((answer) => !answer.ok);
    if (failed && !failed.ok) return failed;
    return asker.signal.aborted
      ? fail('cancelled', 'the wait was cancelled')
      : ok(answers.flatMap((answer) => (answer.ok ? [answer.output] : [])));
  } finally {
    clearTimeout(timer);
    unsubscribe();
    leave.release();
    over.abort();
  }
}
