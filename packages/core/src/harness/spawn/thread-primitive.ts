// Implements the primitive `thread` at the end of the chains of `threads/*`, as one table of functions. The layers
// above it are data: `thread_directive` over `safety_harness` over `spawn_thread`. Each adds to the config, and the
// config names the function. The item type `artifact` reads results that were too large for a reply, piece by
// piece; a thread needs no right for its own.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  suggestion,
} from '../../base/index.ts';
import { EMPTY, elementOf, makeValue, mergeAll } from '../../flow/index.ts';
import type { Kind, Primitive, PrimitiveCall, PrimitiveResult } from '../../kernel/index.ts';
import { mayStart } from '../run/prepare.ts';
import { MAX_PIECE, type Piece, readPiece } from '../step/large-result.ts';
import type { HarnessPorts, LiveThreads } from '../thread/thread.ts';
import {
  type Answer,
  isClient,
  nameFor,
  queryThreads,
  type ThreadReader,
  threadEvents,
  threadStatus,
  waitThreads,
} from './read-threads.ts';
import { logEvent, register, updateStatus } from './registry-tools.ts';
import { type SpawnRequest, spawnAnswer, spawnThread } from './spawn.ts';
import { resume, type SignalKind, steer } from './steer.ts';

interface ThreadPorts {
  live: LiveThreads;
  /** Opens the store at the first call, for callers outside of threads. */
  harness(): Promise<Outcome<HarnessPorts>>;
}

type Answered = Promise<Outcome<Answer>>;
type ThreadCommand = (asker: ThreadReader, parameters: JsonObject, config: JsonObject) => Answered;

const countIn = (parameters: JsonObject, name: string, fallback: number): number => {
  const value = getOwn(parameters, name);
  return typeof value === 'number' && Number.isFinite(value) ? value : fallback;
};
const idOf = (parameters: JsonObject): string => plainText(getOwn(parameters, 'thread_id'));
const textIn = (parameters: JsonObject, name: string): string | undefined => {
  const value = getOwn(parameters, name);
  return typeof value === 'string' && value !== '' ? value : undefined;
};

const DEFAULT_WAIT_MS = 60_000;
/** A client's request ends sooner than a thread can, so the client asks again. */
const CLIENT_WAIT_MS = 20_000;
const MAX_CLIENT_WAIT_MS = 45_000;

/** Returns the time to wait, from a parameter with one of these names. */
function waitIn(
  asker: ThreadReader,
  parameters: JsonObject,
  names: readonly string[],
  usual: number,
): number {
  const fallback = isClient(asker) ? CLIENT_WAIT_MS : usual;
  const [requestedMs = fallback] = names
    .map((name) => countIn(parameters, name, Number.NaN))
    .filter((ms) => !Number.isNaN(ms));
  return isClient(asker) ? Math.min(requestedMs, MAX_CLIENT_WAIT_MS) : requestedMs;
}

/** Fails unless the policy of the surface allows the directive. It applies outside of threads. */
const checkSurface = ({ ports, thread, surface }: ThreadReader, name: string): Outcome<null> =>
  thread ? ok(null) : mayStart(ports, surface, name);

const NOTHING = makeValue(null);

/** Returns the marks of each input and of the message. */
function givenIn(values: NonNullable<ThreadReader['values']>): SpawnRequest['given'] {
  const { inputs = NOTHING, initial_message: message = NOTHING } = Object.fromEntries(values);
  const names = isObject(inputs.data) ? Object.keys(inputs.data) : [];
  const marks = names.map((name) => [name, elementOf(inputs, name).meta.descriptor] as const);
  return { inputs: new Map(marks), message: message.meta.descriptor };
}

function requestOf(asker: ThreadReader, parameters: JsonObject, config: JsonObject): SpawnRequest {
  const inputs = getOwn(parameters, 'inputs');
  const [message, model, id] = ['initial_message', 'model_tier', 'thread_id'].map((name) =>
    textIn(parameters, name),
  );
  return {
    directive: plainText(parameters.directive_name),
    runner: textIn(parameters, 'runner') ?? plainText(config.runner ?? 'safety'),
    detached: getOwn(parameters, 'detached') === true,
    marks: asker.given,
    ...(asker.values && { given: givenIn(asker.values) }),
    ...(asker.thread ? {} : { by: { who: asker.by, surface: asker.surface } }),
    ...(isObject(inputs) ? { inputs } : {}),
    ...(message === undefined ? {} : { message }),
    ...(model === undefined ? {} : { model }),
    // The layers above the base generate the id. A thread has reserved it in its intent.
    ...(asker.intent?.child !== undefined
      ? { id: asker.intent.child, isUnfinished: asker.intent.isUnfinished }
      : config.make_id === true || id === undefined
        ? {}
        : { id }),
  };
}

