// Forks a thread: a new root continues at a boundary of another journal. The events before the boundary are copied
// through this process, because the secrets of each thread are sealed with its own key. INVARIANT: a fork never
// executes or pays for anything that its source did, and it never writes to its source.
import {
  fail,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  setOwn,
} from '../../base/index.ts';
import {
  type Boundary,
  boundariesOf,
  changedInputs,
  conversation,
  type DataOf,
  decodeAll,
  eventsInForce,
  type ForkPoint,
  hasLastWord,
  hidesUntrusted,
  type JournalEvent,
  project,
  type Recorded,
  startOf,
} from '../../journal/index.ts';
import type { Answer, NewEvent, ThreadRow } from '../../store/index.ts';
import { followUpFiles, takeBytes, withVouched } from '../files/attachment.ts';
import { packLimits } from '../limits/effective-limits.ts';
import { modeFor } from '../rights/reading-mode.ts';
import { declaredRights } from '../rights/thread-token.ts';
import { usesWithin } from '../rights/use-budgets.ts';
import { artifactsIn } from '../secrets/sealed-store.ts';
import { FROM_USER, packMarks } from '../thread/conversation.ts';
import { checkedEvents } from '../thread/journal-writer.ts';
import type { ReadyFile } from '../thread/ports.ts';
import { skippedResult } from '../thread/prompt.ts';
import { snapshotCall } from '../thread/restore.ts';
import type { HarnessPorts, Prepared } from '../thread/thread.ts';
import { aboutRun } from './about-run.ts';
import type { RunRequest, StartedBy } from './prepare.ts';
import { hasOwnJournal } from './runner.ts';
import { createRow, leaveQueued, prepareElsewhere, startRow, whatRan } from './start.ts';

/** Bounds of the copied events and artifacts. */
const [MAX_EVENTS, MAX_BYTES] = [20_000, 32 * 1024 * 1024];

export interface ForkOptions extends Pick<RunRequest, 'model' | 'limits' | 'message' | 'attach'> {
  /** Absent: the last boundary of the journal. */
  at?: ForkPoint;
  by: StartedBy;
  /** Reason of the person, for the audit. */
  why?: string;
}

export interface Forked {
  thread: string;
  /** Number of the last event at the start. */
  seq: number;
}

const cannotFork = (message: string, more: JsonObject = {}) => fail('invalid_input', message, more);

/** Checks the source before its journal is read. */
function mayFork(ports: HarnessPorts, row: ThreadRow): Outcome<null> {
  const { id, parent, root } = row;
  if (parent !== undefined) {
    return cannotFork(
      `thread \`${id}\` is ${row.kind === 'hook' ? 'a hook' : 'a child'}, whose rights depend on its parent; fork its root \`${root}\``,
      { thread: id, root },
    );
  }
  return hasOwnJournal(ports, row, 'fork');
}

const wordOf = ({ seq, turn, isSnapshot }: Boundary): string =>
  `${seq} (${isSnapshot ? 'snapshot' : turn === 0 ? 'opening' : `turn:${turn}`})`;

/** Returns the requested boundary. Fails with `invalid_input` and the nearest ones if it is none. */
function findBoundary(id: string, history: readonly Recorded[], at: ForkPoint): Outcome<Boundary> {
  const all = boundariesOf(history);
  const isTurn = typeof at === 'string' && at !== 'last';
  const number = Number(isTurn ? at.slice('turn:'.length) : at);
  const position = ({ seq, turn }: Boundary): number => (isTurn ? turn : seq);
  const found =
    at === 'last'
      ? all.at(-1)
      : all.findLast((one) => position(one) === number && !(isTurn && one.isSnapshot));
  if (found) return ok(found);
  const before = all.findLast((one) => position(one) < number);
  const after = all.find((one) => position(one) > number);
  const near = [before, after].filter((one) => one !== undefined);
  const hint = near.length > 0 ? `fork at ${near.map(wordOf).join(' or ')}` : 'it has no boundary';
  return cannotFork(`\`${at}\` is no boundary of thread \`${id}\`; ${hint}`, {
    thread: id,
    boundaries: near.map(({ seq }) => seq),
  });
}

interface Source {
  readonly history: readonly Recorded[];
  readonly boundary: Boundary;
}

