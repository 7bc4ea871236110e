// Writing to the registry by hand: for signed core items alone, which hold `registry.write`.
import { fail, type JsonObject, type Outcome, ok, plainText } from '../base/index.ts';
import { EMPTY } from '../flow/index.ts';
import { isTranscriptType } from '../store/index.ts';
import type { Asker } from './spawn-asker.ts';
import type { Answer } from './spawn-read.ts';
import { steer, type Wish } from './spawn-steer.ts';

const mayWrite = ({ verify }: Asker): Outcome<null> => verify({ capability: 'registry.write' });

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
  const { world, thread } = asker;
  const id = plainText(parameters.thread_id);
  const row = world.store.createThread({
    id,
    directive: plainText(parameters.directive_name),
    version: '0.0.0',
    runner: 'own',
    project: world.project,
    ...(thread ? { parent: thread.id } : {}),
    limits: {},
    // It has no runner that could spend: nothing is set aside and nothing may be taken.
    budget: { tokens: 0n, spend: 0n, spawns: 0n },
    inputs: {},
  });
  if (!row.ok) return row;
  return ok({ output: { thread_id: id, status: row.output.status }, marks: EMPTY });
}

const LEASE_MS = 10_000;

export function logEvent(asker: Asker, parameters: JsonObject): Outcome<Answer> {
  const allowed = mayWrite(asker);
  if (!allowed.ok) return allowed;
  const { world } = asker;
  const [id, type] = [plainText(parameters.thread_id), plainText(parameters.event_type)];
  if (!isTranscriptType(type)) {
    return fail('invalid_input', `\`${type}\` is no type of event; see the transcript's types`);
  }
  const data = { ...(parameters.data as JsonObject | undefined), by: asker.by };
  const live = world.live.get(id);
  const noted = live ? live.thread.log.note(type, data) : noteIdle(asker, id, type, data);
  return noted.ok ? ok({ output: { thread_id: id, logged: type }, marks: EMPTY }) : noted;
}

function noteIdle({ world }: Asker, id: string, type: string, data: JsonObject): Outcome<null> {
  const lease = world.store.claim(id, world.owner, LEASE_MS);
  if (!lease.ok) return lease;
  const { epoch, seq } = lease.output;
  const written = world.store.append(id, seq, epoch, [{ type, data }]);
  world.store.release(id, epoch);
  return written.ok ? ok(null) : written;
}
