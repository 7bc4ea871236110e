// Steers one thread: message, pause, interrupt, end and resume.
import { fail, type Json, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import { EMPTY } from '../../flow/index.ts';
import { isEnded, type ThreadStatus } from '../../store/index.ts';
import { countChild, endUnattended, resultOf } from '../children/children.ts';
import { packMarks } from '../thread/conversation.ts';
import { type Answer, isClient, nameFor, reach, type ThreadReader } from './read-threads.ts';

/** Kind of a signal. A thread that no process runs is ended or resumed here. */
export type SignalKind = 'message' | 'pause' | 'interrupt' | 'terminate' | 'kill';

/** No process runs these threads, so a signal alone would wait forever. */
const IDLE = new Set<ThreadStatus>(['paused', 'waiting', 'needs_input', 'interrupted']);
type EndedFromOutside = 'terminated' | 'killed';

const toAnswer = (output: Json): Outcome<Answer> => ok({ output, marks: EMPTY });

/** Sends a signal. Two equal requests are two signals. */
function send(
  { ports, by }: Pick<ThreadReader, 'ports' | 'by'>,
  id: string,
  kind: string,
  payload: Json,
) {
  const key = `${kind}:${Buffer.from(ports.random(12)).toString('hex')}`;
  return ports.store.signal({ thread: id, kind, payload, key, by });
}

/** Ends a thread that no process runs, and its descendants. A parent that runs here counts its cost. */
async function endIdle(
  { ports, by }: Pick<ThreadReader, 'ports' | 'by'>,
  id: string,
  status: EndedFromOutside,
): Promise<Outcome<null>> {
  const ended = await endUnattended(ports.store, id, status, by, { watch: ports.watch });
  if (!ended.ok) return ended;
  const row = await ports.store.thread(id);
  const result = row.ok ? resultOf(row.output) : undefined;
  if (!row.ok || !result) return ok(null);
  const parent = ports.threads.live.get(row.output.parent ?? '')?.thread;
  if (parent && row.output.kind === 'thread') countChild(parent, result);
  return ok(null);
}

async function endRunning(
  asker: Pick<ThreadReader, 'ports' | 'by'>,
  id: string,
  end: EndedFromOutside,
  payload: JsonObject,
): Promise<Outcome<null>> {
  const sent = await send(asker, id, end === 'killed' ? 'kill' : 'terminate', payload);
  if (!sent.ok) return sent;
  // A thread that parked before the signal arrived would handle it only after a resume, so it is ended here.
  const now = await asker.ports.store.thread(id);
  return now.ok && IDLE.has(now.output.status) ? await endIdle(asker, id, end) : ok(null);
}

/** Returns the marks of a message: those of the sending thread or program, or none, which means a person's. */
const marksOf = (asker: ThreadReader): JsonObject =>
  asker.thread || isClient(asker) ? { marks: packMarks(asker.given) } : {};

export async function steer(
  asker: ThreadReader,
  name: string,
  kind: SignalKind,
  payload: JsonObject = {},
): Promise<Outcome<Answer>> {
  const row = await reach(asker, name, 'thread.control');
  if (!row.ok) return row;
  const { id, status } = row.output;
  if (isEnded(status)) {
    const message = `thread \`${name}\` has ended (${status}) and cannot be steered`;
    return fail('thread_ended', message, { thread: name, status });
  }
  const about = { thread_id: nameFor(asker, id) };
  const marked = { ...payload, ...marksOf(asker) };
  if (kind === 'terminate' || kind === 'kill') {
    const end = kind === 'kill' ? 'killed' : 'terminated';
    const isIdle = IDLE.has(status);
    const ended = await (isIdle ? endIdle(asker, id, end) : endRunning(asker, id, end, marked));
    if (!ended.ok) return ended;
    return toAnswer({ ...about, ...(isIdle ? { status: end } : { status, signal: kind }) });
  }
  if (kind === 'pause' && status === 'paused') return toAnswer({ ...about, status });
  const sent = await send(asker, id, kind, marked);
  return sent.ok ? toAnswer({ ...about, status, signal: kind }) : sent;
}

/** Resumes a paused or interrupted thread in this process. */
export async function resume(
  asker: ThreadReader,
  name: string,
  message: string,
): Promise<Outcome<Answer>> {
  const row = await reach(asker, name, 'thread.control');
  if (!row.ok) return row;
  const { id, status } = row.output;
  if (!IDLE.has(status)) {
    const later = isEnded(status) ? '' : '; a pause takes effect at its next step: wait for that';
    const message = `thread \`${name}\` is ${status}; only a paused, waiting or interrupted thread can be resumed${later}`;
    return fail('invalid_input', message, { thread: name, status });
  }
  const payload = { ...(message && { content: message }), ...marksOf(asker) };
  const sent = await send(asker, id, 'resume', payload);
  if (!sent.ok) return sent;
  const { threads } = asker.ports;
  const first = await Promise.race([threads.resume(id), threads.live.entered(id)]);
  if (first && !first.ok) return first;
  return toAnswer({
    thread_id: nameFor(asker, id),
    status: first ? first.output.status : 'running',
  });
}