/** Reads a journal with its secrets. Fails with `invalid_input` if the boundary is none, or behind too many events. */
async function readSource(
  { threads }: HarnessPorts,
  { id, seq }: ThreadRow,
  at: ForkPoint,
): Answer<Source> {
  const stored = await threads.history(id, MAX_EVENTS);
  const history = stored.ok ? decodeAll(stored.output) : stored;
  if (!history.ok) return history;
  const found = findBoundary(id, history.output, at);
  if (seq > MAX_EVENTS && (at === 'last' || !found.ok)) {
    return cannotFork(
      `thread \`${id}\` has ${seq} events; a fork copies at most ${MAX_EVENTS}, so fork at an earlier event`,
      { thread: id, events: seq, max: MAX_EVENTS },
    );
  }
  return found.ok ? ok({ history: history.output, boundary: found.output }) : found;
}

/** Returns the events for another journal, with their turns and times. */
export function copyEvents(events: readonly Recorded[]): Outcome<NewEvent[]> {
  const copies: NewEvent[] = [];
  for (const event of events) {
    const checked = checkedEvents([event], event.turn);
    if (!checked.ok) return checked;
    for (const one of checked.output) copies.push({ ...one, ts: event.ts });
  }
  return ok(copies);
}

/** Returns the artifacts that the copies name. Fails with `invalid_input` if both are too large. */
async function artifactsOf(
  { store }: Pick<HarnessPorts, 'store'>,
  id: string,
  copies: readonly NewEvent[],
): Answer<Map<string, Uint8Array>> {
  const artifacts = new Map<string, Uint8Array>();
  let bytes = 0;
  for (const { text = '' } of copies) {
    bytes += Buffer.byteLength(text);
    for (const name of artifactsIn(text)) {
      const artifact = artifacts.has(name) ? undefined : await store.artifact(id, name);
      if (!artifact?.ok) continue;
      artifacts.set(name, artifact.output);
      bytes += artifact.output.length;
    }
    if (bytes <= MAX_BYTES) continue;
    return cannotFork(
      `thread \`${id}\` has more than ${MAX_BYTES} bytes before this boundary, the maximum of a fork; fork at an earlier event`,
      { thread: id, max: MAX_BYTES },
    );
  }
  return ok(artifacts);
}

/** False for a script, which asks no model, and for a plan. */
export const hasConversation = (start: DataOf<'thread_start'> | undefined): boolean =>
  start !== undefined && start.plan === undefined && start.model !== 'none';

export const noConversation = (thread: string) =>
  cannotFork(`thread \`${thread}\` runs a script or a plan, which no model can continue`, {
    thread,
  });

/** Returns the model in force at the end of these events. */
function modelAt(prefix: readonly Recorded[]): string {
  let model = '';
  for (const { type, data } of prefix) {
    if (type === 'thread_start' || type === 'fork') model = data.model;
    else if (type === 'model_fallback') model = data.to;
    else if (type === 'signal' || type === 'hook') model = data.model ?? model;
  }
  return model;
}

/** True if the model had the last word at the boundary, or had returned its outputs. */
function isFinished(history: readonly Recorded[], { seq }: Boundary): boolean {
  if (hasLastWord(history.slice(0, seq))) return true;
  const next = history
    .slice(seq)
    .find(({ type }) => type === 'turn_start' || type === 'thread_end');
  return next?.type === 'thread_end' && next.data.status === 'completed';
}

/** Counts the uses of counted tools by threads that the source had started. They count in the fork too. */
async function usesBelow(
  ports: HarnessPorts,
  { directive }: Prepared,
  prefix: readonly Recorded[],
): Answer<Record<string, number>> {
  const uses: Record<string, number> = {};
  const rights = declaredRights(ports, directive);
  if (!rights.ok) return rights;
  const children = prefix.flatMap(({ type, data }) =>
    type === 'spawn' || type === 'hook_start' ? [data.thread_id] : [],
  );
  for (const tool of Object.keys(rights.output.uses)) {
    for (const thread of new Set(children)) {
      const count = await usesWithin(ports.store, { thread, tool });
      if (!count.ok) return count;
      if (count.output > 0) setOwn(uses, tool, count.output + Number(getOwn(uses, tool) ?? 0));
    }
  }
  return ok(uses);
}

