// Writing to the registry by hand: for signed core items alone, which hold `registry.write`.
import { fail, isObject, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import { EMPTY } from '../../flow/index.ts';
import { encode } from '../thread/journal-codec.ts';
import type { JournalEvent } from '../thread/journal-event.ts';
import type { Asker } from './access.ts';
import type { Answer } from './read-threads.ts';
import { steer, type Wish } from './steer.ts';

const mayWrite = ({ verify }: Pick<Asker, 'verify'>): Outcome<null> =>
  verify({ capability: 'registry.write' });

/** A status is not set, it is asked for: whoever runs the thread gets there in order. */
const WISHES: Readonly<Record<string, Wish>> = {
  paused: 'pause',
  terminating: 'terminate',
  terminated: 'terminate',
  killed: 'kill',
};

export function updateStatus(asker: Asker, { thread_id, status }: JsonObject): Outcome<Answer> {
  const allowed = mayWrite(asker);
  if (!allowed.ok) return allowed;
  const wish = Object.hasOwn(WISHES, plainText(status)) ? WISHES[plainText(status)] : undefined;
  if (!wish) {
    const known = Object.keys(WISHES).join(', ');
    return fail(
      'invalid_input',
      `\`${plainText(status)}\` cannot be set from outside; ${known} can`,
    );
  }
  return steer(asker, plainText(thread_id), wish);
}

export function register(asker: Asker, parameters: JsonObject): Outcome<Answer> {
  const allowed = mayWrite(asker);
  if (!allowed.ok) return allowed;
  const { ports, thread } = asker;
  const id = plainText(parameters.thread_id);
  const row = ports.store.createThread({
    id,
    directive: plainText(parameters.directive_name),
    version: '0.0.0',
    runner: 'own',
    project: ports.project,
    ...(thread ? { parent: thread.place.id } : {}),
    limits: {},
    // It has no runner that could spend: nothing is set aside and nothing may be taken.
    budget: { tokens: 0n, spend: 0n, spawns: 0n },
    inputs: {},
  });
  if (!row.ok) return row;
  return ok({ output: { thread_id: id, status: row.output.status }, marks: EMPTY });
}

const LEASE_MS = 10_000;

/** What somebody else wants to have noted, under a name of his own. */
const EVENT_NAME = /^[a-z][a-z0-9_]{0,59}$/;

type LogAsker = Pick<Asker, 'by' | 'verify'> & {
  readonly ports: Pick<Asker['ports'], 'store'> & {
    readonly threads: Pick<Asker['ports']['threads'], 'live' | 'owner'>;
  };
};

// INVARIANT: whatever is given, one `logged` event is written. Nothing is restored from those, so a
// hand-made event cannot pass for something that happened.
export function logEvent(asker: LogAsker, parameters: JsonObject): Outcome<Answer> {
  const allowed = mayWrite(asker);
  if (!allowed.ok) return allowed;
  const { ports, by } = asker;
  const [id, event_type] = [plainText(parameters.thread_id), plainText(parameters.event_type)];
  if (!EVENT_NAME.test(event_type)) {
    return fail(
      'invalid_input',
      `\`${event_type}\` is no name of an event; it may hold small letters, digits and _`,
    );
  }
  const given = parameters.data;
  const data = { event_type, data: isObject(given) ? given : {}, by };
  const event: JournalEvent = { type: 'logged', data };
  const live = ports.threads.live.get(id);
  const noted = live ? live.thread.journal.note(event) : noteIdle(ports, id, event);
  return noted.ok ? ok({ output: { thread_id: id, logged: event_type }, marks: EMPTY }) : noted;
}

function noteIdle(
  { store, threads: { owner } }: LogAsker['ports'],
  id: string,
  event: JournalEvent,
): Outcome<null> {
  const lease = store.claim(id, owner, LEASE_MS);
  if (!lease.ok) return lease;
  const { epoch, seq } = lease.output;
  const written = store.append(id, seq, epoch, [encode(event, 0)]);
  store.release(id, epoch);
  return written.ok ? ok(null) : written;
}
