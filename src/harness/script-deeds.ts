// What a script of a directive may do, as its thread does it: tools and questions through the kernel
// with the thread's token, models in turns, and what the script does itself.
import { fail, type Outcome, ok } from '../base/index.ts';
import {
  addMarks,
  childFrame,
  EMPTY,
  type Frame,
  makeValue,
  mergeAll,
  mergeDescriptors,
  type Value,
} from '../flow/index.ts';
import type { ItemKind } from '../items/index.ts';
import type { ToolCallBlock } from '../llm/index.ts';
import { identify } from './known-call.ts';
import { askModel } from './script-model.ts';
import type { ScriptAct, ScriptDeeds } from './script-port.ts';
import type { ScriptSteps, ScriptWork } from './script-steps.ts';
import type { ThreadContext } from './thread-context.ts';
import { deadlineFault, STOPS_TOOL, takeOff } from './thread-flight.ts';
import { callKernel } from './thread-step.ts';

const KINDS: readonly ItemKind[] = ['tool', 'directive', 'knowledge'];

/**
 * The script's own guards have judged this call; policies and privileged ones do again. They cannot ask:
 * a question is a step, and this is inside of one.
 */
function judged(frame: Frame): Frame {
  const { ask: _, ...ports } = frame.ports;
  return { ...childFrame(frame, { selection: { only: [] } }), ports };
}

/** What is asked under a condition carries the condition too. */
const under = (value: Value, { influence }: Frame): Value => addMarks(value, influence);

/** What the script itself does; at the deadline, or when the thread is killed, it is ended. */
async function ownWork(
  thread: ThreadContext,
  stop: AbortController,
  call: ToolCallBlock,
  work: Parameters<ScriptDeeds['act']>[1],
): Promise<Outcome<Value>> {
  const recorded = thread.world.recorded?.(thread.id, call.id);
  if (recorded) return recorded;
  const flight = takeOff(thread, STOPS_TOOL);
  const end = (): void => stop.abort();
  flight.signal.addEventListener('abort', end, { once: true });
  try {
    if (flight.cause() === 'lost') {
      return fail('stale_epoch', 'this process no longer holds the thread');
    }
    const done = await work();
    if (!done.ok) return flight.cause() === 'duration' ? deadlineFault(thread, done) : done;
    return ok(makeValue(done.output));
  } finally {
    flight.land();
  }
}

function kernelWork(
  thread: ThreadContext,
  call: Omit<ToolCallBlock, 'id'>,
  values: ReadonlyMap<string, Value>,
  frame: Frame,
): Outcome<ScriptWork> {
  const known = identify(thread.world, { ...call, id: '' });
  if (!known.ok) return known;
  const marks = mergeDescriptors(
    frame.influence,
    mergeAll([...values.values()].map(({ meta: { descriptor } }) => descriptor)),
  );
  return ok({
    facts: known.output,
    arguments: call.arguments,
    marks,
    body: ({ id }, key) =>
      callKernel(thread, known.output, {
        id,
        key,
        values: Object.fromEntries(values),
        frame: judged(frame),
      }),
  });
}

/** `stop` is aborted when what the script itself has started must end. */
export function createScriptDeeds(
  thread: ThreadContext,
  { step, look, heard }: ScriptSteps,
  stop: AbortController,
): ScriptDeeds {
  const { world } = thread;
  return {
    auth: () => ({
      __auth: thread.approved.auth(thread.currentCall),
      __thread_id: thread.id,
      __directive_id: thread.directive.name,
    }),
    async tool(id, values, frame) {
      const item_type = KINDS.find((kind) => world.library.find(kind, id).ok) ?? 'tool';
      const parameters = Object.fromEntries([...values].map(([name, { data }]) => [name, data]));
      const given = { item_type, item_id: id, parameters };
      const work = kernelWork(
        thread,
        { type: 'tool_call', name: 'execute', arguments: given },
        values,
        frame,
      );
      return work.ok ? await step(work.output) : work;
    },
    async help(action, message, frame) {
      const given = { action, reason: message.text };
      const values = new Map([['reason', message]]);
      const work = kernelWork(
        thread,
        { type: 'tool_call', name: 'help', arguments: given },
        values,
        frame,
      );
      return work.ok ? await step(work.output) : work;
    },
    model: (question, frame) =>
      look({
        facts: {
          verb: 'model',
          tool: 'script:model',
          effect: 'read',
          volatile: [],
          parameters: {},
        },
        arguments: { prompt: question.prompt.text, tier: question.tier ?? '' },
        marks: mergeDescriptors(frame.influence, question.prompt.meta.descriptor),
        body: () => askModel(thread, { ...question, prompt: under(question.prompt, frame) }, heard),
      }),
    async act({ name, effect, arguments: given }: ScriptAct, work) {
      const tool = `script:${name}`;
      const done = await (effect === 'read' ? look : step)({
        facts: { verb: 'script', tool, effect, volatile: [], parameters: {} },
        arguments: { act: name, ...given },
        marks: EMPTY,
        body: (call) => ownWork(thread, stop, call, work),
      });
      return done.ok ? ok(done.output.data) : done;
    },
  };
}
