import type { JsonObject, Outcome } from '../../base/index.ts';
import type { Descriptor, Value } from '../../flow/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { raiseError } from '../hooks/raise-checkpoint.ts';
import { packCost } from '../limits/cost.ts';
import type { Ending } from '../loop.ts';
import { keepResult } from '../step/large-result.ts';
import {
  asResult,
  carrying,
  isAtRest,
  noteResult,
  type StepFacts,
  unknownOutcome,
} from '../step/step.ts';
import { packMarks } from '../thread/conversation.ts';
import type { Thread } from '../thread/thread.ts';
import { STOPPED } from './gate.ts';
import type { PastStep, ScriptRecord } from './past-steps.ts';

// Branches of a script run at the same time; steps of its thread do not, except those that only read.

export type InOrder = <T>(isShared: boolean, work: () => Promise<T>) => Promise<T>;

/** Work that is not shared waits for all before it, and all after it wait for that. */
export function createOrder(): InOrder {
  let last: Promise<unknown> = Promise.resolve();
  let readers: Promise<unknown> = Promise.resolve();
  return async (isShared, work) => {
    const ahead = isShared ? last : Promise.all([last, readers]);
    const mine = ahead.then(work);
    const ended = mine.catch(() => undefined);
    if (isShared) readers = Promise.all([readers, ended]);
    else last = ended;
    return await mine;
  };
}

// Steps of a script, through the pipeline of its thread: what was done before it was interrupted is
// handed back, everything else is counted, noted before and after, and has hooks around it.

export interface ScriptWork {
  facts: StepFacts;
  /** As the journal keeps them: the same work has the same. */
  arguments: JsonObject;
  marks: Descriptor;
  body(call: ToolCallBlock): Promise<Outcome<Value>>;
}

export interface ScriptSteps {
  /** Its body counts it and notes its intent; its result is noted here. */
  step(work: ScriptWork): Promise<Outcome<Value>>;
  /** What only looks, and what is counted elsewhere: noted when it is done. */
  look(work: ScriptWork): Promise<Outcome<Value>>;
  /** Whoever steers the thread is heard; an answer ends it. */
  heard(): Promise<Ending | undefined>;
}

const blockOf = (id: string, { facts, arguments: given }: ScriptWork): ToolCallBlock => ({
  type: 'tool_call',
  id,
  name: facts.verb,
  arguments: given,
});

/** A step that was begun before a crash and may have had its effect is not done again. */
async function leaveUnknown(
  thread: Thread,
  call: ToolCallBlock,
  tool: string,
): Promise<Outcome<Value>> {
  const unknown = unknownOutcome(call, tool);
  const verdict = await raiseError(thread, unknown, tool, { isTold: true });
  thread.budget.meter.countToolCall();
  return verdict?.action === 'end' && verdict.outcome.ok ? verdict.outcome : unknown;
}

export function createScriptSteps(
  thread: Thread,
  record: ScriptRecord,
  between: () => Promise<Ending | undefined>,
): ScriptSteps {
  const {
    journal,
    budget: { meter },
  } = thread;
  const inOrder = createOrder();

  async function heard(): Promise<Ending | undefined> {
    const stopped = await between();
    if (stopped) thread.control.ending ??= stopped;
    return stopped;
  }

  /** What was done before, or undefined; another step than before ends the thread. */
  async function before({
    facts,
    arguments: given,
  }: ScriptWork): Promise<Outcome<PastStep | undefined>> {
    if (thread.control.ending) return STOPPED;
    const past = await record.take(facts.verb, given);
    if (past.ok) return past;
    const { code, detail } = past.error;
    thread.control.ending ??= { status: 'failed', reason: detail.message, code };
    return past;
  }

  async function perform(work: ScriptWork, past: PastStep | undefined): Promise<Outcome<Value>> {
    if (await heard()) return STOPPED;
    const call = blockOf(past?.call ?? record.nextCall(), work);
    const isSpawn = thread.control.intents.get(call.id)?.child !== undefined;
    const outcome =
      past?.intent.effect === 'write' && !isSpawn
        ? await leaveUnknown(thread, call, work.facts.tool)
        : carrying(await work.body(call), work.marks);
    // A person was asked: the step stays open, its result is the answer.
    if (isAtRest(thread)) return STOPPED;
    const kept = await keepResult(thread, asResult(outcome, work.marks));
    noteResult(thread, call, kept, work.facts.tool);
    thread.talk.conversation.learn(kept.marks);
    return thread.control.ending ? STOPPED : outcome;
  }

  async function step(work: ScriptWork): Promise<Outcome<Value>> {
    const past = await before(work);
    if (!past.ok) return past;
    if (past.output?.result) return past.output.result;
    const isShared =
      work.facts.effect === 'read' && work.facts.verb !== 'help' && thread.hooks.list.length === 0;
    return await record.busy(() => inOrder(isShared, () => perform(work, past.output)));
  }

  async function look(work: ScriptWork): Promise<Outcome<Value>> {
    const past = await before(work);
    if (!past.ok) return past;
    if (past.output?.result) return past.output.result;
    const call = blockOf(past.output?.call ?? record.nextCall(), work);
    const outcome = await record.busy(() => work.body(call));
    if (thread.control.ending) return STOPPED;
    const { tool, verb, effect } = work.facts;
    const kept = await keepResult(thread, asResult(outcome, work.marks));
    const about = { call_id: call.id, tool };
    const { content, marks, isError } = kept;
    journal.note(
      [
        { type: 'tool_call', data: { ...about, verb, effect, arguments: call.arguments } },
        {
          type: 'tool_result',
          data: { ...about, content, is_error: isError, marks: packMarks(marks) },
        },
      ],
      { cost: packCost(meter.read()) },
    );
    thread.talk.conversation.learn(marks);
    return journal.lost() ?? outcome;
  }

  return { step, look, heard };
}