/** The author of a tool chooses the runner and the id of a thread. A client cannot. */
const NO_CHOICE = fail(
  'permission_denied',
  'a client cannot choose the id or the runner of a thread; use `threads/thread_directive`',
  { missing: 'runner' },
);

const NO_HANDLES = fail('permission_denied', 'a client without handles cannot start a thread', {
  missing: 'handle',
});

const spawn: ThreadCommand = async (asker, parameters, config) => {
  const { thread, verify } = asker;
  const right = verify({ capability: 'spawn.thread' });
  if (!right.ok) return right;
  if (isClient(asker) && config.make_id !== true) return NO_CHOICE;
  // The client could never name such a thread again.
  if (isClient(asker) && !asker.handles) return NO_HANDLES;
  const target = await portsFor(asker, textIn(parameters, 'project_path'));
  if (!target.ok) return target;
  await target.output.library.refresh();
  const directive = plainText(parameters.directive_name);
  const allowed = checkSurface({ ...asker, ports: target.output }, directive);
  if (!allowed.ok) return allowed;
  const request = requestOf(asker, parameters, config);
  const started = await spawnThread(target.output, thread, request);
  if (!started.ok) return started;
  const name = nameFor(asker, started.output.id);
  const answer = startedAnswer(asker, spawnAnswer(started.output), name);
  const waitMs = waitIn(asker, parameters, ['wait_ms'], 0);
  if (waitMs <= 0 && !isClient(asker)) return ok({ output: answer, marks: EMPTY });
  const waited = await waitThreads({ ...asker, verify: () => ok(null) }, [name], waitMs);
  if (!waited.ok && waited.error.code === 'handed_over') return waited;
  const [result] = waited.ok ? waited.output : [];
  if (!result) return ok({ output: answer, marks: EMPTY });
  return ok({ output: { ...answer, ...(result.output as JsonObject) }, marks: result.marks });
};

/** Returns the answer without the path of the transcript, because files of the runtime are closed to clients. */
function startedAnswer(asker: ThreadReader, answer: JsonObject, name: string): JsonObject {
  const { transcript_path: _, ...rest } = answer;
  return isClient(asker) ? { ...rest, thread_id: name, handle: name } : answer;
}

async function portsFor(
  { ports, verify }: ThreadReader,
  path: string | undefined,
): Promise<Outcome<HarnessPorts>> {
  if (path === undefined) return ok(ports);
  return await ports.threads.elsewhere(path, (real) =>
    verify({ capability: 'project.use', scope: { path: real } }),
  );
}

async function waitThread(asker: ThreadReader, id: string, ms: number): Answered {
  const waited = await waitThreads(asker, [id], ms);
  return waited.ok ? ok(waited.output[0] ?? { output: null, marks: EMPTY }) : waited;
}

const waitAll: ThreadCommand = async (asker, parameters) => {
  const ids = (getOwn(parameters, 'thread_ids') ?? []) as string[];
  const ms = waitIn(asker, parameters, ['timeout_ms'], DEFAULT_WAIT_MS);
  const waited = await waitThreads(asker, ids, ms);
  if (!waited.ok) return waited;
  return ok({
    output: { results: waited.output.map(({ output }) => output) },
    marks: mergeAll(waited.output.map(({ marks }) => marks)),
  });
};

const events =
  (count: string, fallback: number, capability: 'thread.read' | 'registry.read'): ThreadCommand =>
  (asker, parameters) => {
    const after = countIn(parameters, 'after', Number.NaN);
    const range = {
      count: countIn(parameters, count, fallback),
      after: after >= 0 ? Math.floor(after) : undefined,
    };
    return threadEvents(asker, idOf(parameters), range, capability);
  };

