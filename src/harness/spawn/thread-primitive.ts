// The primitive `thread`: what stands at the end of the chains of `threads/*`. The layers above it are
// data: each adds to the config (`thread_directive` over `safety_harness` over `spawn_thread`), and
// what is done here is one function by the name that the config gives.
import {
  fail,
  getOwn,
  isObject,
  type JsonObject,
  nearest,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import { EMPTY, mergeAll } from '../../flow/index.ts';
import type { Primitive, PrimitiveCall, PrimitiveResult } from '../../kernel/index.ts';
import { type HarnessPorts, type LiveThreads } from '../thread/thread.ts';
import type { Asker } from './access.ts';
import {
  type Answer,
  queryThreads,
  threadEvents,
  threadStatus,
  waitThreads,
} from './read-threads.ts';
import { logEvent, register, updateStatus } from './registry-tools.ts';
import { type SpawnRequest, spawnAnswer, spawnThread } from './spawn.ts';
import { resume, steer, type Wish } from './steer.ts';

export interface ThreadPorts {
  live: LiveThreads;
  /** For callers outside of threads; opens the registry when first asked. */
  harness(): Promise<Outcome<HarnessPorts>>;
}

type Act = (asker: Asker, parameters: JsonObject, config: JsonObject) => Promise<Outcome<Answer>>;

const countIn = (parameters: JsonObject, name: string, fallback: number): number => {
  const value = getOwn(parameters, name);
  return typeof value === 'number' && Number.isFinite(value) ? value : fallback;
};
const idOf = (parameters: JsonObject): string => plainText(getOwn(parameters, 'thread_id'));
const textIn = (parameters: JsonObject, name: string): string | undefined => {
  const value = getOwn(parameters, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
};

/** Outside of threads the policy of the surface says which directives may be started. */
function checkSurface({ ports, thread, surface }: Asker, name: string): Outcome<null> {
  if (thread) return ok(null);
  const found = ports.library.find('directive', name);
  if (!found.ok) return found;
  const access = ports.policies().policy.directives(surface);
  const isSigned = found.output.signature.state !== 'unsigned';
  if (access === 'all' || (access === 'signed' && isSigned)) return ok(null);
  return fail(
    'permission_denied',
    `on the surface \`${surface}\` ${access === 'none' ? 'no directives' : 'only signed directives'} may be started`,
    { missing: 'spawn.thread', attempted: name },
  );
}

function requestOf(asker: Asker, parameters: JsonObject, config: JsonObject): SpawnRequest {
  const inputs = getOwn(parameters, 'inputs');
  const [message, model, id] = ['initial_message', 'model_tier', 'thread_id'].map((name) =>
    textIn(parameters, name),
  );
  return {
    directive: plainText(parameters.directive_name),
    runner: textIn(parameters, 'runner') ?? plainText(config.runner ?? 'safety'),
    detached: getOwn(parameters, 'detached') === true,
    marks: asker.given,
    ...(isObject(inputs) ? { inputs } : {}),
    ...(message === undefined ? {} : { message }),
    ...(model === undefined ? {} : { model }),
    // The layers above the base make the id themselves; a thread has named it before it called.
    ...(asker.intent?.child !== undefined
      ? { id: asker.intent.child, isUnfinished: asker.intent.isUnfinished }
      : config.make_id === true || id === undefined
        ? {}
        : { id }),
  };
}

const spawn: Act = async (asker, parameters, config) => {
  const { thread, verify } = asker;
  const held = verify({ capability: 'spawn.thread' });
  if (!held.ok) return held;
  const there = await worldFor(asker, textIn(parameters, 'project_path'));
  if (!there.ok) return there;
  await there.output.library.refresh();
  const name = plainText(parameters.directive_name);
  const allowed = checkSurface({ ...asker, ports: there.output }, name);
  if (!allowed.ok) return allowed;
  const request = requestOf(asker, parameters, config);
  const started = await spawnThread(there.output, thread, request);
  if (!started.ok) return started;
  const answer = spawnAnswer(started.output);
  const waitMs = countIn(parameters, 'wait_ms', 0);
  if (waitMs <= 0) return ok({ output: answer, marks: EMPTY });
  const waited = await waitThreads(
    { ...asker, verify: () => ok(null) },
    [started.output.id],
    waitMs,
  );
  const [result] = waited.ok ? waited.output : [];
  if (!result) return ok({ output: answer, marks: EMPTY });
  return ok({ output: { ...answer, ...(result.output as JsonObject) }, marks: result.marks });
};

async function worldFor(
  { ports, verify }: Asker,
  path: string | undefined,
): Promise<Outcome<HarnessPorts>> {
  if (path === undefined) return ok(ports);
  return await ports.threads.elsewhere(path, (real) =>
    verify({ capability: 'project.use', scope: { path: real } }),
  );
}

const wait: Act = async (asker, parameters) => {
  const waited = await waitThreads(asker, [idOf(parameters)], countIn(parameters, 'timeout_ms', 0));
  if (!waited.ok) return waited;
  return ok(waited.output[0] ?? { output: null, marks: EMPTY });
};

const waitAll: Act = async (asker, parameters) => {
  const ids = (getOwn(parameters, 'thread_ids') ?? []) as string[];
  const waited = await waitThreads(asker, ids, countIn(parameters, 'timeout_ms', 0));
  if (!waited.ok) return waited;
  return ok({
    output: { results: waited.output.map(({ output }) => output) },
    marks: mergeAll(waited.output.map(({ marks }) => marks)),
  });
};

const REGISTRY: Readonly<Record<string, Act>> = {
  get_status: async (asker, parameters) => threadStatus(asker, idOf(parameters), 'registry.read'),
  query: async (asker, parameters) => queryThreads(asker, parameters),
  get_events: async (asker, parameters) =>
    threadEvents(asker, idOf(parameters), countIn(parameters, 'limit', 50), 'registry.read'),
  register: async (asker, parameters) => register(asker, parameters),
  update_status: async (asker, parameters) => updateStatus(asker, parameters),
  log_event: async (asker, parameters) => logEvent(asker, parameters),
};

const steering =
  (wish: Wish): Act =>
  async (asker, parameters) => {
    const reason = textIn(parameters, 'reason');
    const content = textIn(parameters, 'content') ?? textIn(parameters, 'inject_message');
    const isSystem = getOwn(parameters, 'role') === 'system';
    return steer(asker, idOf(parameters), wish, {
      ...(reason === undefined ? {} : { reason }),
      ...(content === undefined ? {} : { content: isSystem ? `[system] ${content}` : content }),
    });
  };

const ACTS: Readonly<Record<string, Act>> = {
  spawn,
  wait,
  wait_all: waitAll,
  registry: async (asker, parameters, config) => {
    const act = Object.hasOwn(REGISTRY, plainText(parameters.action))
      ? REGISTRY[plainText(parameters.action)]
      : undefined;
    return act
      ? await act(asker, parameters, config)
      : fail('invalid_input', `the registry has no action \`${plainText(parameters.action)}\``);
  },
  transcript: async (asker, parameters) =>
    threadEvents(asker, idOf(parameters), countIn(parameters, 'last_n', 10), 'thread.read'),
  inject: steering('message'),
  pause: steering('pause'),
  interrupt: steering('interrupt'),
  terminate: steering('terminate'),
  kill: steering('kill'),
  resume: async (asker, parameters) =>
    await resume(asker, idOf(parameters), textIn(parameters, 'inject_message') ?? ''),
};

/** Every function a tool may name in its config. */
export const THREAD_FUNCTIONS: readonly string[] = Object.keys(ACTS);

/** Who stands behind a call; a thread's token counts only while the thread runs here. */
export async function askerOf(
  reach: ThreadPorts,
  call: Pick<PrimitiveCall, 'from' | 'verify' | 'signal' | 'given' | 'idempotencyKey'>,
): Promise<Outcome<Asker>> {
  const { surface = '', name = '', __thread_id: id, __auth } = call.from ?? {};
  // INVARIANT: who speaks as a thread has shown its token; the id alone is a claim.
  const thread = id === undefined || __auth === undefined ? undefined : reach.live.get(id)?.thread;
  if (id !== undefined && !thread) {
    return fail('permission_denied', `thread \`${id}\` does not run here`, { missing: 'thread' });
  }
  const ports = thread ? ok(thread.ports) : await reach.harness();
  if (!ports.ok) return ports;
  const intent = thread?.control.atWork.get(call.idempotencyKey ?? '');
  return ok({
    ...(intent ? { intent } : {}),
    ports: ports.output,
    thread,
    surface,
    by: thread?.place.id ?? [surface, name].filter(Boolean).join(':'),
    verify: call.verify,
    given: call.given ?? EMPTY,
    signal: call.signal,
  });
}

export function createThreadPrimitive(ports: ThreadPorts): Primitive {
  return {
    name: 'thread',
    async run(call): Promise<Outcome<PrimitiveResult>> {
      const name = plainText(call.config.function);
      const act = Object.hasOwn(ACTS, name) ? ACTS[name] : undefined;
      if (!act) {
        const near = nearest(name, THREAD_FUNCTIONS);
        const hint = near ? `; did you mean \`${near}\`` : '';
        return fail('config_invalid', `threads have no function \`${name}\`${hint}`, {
          failed_at: { tool_id: call.tool.id, config_path: 'config.function' },
        });
      }
      const asker = await askerOf(ports, call);
      if (!asker.ok) return asker;
      return await act(asker.output, call.parameters, call.config);
    },
    plan: (call) => ({ thread: call.config.function ?? call.tool.id }),
  };
}
