import {
  canonicalJson,
  type Failure,
  fail,
  getOwn,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { Descriptor, Value } from '../../flow/index.ts';
import type { Recorded, RecordedOf } from '../../journal/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { raiseError } from '../hooks/raise-checkpoint.ts';
import { packCost } from '../limits/cost.ts';
import type { Ending } from '../loop.ts';
import { escalatedResult, escalateFailure } from '../rights/ask-about-call.ts';
import { keepResult } from '../step/large-result.ts';
import {
  asResult,
  type CallGroup,
  hasWithheldResult,
  isOpenCall,
  isParked,
  markedWith,
  noteResult,
  type StepFacts,
  unknownOutcome,
} from '../step/step.ts';
import { packMarks } from '../thread/conversation.ts';
import {
  deadlineFault,
  handleSignals,
  type SignalReceiver,
  timeLeft,
} from '../thread/interruption.ts';
import { isResume, resultIn } from '../thread/recorded-answers.ts';
import type {
  EscalatedCall,
  Interruptible,
  OwnJournal,
  RightsHolder,
  Thread,
} from '../thread/thread.ts';
import type { RecordedStep, RecordedSteps } from './recorded-steps.ts';
import { createOrder } from './step-order.ts';

/** How often a script that only computes looks whether somebody has said something. */
const POLL_MS = 50;

/** Failure of every step after the end of the thread. A script cannot catch it. */
const STOPPED: Failure = fail('cancelled', 'the thread was stopped');

export const LEASE_LOST: Ending = {
  status: 'interrupted',
  reason: 'this process no longer holds the thread',
};

/** A script that signals, the deadline or a lost lease stop. */
type ScriptInterruption = SignalReceiver & Interruptible;

function look(thread: ScriptInterruption): Ending | undefined {
  if (!thread.journal.hasLease()) return LEASE_LOST;
  const told = handleSignals(thread);
  if (told || timeLeft(thread) > 0) return told;
  const { error } = deadlineFault(thread, STOPPED);
  return { status: 'limit', reason: error.detail.message, code: error.code };
}

export function createGate(
  thread: ScriptInterruption & Pick<Thread, 'ports'>,
): () => Outcome<null> {
  const { clock } = thread.ports;
  let looked = clock.monotonic();
  return () => {
    const now = clock.monotonic();
    if (!thread.control.ending && now - looked > POLL_MS) {
      looked = now;
      thread.control.ending = look(thread);
    }
    return thread.control.ending ? STOPPED : ok(null);
  };
}

/** A step that was done before an interruption is handed back; every other step is counted and recorded. */
export interface ScriptWork {
  facts: StepFacts;
  /** Arguments for the journal. The same work always has the same arguments. */
  arguments: JsonObject;
  marks: Descriptor;
  /** `group`: when the call may record what comes after its intent. */
  body(call: ToolCallBlock, group: CallGroup): Promise<Outcome<Value>>;
}

/** Steps that ask a person. They never run in parallel. */
const ASKS: ReadonlySet<string> = new Set(['help', 'ask']);

export type ScriptSteps = ReturnType<typeof createScriptSteps>;

const blockOf = (id: string, { facts, arguments: given }: ScriptWork): ToolCallBlock => ({
  type: 'tool_call',
  id,
  name: facts.verb,
  arguments: given,
});

const isModel = ({ facts }: ScriptWork): boolean => facts.verb === 'model';

/** What only looks; who reads for the thread takes a turn of it, and hooks see one step at a time. */
const mayRunInParallel = ({ hooks }: Pick<Thread, 'hooks'>, { facts }: ScriptWork): boolean =>
  facts.effect === 'read' && !facts.isReading && !ASKS.has(facts.verb) && hooks.list.length === 0;

/** What reads for the thread has said itself what its result carries. */
async function carried(
  { facts, body, marks }: ScriptWork,
  call: ToolCallBlock,
  group: CallGroup,
): Promise<Outcome<Value>> {
  const done = await body(call, group);
  return done.ok && facts.isReading ? done : markedWith(done, marks);
}

/** A step that was begun before a crash and may have had its effect is not done again. */
async function leaveUnknown(
  thread: Thread,
  call: ToolCallBlock,
  tool: string,
): Promise<Outcome<Value>> {
  const unknown = unknownOutcome(call, tool);
  const verdict = await raiseError(thread, unknown, tool, { isTold: true, call: call.id });
  thread.budget.meter.countToolCall();
  return verdict?.action === 'end' && verdict.outcome.ok ? verdict.outcome : unknown;
}

/** It failed before, once too often: what a person said is part of its failure. */
async function answered(
  thread: RightsHolder & Interruptible,
  { facts: { tool }, marks }: ScriptWork,
  call: ToolCallBlock,
  escalated: EscalatedCall,
): Promise<Outcome<Value>> {
  const told = await escalatedResult(thread, call.id, escalated);
  if (!told.ok || told.output === undefined) return told.ok ? STOPPED : told;
  thread.control.escalated.delete(call.id);
  thread.control.failures.delete(tool);
  const content = told.output;
  noteResult(thread, call, { content, marks, isError: true }, tool);
  return resultIn({ call_id: call.id, content, is_error: true, marks: packMarks(marks) });
}

// In a replay nothing takes time, and branches would go on in another order than they did. Each waits until the next
// event of the journal is its own.

/** Events that a path records when it looks for signals. Any path can do that. */
const HEARD: ReadonlySet<Recorded['type']> = new Set<Recorded['type']>(['signal', 'warning']);

/**
 * The intent of the step that begins next. The events of a model's turn come before its intent; a turn that was
 * stopped has none.
 */
function intentIn(rest: readonly Recorded[]): RecordedOf<'tool_call'> | undefined {
  const next = rest.find((event) => event.type === 'tool_call' || isResume(event));
  return next?.type === 'tool_call' ? next : undefined;
}

/** Is the next event the first of this work? */
function begins(work: ScriptWork, rest: readonly Recorded[]): boolean {
  const [first] = rest;
  if (!first || first.type === 'tool_result') return false;
  if (first.type !== 'tool_call' && !isModel(work)) return false;
  const intent = intentIn(rest);
  if (!intent) return isModel(work);
  const { data } = intent;
  if (data.verb !== work.facts.verb) return false;
  return canonicalJson(data.arguments) === canonicalJson(work.arguments);
}

/** What was noted of a call after its intent. A limit does not say which call reached it: its result follows. */
function isAfter(call: string, rest: readonly Recorded[]): boolean {
  const next = rest.find(({ data }) => 'call_id' in data);
  return next !== undefined && next.type !== 'tool_call' && getOwn(next.data, 'call_id') === call;
}

/** The name of the step that begins next. */
const nameIn = ([next]: readonly Recorded[]): string | undefined =>
  next?.type === 'tool_call' ? next.data.call_id : undefined;

const modelIn = (rest: readonly Recorded[]): string | undefined => intentIn(rest)?.data.call_id;

function createReplayOrder(
  { ports: { replay }, place: { id } }: Pick<Thread, 'ports' | 'place'>,
  record: RecordedSteps,
  heard: () => Promise<Ending | undefined>,
) {
  const begun = new Set<string>();
  /** The name of a step that begins; undefined also when this is no replay, or goes another way than the journal. */
  async function turn(
    isOwn: (rest: readonly Recorded[]) => boolean,
    nameOf: typeof nameIn | undefined,
  ): Promise<string | undefined> {
    if (!replay) return undefined;
    let looked = -1;
    const isHeard = (rest: readonly Recorded[]) =>
      rest.length !== looked && rest[0] !== undefined && HEARD.has(rest[0].type);
    // A signal comes first: the result of a call that was at work then follows it.
    const isNext = (rest: readonly Recorded[]) =>
      isOwn(rest) && !(isHeard(rest) && rest[0]?.type === 'signal');
    const isReady = () => isHeard(replay.rest(id)) || isOwn(replay.rest(id));
    while (await record.wait(isReady)) {
      const rest = replay.rest(id);
      if (isNext(rest)) {
        const name = nameOf?.(rest);
        // In this stretch: another path may have been woken for the same event.
        if (name !== undefined) begun.add(name);
        return name;
      }
      if (!isHeard(rest)) continue;
      // Once for each event: not every warning comes of what was said.
      looked = rest.length;
      if ((await heard()) && nameOf) return undefined;
    }
    return undefined;
  }
  return {
    /** The name of the step that may begin now, where the journal has one. */
    async begin(work: ScriptWork, past: RecordedStep | undefined): Promise<string | undefined> {
      const nameOf = isModel(work) ? modelIn : nameIn;
      return await turn((rest) => {
        // What was begun before has its name, and may get its result without being begun again.
        if (past && !isModel(work)) {
          return nameIn(rest) === past.call || isAfter(past.call, rest);
        }
        return begins(work, rest) && !begun.has(nameOf(rest) ?? '');
      }, nameOf);
    },
    /** What comes after the intent of this call may be noted now. */
    async after(call: string): Promise<void> {
      await turn((rest) => isAfter(call, rest), undefined);
    },
  };
}

/** Records a look when it is done: its intent and its result in one commit. */
async function noteLook(
  thread: OwnJournal & Pick<Thread, 'budget' | 'talk'>,
  work: ScriptWork,
  call: ToolCallBlock,
  outcome: Outcome<Value>,
): Promise<Outcome<Value>> {
  const { tool, verb, effect } = work.facts;
  const kept = await keepResult(thread, asResult(outcome, work.marks));
  const about = { call_id: call.id, tool };
  const { content, isError: is_error, facts } = kept;
  const result = { content, is_error, marks: packMarks(kept.marks), ...(facts && { facts }) };
  thread.journal.note(
    [
      { type: 'tool_call', data: { ...about, verb, effect, arguments: call.arguments } },
      { type: 'tool_result', data: { ...about, ...result } },
    ],
    { cost: packCost(thread.budget.meter.read()) },
  );
  thread.talk.conversation.learn(kept.marks);
  return thread.journal.lost() ?? outcome;
}

/** A call of a branch. It is too late for it when another branch has ended the thread before it began. */
function groupOf({ control }: Pick<Thread, 'control'>, inTurn: () => Promise<void>) {
  const group = {
    isTooLate: false,
    inTurn,
    mayBegin() {
      group.isTooLate = control.ending !== undefined;
      return group.isTooLate ? STOPPED : ok(null);
    },
  };
  return group;
}

/** A path that waits for the steps of others cannot go on. It counts again when `work` begins. */
function afterOthers<T>(record: RecordedSteps, work: () => Promise<T>): () => Promise<T> {
  record.paths(-1);
  return () => {
    record.paths(1);
    return work();
  };
}

/** Returns the recorded result of a step that was done before. A step that differs from the record ends the thread. */
async function unlessDone(
  { control }: Pick<Thread, 'control'>,
  record: RecordedSteps,
  { facts, arguments: given }: ScriptWork,
  work: (past: RecordedStep | undefined) => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  if (control.ending) return STOPPED;
  const past = await record.take(facts.verb, given);
  // Others went on while this one waited.
  if (control.ending) return STOPPED;
  if (past.ok) return past.output?.result ?? (await work(past.output));
  const { code, detail } = past.error;
  control.ending ??= { status: 'failed', reason: detail.message, code };
  return past;
}

export function createScriptSteps(
  thread: Thread,
  record: RecordedSteps,
  between: () => Promise<Ending | undefined>,
) {
  const { control } = thread;
  const inOrder = createOrder();
  const lookInOrder = createOrder();
  const order = createReplayOrder(thread, record, () => heard());

  /** Handles signals. Ends the run if one of them stops it. */
  async function heard(): Promise<Ending | undefined> {
    const stopped = await between();
    if (stopped) control.ending ??= stopped;
    return stopped;
  }

  async function perform(
    work: ScriptWork,
    past: RecordedStep | undefined,
    name: string | undefined,
  ): Promise<Outcome<Value>> {
    if (await heard()) return STOPPED;
    const call = blockOf(past?.call ?? record.nextCall(name), work);
    const escalated = control.escalated.get(call.id);
    if (escalated) return await answered(thread, work, call, escalated);
    const group = groupOf(thread, () => order.after(call.id));
    const isSpawn = control.intents.get(call.id)?.child !== undefined;
    const outcome =
      past?.intent.effect === 'write' &&
      !past.waits &&
      !isSpawn &&
      !hasWithheldResult(thread, call.id)
        ? await leaveUnknown(thread, call, work.facts.tool)
        : await carried(work, call, group);
    if (group.isTooLate) return STOPPED;
    // A person was asked: the step stays open, its result is the answer.
    if (isParked(thread) || isOpenCall(thread, call.id, outcome, work.facts.isReading))
      return STOPPED;
    const result = asResult(outcome, work.marks);
    if (!ASKS.has(work.facts.verb)) {
      const asked = await escalateFailure(thread, call.id, work.facts.tool, result);
      if (asked.ok && asked.output) return STOPPED;
    }
    const kept = await keepResult(thread, result);
    await order.after(call.id);
    noteResult(thread, call, kept, work.facts.tool);
    thread.talk.conversation.learn(kept.marks);
    return control.ending ? STOPPED : outcome;
  }

  /** Its body counts it and notes its intent; its result is noted here. */
  async function step(work: ScriptWork): Promise<Outcome<Value>> {
    const isShared = mayRunInParallel(thread, work);
    return await unlessDone(thread, record, work, async (past) => {
      const name = await order.begin(work, past);
      const own = afterOthers(record, () => perform(work, past, name));
      return await (work.facts.isReading ? alone(own) : inOrder(isShared, own));
    });
  }

  /** A model is asked while nothing else is done, so that the events of its turn follow each other. */
  const alone = <T>(work: () => Promise<T>): Promise<T> =>
    inOrder(false, () => lookInOrder(false, work));

  async function look(work: ScriptWork, past: RecordedStep | undefined): Promise<Outcome<Value>> {
    const name = await order.begin(work, past);
    const own = afterOthers(record, () => lookNow(work, past, name));
    return await (isModel(work) ? alone(own) : lookInOrder(true, own));
  }

  async function lookNow(
    work: ScriptWork,
    past: RecordedStep | undefined,
    name: string | undefined,
  ): Promise<Outcome<Value>> {
    if (isModel(work) ? await heard() : control.ending) return STOPPED;
    const call = blockOf(past?.call ?? record.nextCall(name), work);
    const outcome = await work.body(call, {});
    if (control.ending) return STOPPED;
    return await noteLook(thread, work, call, outcome);
  }

  return {
    step,
    /** What only looks, and what is counted elsewhere: noted when it is done. */
    look: (work: ScriptWork) => unlessDone(thread, record, work, (past) => look(work, past)),
    heard,
  };
}