const REGISTRY: Readonly<Record<string, ThreadCommand>> = {
  get_status: (asker, parameters) => threadStatus(asker, idOf(parameters), 'registry.read'),
  query: queryThreads,
  get_events: events('limit', 50, 'registry.read'),
  register,
  update_status: updateStatus,
  log_event: logEvent,
};

const registry: ThreadCommand = async (asker, parameters, config) => {
  const name = plainText(parameters.action);
  const act = Object.hasOwn(REGISTRY, name) ? REGISTRY[name] : undefined;
  return act
    ? await act(asker, parameters, config)
    : fail('invalid_input', `registry action \`${name}\` not found`);
};

const steering =
  (kind: SignalKind): ThreadCommand =>
  (asker, parameters) => {
    const reason = textIn(parameters, 'reason');
    const content = textIn(parameters, 'content') ?? textIn(parameters, 'inject_message');
    const isSystem = getOwn(parameters, 'role') === 'system';
    return steer(asker, idOf(parameters), kind, {
      ...(reason !== undefined && { reason }),
      ...(content !== undefined && { content: isSystem ? `[system] ${content}` : content }),
    });
  };

/** Functions that a tool can name in its config. */
const ACTS = {
  spawn,
  wait: (asker, parameters) =>
    waitThread(asker, idOf(parameters), waitIn(asker, parameters, ['timeout_ms'], DEFAULT_WAIT_MS)),
  wait_all: waitAll,
  registry,
  transcript: events('last_n', 10, 'thread.read'),
  inject: steering('message'),
  pause: steering('pause'),
  interrupt: steering('interrupt'),
  terminate: steering('terminate'),
  kill: steering('kill'),
  resume: (asker, parameters) =>
    resume(asker, idOf(parameters), textIn(parameters, 'inject_message') ?? ''),
} satisfies Record<string, ThreadCommand>;
export type ThreadFunction = keyof typeof ACTS;

const wordIn = (value: Json | undefined): string => plainText(value ?? '');
const because = (reason: Json | undefined): JsonObject =>
  reason ? { reason: wordIn(reason) } : {};

/** Functions of `execute item_type:"thread"`, which take the handle of a thread. */
const THREAD_ACTIONS = {
  status: (asker, id) => threadStatus(asker, id),
  wait: (asker, id, parameters) =>
    waitThread(asker, id, waitIn(asker, parameters, ['wait_ms', 'timeout_ms'], DEFAULT_WAIT_MS)),
  pause: (asker, id, { reason }) => steer(asker, id, 'pause', because(reason)),
  resume: (asker, id, { message, content }) => resume(asker, id, wordIn(message ?? content)),
  async inject(asker, id, { message, content }) {
    const text = wordIn(message ?? content);
    return text === ''
      ? fail('invalid_input', '`inject` needs a `message`')
      : await steer(asker, id, 'message', { content: text });
  },
  cancel: (asker, id, { reason }) => steer(asker, id, 'terminate', because(reason)),
} satisfies Record<string, (asker: ThreadReader, id: string, parameters: JsonObject) => Answered>;

export type ThreadAction = keyof typeof THREAD_ACTIONS;

/** Returns the caller. The token of a thread counts only while the thread runs here. */
async function askerOf(
  reach: ThreadPorts,
  call: Pick<PrimitiveCall, 'from' | 'verify' | 'signal' | 'given' | 'values' | 'idempotencyKey'>,
): Promise<Outcome<ThreadReader>> {
  const { surface = '', name = '', handles, __thread_id: id, __auth } = call.from ?? {};
  // INVARIANT: a call never counts as a call of a thread without that thread's token. The id proves nothing.
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
    ...(call.values && { values: call.values }),
    signal: call.signal,
    handles,
  });
}

/** Timeouts for a tool in the background. Its thread is read later, by its handle. */
const AT_ONCE: JsonObject = { wait_ms: 0, timeout_ms: 0 };

export function createThreadPrimitive(ports: ThreadPorts): Primitive {
  return {
    name: 'thread',
    async run(call): Promise<Outcome<PrimitiveResult>> {
      const name = plainText(call.config.function);
      const act = Object.entries<ThreadCommand>(ACTS).find(([key]) => key === name)?.[1];
      if (!act) {
        const hint = suggestion(name, Object.keys(ACTS));
        return fail('config_invalid', `thread function \`${name}\` not found${hint}`, {
          config_path: 'config.function',
        });
      }
      const asker = await askerOf(ports, call);
      if (!asker.ok) return asker;
      const { parameters } = call;
      const passed = call.tool.background ? { ...parameters, ...AT_ONCE } : parameters;
      return await act(asker.output, passed, call.config);
    },
    plan: (call) => ({ thread: call.config.function ?? call.tool.id }),
  };
}