/** Returns the events with which a fork begins, after the copied ones. Calls that are open there get a result. */
function openingOf(
  source: string,
  prefix: readonly Recorded[],
  data: DataOf<'fork'>,
  message: string | undefined,
  files: readonly ReadyFile[],
): JournalEvent[] {
  const [marks, { by }] = [packMarks(FROM_USER), data];
  const snapshot = prefix.at(-1);
  const maker =
    snapshot?.type === 'snapshot' ? snapshotCall(eventsInForce(prefix), snapshot.seq) : undefined;
  const results = project(conversation, prefix)
    .pending()
    .map(({ id, name }): JournalEvent => {
      const isMaker = id === maker;
      const content: Json = isMaker
        ? { action: 'checkpoint', snapshot: data.at }
        : skippedResult(name, 'the thread was forked before this call');
      return { type: 'tool_result', data: { call_id: id, content, is_error: !isMaker, marks } };
    });
  const text = `[harness] this thread was forked from ${source} at event ${data.at}; what ${source} did after that is not undone.`;
  return [
    { type: 'fork', data },
    ...results,
    { type: 'injected_message', data: { text, marks, by: 'harness' } },
    ...followUpFiles(files, by),
    ...(message === undefined
      ? []
      : [{ type: 'injected_message', data: { text: message, by, marks } } as const]),
  ];
}

/** Returns the checked request of the fork, with today's directive, policy and model. */
async function prepareFork(
  ports: HarnessPorts,
  { id, directive }: ThreadRow,
  { history, boundary }: Source,
  options: ForkOptions,
): Promise<Outcome<Prepared>> {
  const start = startOf(history);
  if (!hasConversation(start)) return noConversation(id);
  const prefix = history.slice(0, boundary.seq);
  const inputs = changedInputs(prefix) ?? start?.inputs ?? {};
  const { at: _, why: __, message, model = modelAt(prefix), ...request } = options;
  const next = await prepareElsewhere(ports, { ...request, directive, inputs, model });
  if (!next.ok) return next;
  const { plan, directive: own, files = [] } = next.output;
  if (plan || own.process.script) return noConversation(id);
  if (message !== undefined || files.length > 0 || !isFinished(history, boundary)) return next;
  const ended = `thread \`${id}\` had ended its work at event ${boundary.seq}; say what is next with a message`;
  return cannotFork(ended, { thread: id });
}

/** Creates the fork as a queued root. The caller resumes it, or a worker takes it. */
export async function forkThread(
  ports: HarnessPorts,
  id: string,
  options: ForkOptions,
): Promise<Outcome<Forked>> {
  const found = await ports.store.thread(id);
  if (!found.ok) return found;
  const row = found.output;
  const may = mayFork(ports, row);
  if (!may.ok) return may;
  const { at = 'last', message, by, why = '' } = options;
  const source = await readSource(ports, row, at);
  if (!source.ok) return source;
  const { history, boundary } = source.output;
  const prepared = await prepareFork(ports, row, source.output, options);
  if (!prepared.ok) return prepared;
  const { output: next } = prepared;
  const prefix = history.slice(0, boundary.seq);
  // The store writes the first event of a thread itself.
  const copies = copyEvents(prefix.slice(1));
  if (!copies.ok) return copies;
  const artifacts = await artifactsOf(ports, id, copies.output);
  if (!artifacts.ok) return artifacts;
  const uses = await usesBelow(ports, next, prefix);
  if (!uses.ok) return uses;
  const isStricter = modeFor(ports, next.directive) === 'reference' && !hidesUntrusted(prefix);
  const data: DataOf<'fork'> = {
    from: id,
    at: boundary.seq,
    by: `${by.who} (${by.surface})`,
    model: next.model.model,
    limits: packLimits(next.limits),
    ran: whatRan(ports, next, { by }),
    ...(isStricter && { untrusted: 'reference' }),
    ...(Object.keys(uses.output).length > 0 && { uses: uses.output }),
  };
  const { files = [] } = next;
  const turn = prefix.at(-1)?.turn ?? 0;
  const opening = checkedEvents(openingOf(id, prefix, data, message, files), turn);
  if (!opening.ok) return opening;
  const events = [...copies.output, ...opening.output];
  const title = message ?? startOf(history)?.message ?? '';
  const about = aboutRun(ports, next, title, { parent: { place: row } });
  const place = { runner: row.runner, isQueued: true } as const;
  const all = new Map([...artifacts.output, ...takeBytes(files)]);
  const created = await createRow(ports, next, place, events, about, all);
  if (!created.ok) return created;
  const { thread } = created.output;
  ports.watch.onEvent?.(thread, { type: 'fork', data, turn });
  const reason = `of ${id} at event ${data.at}${why === '' ? '' : `: ${why}`}`;
  const rows = withVouched(startRow(by, 'fork', thread, reason), files);
  const queued = await leaveQueued(ports, created.output, rows);
  return queued.ok ? ok({ thread, seq: events.length + 1 }) : queued;
}
