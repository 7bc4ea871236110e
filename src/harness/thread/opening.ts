// Ids of threads that nobody named: `deploy_staging_20300131_235959_x7k2`, in UTC. The suffix is short
// enough to type, so of many threads begun in one second two can be alike.
import {
  type Clock,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  type RandomBytes,
} from '../../base/index.ts';
import { type Descriptor, mergeDescriptors } from '../../flow/index.ts';
import { FROM_USER, packMarks } from './conversation.ts';
import type { Opening } from './journal-event.ts';
import { permittedTools, toolsTold } from './permitted-tools.ts';
import { injection } from './prompt.ts';
import { type HarnessPorts, type Prepared, type Thread } from './thread.ts';

type Ports = { clock: Pick<Clock, 'now'>; random: RandomBytes };

const SUFFIX = 4;
/** With a thousand threads in one second, ten taken ids in a row do not happen. */
const MAX_TRIES = 10;

export function makeThreadId(name: string, { clock, random }: Ports): string {
  const stamp = new Date(clock.now())
    .toISOString()
    .replace(/[-:]/g, '')
    .replace('T', '_')
    .slice(0, 15);
  const suffix = [...random(SUFFIX)].map((byte) => (byte % 36).toString(36)).join('');
  return `${name.slice(0, 59)}_${stamp}_${suffix}`;
}

/** Whoever asks names the question, so that the event of the same commit can. */
export const makeApprovalId = (random: RandomBytes): string =>
  `ap_${Buffer.from(random(9)).toString('base64url').replaceAll('-', '_')}`;

/** Starts under a new id, and under another when that one is taken; `start` leaves nothing of a refusal. */
export async function withFreshId<T>(
  name: string,
  ports: Ports,
  start: (id: string) => Outcome<T> | Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  for (let tries = 1; ; tries++) {
    const started = await start(makeThreadId(name, ports));
    const isTaken = !started.ok && started.error.code === 'thread_exists';
    if (!isTaken || tries === MAX_TRIES) return started;
  }
}

// What opens every conversation.

/** Of a thread that is this directive's own: how to spawn it is no advice here. */
function ownDirective(ready: Json, tools: JsonObject): Json {
  if (!isObject(ready)) return ready;
  const { can_spawn_thread: _, spawn_instructions: __, missing_for_thread: ___, ...rest } = ready;
  const message = 'this thread runs the directive: follow its process';
  return { ...rest, ...tools, message };
}

/** The harness itself executes the directive and shows the result. */
export async function openingEvents(
  ports: HarnessPorts,
  prepared: Pick<Prepared, 'item' | 'directive' | 'inputs' | 'plan'>,
  message: string,
  given: Descriptor = FROM_USER,
  parent?: Thread,
): Promise<Outcome<Opening[]>> {
  const { directive, inputs, plan } = prepared;
  const { request, call } = injection(directive.name, inputs);
  const ready = await ports.kernel.execute(
    { item_type: 'directive', item_id: prepared.item.id, parameters: inputs },
    { surface: 'harness', name: 'harness', frame: ports.frame() },
  );
  if (!ready.ok) return ready;
  const marks = packMarks(mergeDescriptors(ready.output.meta.descriptor, given));
  const isNative = directive.model?.tools === 'native';
  const tools = directive.process.script ? [] : permittedTools(ports, directive, parent);
  const made = ownDirective(ready.output.data, toolsTold(tools, isNative, plan !== undefined));
  const content = ports.replay?.shown(made) ?? made;
  const events: Opening[] = [
    { type: 'user_message', data: { text: request, marks: packMarks(FROM_USER) } },
    { type: 'assistant_message', data: { content: [call], injected: true } },
    {
      type: 'tool_result',
      data: { call_id: call.id, content, is_error: false, marks },
    },
  ];
  if (message !== '') {
    events.push({ type: 'user_message', data: { text: message, marks: packMarks(given) } });
  }
  return ok(events);
}
