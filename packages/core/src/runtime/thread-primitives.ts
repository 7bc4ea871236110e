// Creates the primitives `thread`, `reader` and `memory`, and the item kinds of threads. The first call loads the harness.
import { anything, fillableText, flag, type Outcome, oneOf, record, text } from '../base/index.ts';
import type { HarnessPorts, ThreadAction, ThreadFunction } from '../harness/index.ts';
import type { Kind, Primitive } from '../kernel/index.ts';
import type { OpenProject } from './open-project.ts';

/** Names of the actions of the harness. The compiler checks both lists, so the harness is not loaded here. */
const THREAD_ACTIONS: Readonly<Record<ThreadAction, true>> = {
  status: true,
  wait: true,
  pause: true,
  resume: true,
  inject: true,
  cancel: true,
};

const THREAD_FUNCTIONS: Readonly<Record<ThreadFunction, true>> = {
  spawn: true,
  wait: true,
  wait_all: true,
  registry: true,
  transcript: true,
  inject: true,
  pause: true,
  interrupt: true,
  terminate: true,
  kill: true,
  resume: true,
};

/** The `config` that a tool above the primitive `thread` may have. */
const threadConfig = record(
  {
    function: oneOf(Object.keys(THREAD_FUNCTIONS)),
    runner: fillableText(text),
    make_id: flag,
  },
  { required: ['function'] },
);

/** The `config` of the shipped tools above the primitive `reader`. */
const readerConfig = record(
  {
    function: oneOf(['read', 'pick']),
    task: fillableText(text),
    also: fillableText(text),
    schema: anything,
  },
  { required: ['function'] },
);

/** The `config` of the shipped tools above the primitive `memory`. */
const memoryConfig = record(
  { function: oneOf(['write', 'search', 'forget']) },
  { required: ['function'] },
);

/** Returns the primitives for tool chains and the kinds for `execute`. */
export function threadPrimitives(
  open: OpenProject,
  harness: () => Promise<Outcome<HarnessPorts>>,
): { primitives: Primitive[]; kinds: Kind[] } {
  const load = async () => {
    const room = await import('../harness/index.ts');
    open.live ??= room.createLiveThreads();
    return { ...room, ports: { live: open.live, harness } };
  };
  const kind = (name: 'thread' | 'artifact', actions: readonly string[]): Kind => ({
    name,
    actions,
    async prepare(request) {
      const { threadKind, artifactKind, ports } = await load();
      const loaded = name === 'thread' ? threadKind(ports) : artifactKind(ports);
      return await loaded.prepare(request);
    },
  });
  const thread: Primitive = {
    name: 'thread',
    isOfDirectives: true,
    isRetold: true,
    config: threadConfig,
    async run(call) {
      const { createThreadPrimitive, ports } = await load();
      return await createThreadPrimitive(ports).run(call);
    },
    plan: (call) => ({ thread: call.config.function ?? call.tool.id }),
  };
  const reader: Primitive = {
    name: 'reader',
    isOfBundle: true,
    config: readerConfig,
    async run(call) {
      const { runReader, ports } = await load();
      return await runReader(ports.live, call);
    },
    plan: ({ config, tool }) => ({ reader: config.function ?? tool.id }),
  };
  const memory: Primitive = {
    name: 'memory',
    isOfBundle: true,
    config: memoryConfig,
    async run(call) {
      const { runMemory, ports } = await load();
      return await runMemory(ports.live, call);
    },
    plan: ({ config, tool }) => ({ memory: config.function ?? tool.id }),
  };
  return {
    primitives: [thread, reader, memory],
    kinds: [kind('thread', Object.keys(THREAD_ACTIONS)), kind('artifact', ['read'])],
  };
}
