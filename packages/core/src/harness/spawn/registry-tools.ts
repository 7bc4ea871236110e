// Tools that write to the store. Only signed core items with `registry.write` can use them.
import { fail, isObject, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import { EMPTY } from '../../flow/index.ts';
import type { JournalEvent } from '../../journal/index.ts';
import type { NewThread } from '../../store/index.ts';
import { withLease } from '../thread/with-lease.ts';
import type { Answer, ThreadReader } from './read-threads.ts';
import { resume, type SignalKind, steer } from './steer.ts';

const NEEDED = { capability: 'registry.write' };

/** Signal for each status. The owner of the lease handles it at the next step. */
const SIGNALS: Readonly<Record<string, SignalKind>> = {
  paused: 'pause',
  terminating: 'terminate',
  terminated: 'terminate',
  killed: 'kill',
};

export async function updateStatus(
  asker: ThreadReader,
  { thread_id, status }: JsonObject,
): Promise<Outcome<Answer>> {
  const allowed = asker.verify(NEEDED);
  if (!allowed.ok) return allowed;
  const requested = plainText(status);
  if (requested === 'running') return await resume(asker, plainText(thread_id), '');
  const signal = Object.hasOwn(SIGNALS, requested) ? SIGNALS[requested] : undefined;
  if (!signal) {
    const choices = ['running', ...Object.keys(SIGNALS)].join(', ');
    return fail('invalid_input', `status \`${requested}\` cannot be set; use one of: ${choices}`);
  }
  return await steer(asker, plainText(thread_id), signal);
}

export async function register(
  asker: ThreadReader,
  parameters: JsonObject,
): Promise<Outcome<Answer>> {
  const allowed = asker.verify(NEEDED);
  if (!allowed.ok) return allowed;
  const { ports, thread } = asker;
  const id = plainText(parameters.thread_id);
  const row: NewThread = {
    id,
    directive: plainText(parameters.directive_name),
    version: '0.0.0',
    runner: 'own',
    project: ports.project,
    limits: {},
    // The thread has no runner that could spend, so nothing is reserved.
    budget: { tokens: 0n, spend: 0n, spawns: 0n },
    inputs: {},
    events: [],
    // No worker takes this row, because another system runs it.
    start: { queue: { after: Number.MAX_SAFE_INTEGER } },
  };
  const spawn: JournalEvent = {
    type: 'spawn',
    data: { thread_id: id, directive: row.directive, runner: row.runner, detached: false },
  };
  const created = thread
    ? await thread.journal.commit(spawn, { children: [row] })
    : await ports.store.createThread(row);
  if (!created.ok) return created;
  return ok({ output: { thread_id: id, status: 'spawning' }, marks: EMPTY });
}

/** Name of an event that a caller records. */
const EVENT_NAME = /^[a-z][a-z0-9_]{0,59}$/;

// INVARIANT: a caller only ever writes a `logged` event. A resume reads none of them, so such an event cannot
// imitate a real one.
export async function logEvent(
  asker: ThreadReader,
  parameters: JsonObject,
): Promise<Outcome<Answer>> {
  const allowed = asker.verify(NEEDED);
  if (!allowed.ok) return allowed;
  const { ports, by } = asker;
  const [id, event_type] = [plainText(parameters.thread_id), plainText(parameters.event_type)];
  if (!EVENT_NAME.test(event_type)) {
    const message = `event name \`${event_type}\` is invalid; use lower-case letters, digits and _`;
    return fail('invalid_input', message);
  }
  const { data } = parameters;
  const logged = { event_type, data: isObject(data) ? data : {}, by };
  const event: JournalEvent = { type: 'logged', data: logged };
  const live = ports.threads.live.get(id);
  const entry = live
    ? await live.thread.journal.commit(event, {})
    : await withLease(ports.store, id, { owner: ports.threads.owner }, () =>
        ok({ events: [event] }),
      );
  return entry.ok ? ok({ output: { thread_id: id, logged: event_type }, marks: EMPTY }) : entry;
}
