// What a script of a directive does, as steps of its thread: counted, noted before and after, with hooks
// around them and the thread's token in hand. What it did before it was interrupted is handed back.
import { type Failure, fail, type JsonObject, type Outcome, ok } from '../base/index.ts';
import {
  addMarks,
  childFrame,
  type Descriptor,
  EMPTY,
  type Frame,
  makeValue,
  mergeAll,
  mergeDescriptors,
  type Value,
} from '../flow/index.ts';
import type { ItemKind } from '../items/index.ts';
import type { ToolCallBlock } from '../llm/index.ts';
import { packMarks } from './conversation.ts';
import { packCost } from './cost.ts';
import { identify } from './known-call.ts';
import type { Ending } from './loop.ts';
import { keepResult } from './result-artifact.ts';
import { askModel } from './script-model.ts';
import { createOrder } from './script-order.ts';
import type { ScriptAct, ScriptDeeds } from './script-port.ts';
import type { PastStep, ScriptRecord } from './script-record.ts';
import { raiseError } from './thread-checkpoint.ts';
import type { ThreadContext } from './thread-context.ts';
import { deadlineFault, STOPS_TOOL, takeOff, timeLeft } from './thread-flight.ts';
import { obeySignals } from './thread-signals.ts';
import {
  asResult,
  callKernel,
  isAtRest,
  noteResult,
  performStep,
  type StepFacts,
  unknownOutcome,
} from './thread-step.ts';

export interface ScriptPorts {
  record: ScriptRecord;
  /** Aborted when what the script itself has started must end. */
  stop: AbortController;
  between(): Promise<Ending | undefined>;
}

const KINDS: readonly ItemKind[] = ['tool', 'directive', 'knowledge'];
/** How often a script that only computes looks whether somebody has said something. */
const LOOK_MS = 50;

const STOPPED: Failure = fail('cancelled', 'the thread was stopped');

interface Work {
  facts: StepFacts;
  arguments: JsonObject;
  marks: Descriptor;
  body(call: ToolCallBlock, key: string | undefined): Promise<Outcome<Value>>;
}

const blockOf = (id: string, { facts, arguments: given }: Work): ToolCallBlock => ({
  type: 'tool_call',
  id,
  name: facts.verb,
  arguments: given,
});

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

/** Asked before every operation: a stop is seen even by a script that never does a step. */
export function createGate(thread: ThreadContext): () => Outcome<null> {
  const { clock } = thread.world;
  let looked = clock.monotonic();
  const look = (): Ending | undefined => {
    const { held, called } = thread.log.pulse(thread.lastSignal);
    if (!held) return { status: 'interrupted', reason: 'this process no longer holds the thread' };
    const told = called ? obeySignals(thread) : undefined;
    if (told || timeLeft(thread) > 0) return told;
    const { error } = deadlineFault(thread, STOPPED);
    return { status: 'limit', reason: error.detail.message, code: error.code };
  };
  return () => {
    const now = clock.monotonic();
    if (!thread.ending && now - looked > LOOK_MS) {
      looked = now;
      thread.ending = look();
    }
    return thread.ending ? STOPPED : ok(null);
  };
}

/** A step that was begun before a crash and may have had its effect is not done again. */
async function leaveUnknown(
  thread: ThreadContext,
  call: ToolCallBlock,
  tool: string,
): Promise<Outcome<Value>> {
  const unknown = unknownOutcome(call, tool);
  const verdict = await raiseError(thread, unknown, tool, { isTold: true });
  thread.meter.countToolCall();
  return verdict?.action === 'end' && verdict.outcome.ok ? verdict.outcome : unknown;
}

export function createScriptSteps(thread: ThreadContext, ports: ScriptPorts): ScriptDeeds {
  const { world, log, meter } = thread;
  const { record, stop, between } = ports;
  const inOrder = createOrder();

  async function heard(): Promise<Ending | undefined> {
    const stopped = await between();
    if (stopped) thread.ending ??= stopped;
    return stopped;
  }

  /** What was done before, or undefined; another step than before ends the thread. */
  async function before({ facts, arguments: given }: Work): Promise<Outcome<PastStep | undefined>> {
    if (thread.ending) return STOPPED;
    const past = await record.take(facts.verb, given);
    if (past.ok) return past;
    const { code, detail } = past.error;
    thread.ending ??= { status: 'failed', reason: detail.message, code };
    return past;
  }

  async function perform(work: Work, past: PastStep | undefined): Promise<Outcome<Value>> {
    if (await heard()) return STOPPED;
    const call = blockOf(past?.call ?? record.nextCall(), work);
    const isSpawn = thread.begun.get(call.id)?.child !== undefined;
    const outcome =
      past?.intent.effect === 'write' && !isSpawn
        ? await leaveUnknown(thread, call, work.facts.tool)
        : await performStep(thread, call, work.facts, {
            marks: work.marks,
            body: (key) => work.body(call, key),
          });
    // A person was asked: the step stays open, its result is the answer.
    if (isAtRest(thread)) return STOPPED;
    const noted = noteResult(thread, call, asResult(outcome, work.marks), work.facts.tool);
    if (!noted.ok) return noted;
    thread.conversation.learn(noted.output.marks);
    return thread.ending ? STOPPED : outcome;
  }

  async function step(work: Work): Promise<Outcome<Value>> {
    const past = await before(work);
    if (!past.ok) return past;
    if (past.output?.result) return past.output.result;
    const isShared =
      work.facts.effect === 'read' && work.facts.verb !== 'help' && thread.hooks.length === 0;
    return await record.busy(() => inOrder(isShared, () => perform(work, past.output)));
  }

  /** What only looks, and what is counted elsewhere: noted when it is done. */
  async function look(work: Work): Promise<Outcome<Value>> {
    const past = await before(work);
    if (!past.ok) return past;
    if (past.output?.result) return past.output.result;
    const call = blockOf(past.output?.call ?? record.nextCall(), work);
    const outcome = await record.busy(() => work.body(call, undefined));
    if (thread.ending) return STOPPED;
    const { tool, verb, effect } = work.facts;
    const { content, marks, isError } = keepResult(thread, asResult(outcome, work.marks));
    const about = { call_id: call.id, tool };
    const noted = log.append(
      [
        { type: 'tool_call', data: { ...about, verb, effect, arguments: call.arguments } },
        {
          type: 'tool_result',
          data: { ...about, content, is_error: isError, marks: packMarks(marks) },
        },
      ],
      { cost: packCost(meter.read()) },
    );
    thread.conversation.learn(marks);
    return noted.ok ? outcome : noted;
  }

  /** What the script itself does; at the deadline, or when the thread is killed, it is ended. */
  async function ownWork(
    call: ToolCallBlock,
    work: Parameters<ScriptDeeds['act']>[1],
  ): Promise<Outcome<Value>> {
    const recorded = world.recorded?.(thread.id, call.id);
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
    call: Omit<ToolCallBlock, 'id'>,
    values: ReadonlyMap<string, Value>,
    frame: Frame,
  ): Outcome<Work> {
    const known = identify(world, { ...call, id: '' });
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
        { type: 'tool_call', name: 'execute', arguments: given },
        values,
        frame,
      );
      return work.ok ? await step(work.output) : work;
    },
    async help(action, message, frame) {
      const given = { action, reason: message.text };
      const values = new Map([['reason', message]]);
      const work = kernelWork({ type: 'tool_call', name: 'help', arguments: given }, values, frame);
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
        body: (call) => ownWork(call, work),
      });
      return done.ok ? ok(done.output.data) : done;
    },
  };
}