function checkNames(what: string, parameters: JsonObject, names: readonly string[]): Outcome<null> {
  const extra = Object.keys(parameters).find((name) => !names.includes(name));
  if (extra === undefined) return ok(null);
  const message = `${what} has no parameter \`${extra}\`; use one of: ${names.join(', ')}`;
  return fail('invalid_input', message);
}

const wholeIn = (parameters: JsonObject, name: string, fallback: number): Outcome<number> => {
  const value = getOwn(parameters, name) ?? fallback;
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? ok(value)
    : fail('invalid_input', `\`${name}\` must be a whole number, 0 or more`);
};

function pieceOf(parameters: JsonObject): Outcome<Piece> {
  const named = checkNames('an artifact', parameters, ['field', 'offset', 'length']);
  if (!named.ok) return named;
  const offset = wholeIn(parameters, 'offset', 0);
  if (!offset.ok) return offset;
  const length = wholeIn(parameters, 'length', MAX_PIECE);
  if (!length.ok) return length;
  const field = plainText(getOwn(parameters, 'field') ?? '');
  return ok({ field, offset: offset.output, length: length.output });
}

export function artifactKind(ports: { live: LiveThreads }): Kind {
  return {
    name: 'artifact',
    actions: ['read'],
    prepare({ item_id: id, parameters = {} }) {
      const piece = pieceOf(parameters);
      if (!piece.ok) return piece;
      return ok({
        op: { type: 'artifact', name: 'read', target: id, opLabels: ['op:artifact'] },
        async body(_values, { caller: { __auth, __thread_id: thread = '' } }) {
          // INVARIANT: a call never counts as a call of a thread without that thread's token.
          const running = __auth === undefined ? undefined : ports.live.get(thread);
          if (!running) {
            return fail('permission_denied', 'an artifact can be read only by its own thread');
          }
          return await readPiece(running.thread, id, piece.output);
        },
      });
    },
  };
}

const ACTION_PARAMETERS = ['wait_ms', 'timeout_ms', 'reason', 'message', 'content', 'role'];

export function threadKind(ports: ThreadPorts): Kind {
  return {
    name: 'thread',
    actions: Object.keys(THREAD_ACTIONS),
    prepare(request) {
      const { item_id: id, parameters = {} } = request;
      const action = request.action as ThreadAction;
      const named = checkNames(`\`${action}\` of a thread`, parameters, ACTION_PARAMETERS);
      if (!named.ok) return named;
      // A client's handle is the id and a secret suffix.
      const [target = id] = id.split('.');
      const effect = action === 'status' || action === 'wait' ? 'read' : 'write';
      const inputs = Object.entries(parameters).map(([name, data]) => ({
        name,
        value: request.values?.[name] ?? makeValue(data),
      }));
      return ok({
        op: {
          type: 'thread',
          name: action,
          target,
          opLabels: ['op:thread', `op:thread:${action}`],
          sources: [`thread:${target}`],
          tier: effect === 'read' ? 'read' : 'write',
        },
        inputs,
        gate(authority) {
          const started = authority.allowsDirective(true);
          return started.ok ? started : authority.allowsEffect(effect);
        },
        async body(values, { caller, authority }) {
          const asker = await askerOf(ports, {
            from: caller,
            verify: (need) => authority.check(need),
            signal: caller.signal ?? new AbortController().signal,
            given: mergeAll(values.map(({ meta }) => meta.descriptor)),
          });
          if (!asker.ok) return asker;
          // Guards can have changed the values.
          const passed: JsonObject = Object.fromEntries(
            inputs.map(({ name }, at) => [name, values[at]?.data ?? null]),
          );
          const outcome = await THREAD_ACTIONS[action](asker.output, id, passed);
          return outcome.ok
            ? ok(makeValue(outcome.output.output, { descriptor: outcome.output.marks }))
            : outcome;
        },
      });
    },
  };
}
