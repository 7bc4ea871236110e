// Runs the steps of a script. A step from before an interruption gets its recorded result. Every other step is counted,
// run and recorded, and a replay keeps the recorded order of parallel branches.
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

/** Interval at which a script that only computes checks for signals. */
const POLL_MS = 50;

/** Failure of every step after the end of the thread. A script cannot catch it. */
const STOPPED: Failure = fail('cancelled', 'the thread was stopped');

export const LEASE_LOST: Ending = {
  status: 'interrupted',
  reason: 'this process has lost the lease of the thread',
};

/** The part of a thread that can stop its script: by a signal, the deadline or a lost lease. */
type ScriptInterruption = SignalReceiver & Interruptible;

function look(thread: ScriptInterruption): Ending | undefined {
  if (!thread.journal.hasLease()) return LEASE_LOST;
  const ending = handleSignals(thread);
  if (ending || timeLeft(thread) > 0) return ending;
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

/** One step of a script. A step from before an interruption gets its recorded result and is not counted again. */
export interface ScriptWork {
  facts: StepFacts;
  /** Arguments for the journal. The same work always has the same arguments. */
  arguments: JsonObject;
  marks: Descriptor;
  /** Runs the step. `group` decides when the call can record events after its intent. */
  body(call: ToolCallBlock, group: CallGroup): Promise<Outcome<Value>>;
}

/** Steps that ask a person. They never run in parallel. */
const ASKS: ReadonlySet<string> = new Set(['help', 'ask']);

export type ScriptSteps = ReturnType<typeof createScriptSteps>;

const blockOf = (id: string, { facts, arguments: parameters }: ScriptWork): ToolCallBlock => ({
  type: 'tool_call',
  id,
  name: facts.verb,
  arguments: parameters,
});

const isModel = ({ facts }: ScriptWork): boolean => facts.verb === 'model';

/** True for a step that only reads. A reader uses a turn of the thread, and hooks get one step at a time. */
const mayRunInParallel = ({ hooks }: Pick<Thread, 'hooks'>, { facts }: ScriptWork): boolean =>
  facts.effect === 'read' && !facts.isReading && !ASKS.has(facts.verb) && hooks.list.length === 0;

/** Runs a step and adds its marks to the outcome. A reader sets the marks of its result itself. */
async function markedOutcome(
  { facts, body, marks }: ScriptWork,
  call: ToolCallBlock,
  group: CallGroup,
): Promise<Outcome<Value>> {
  const outcome = await body(call, group);
  return outcome.ok && facts.isReading ? outcome : markedWith(outcome, marks);
}

/** Returns the outcome of a step that began before a crash and can have had its effect. It is not repeated. */
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

/** Returns the failure of a step about which a person was asked, with the answer of the person. */
async function escalatedOutcome(
  thread: RightsHolder & Interruptible,
  { facts: { tool }, marks }: ScriptWork,
  call: ToolCallBlock,
  escalated: EscalatedCall,
): Promise<Outcome<Value>> {
  const answer = await escalatedResult(thread, call.id, escalated);
  if (!answer.ok || answer.output === undefined) return answer.ok ? STOPPED : answer;
  thread.control.escalated.delete(call.id);
  thread.control.failures.delete(tool);
  const content = answer.output;
  noteResult(thread, call, { content, marks, isError: true }, tool);
  return resultIn({ call_id: call.id, content, is_error: true, marks: packMarks(marks) });
}

/** Types of events that a path records when it handles signals. Any path can do that. */
const SIGNAL_EVENTS: ReadonlySet<Recorded['type']> = new Set<Recorded['type']>([
  'signal',
  'warning',
]);

/**
 * Returns the intent of the step that begins next. The events of a model's turn come before its intent. A turn
 * that was stopped has no intent.
 */
function intentIn(rest: readonly Recorded[]): RecordedOf<'tool_call'> | undefined {
  const next = rest.find((event) => event.type === 'tool_call' || isResume(event));
  return next?.type === 'tool_call' ? next : undefined;
}

/** True if the next event is the first event of this work. */
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

/** True if the next event about a call follows the intent of this call. A limit does not name its call. */
function isAfter(call: string, rest: readonly Recorded[]): boolean {
  const next = rest.find(({ data }) => 'call_id' in data);
  return next !== undefined && next.type !== 'tool_call' && getOwn(next.data, 'call_id') === call;
}

/** Returns the name of the step that begins next. */
const nameIn = ([next]: readonly Recorded[]): string | undefined =>
  next?.type === 'tool_call' ? next.data.call_id : undefined;

const modelIn = (rest: readonly Recorded[]): string | undefined => intentIn(rest)?.data.call_id;

/** Keeps the recorded order in a replay: a branch waits until the next event of the journal is its own. */
function createReplayOrder(
  { ports: { replay }, place: { id } }: Pick<Thread, 'ports' | 'place'>,
  record: RecordedSteps,
  signals: () => Promise<Ending | undefined>,
) {
  const started = new Set<string>();
  /** Returns the name of a step that begins. `undefined`: not a replay, or the script differs from the journal. */
  async function turn(
    isOwn: (rest: readonly Recorded[]) => boolean,
    nameOf: typeof nameIn | undefined,
  ): Promise<string | undefined> {
    if (!replay) return undefined;
    let looked = -1;
    const isHeard = (rest: readonly Recorded[]) =>
      rest.length !== looked && rest[0] !== undefined && SIGNAL_EVENTS.has(rest[0].type);
    // A signal comes first. The result of a call that it stopped comes after it.
    const isNext = (rest: readonly Recorded[]) =>
      isOwn(rest) && !(isHeard(rest) && rest[0]?.type === 'signal');
    const isReady = () => isHeard(replay.rest(id)) || isOwn(replay.rest(id));
    while (await record.wait(isReady)) {
      const rest = replay.rest(id);
      if (isNext(rest)) {
        const name = nameOf?.(rest);
        // Added before the next await, because another path can have been woken for the same event.
        if (name !== undefined) started.add(name);
        return name;
      }
      if (!isHeard(rest)) continue;
      // Signals are handled once for each event, because not every warning comes from a signal.
      looked = rest.length;
      if ((await signals()) && nameOf) return undefined;
    }
    return undefined;
  }
  return {
    /** Waits until the step can begin. Returns its name, if the journal has one. */
    async begin(work: ScriptWork, past: RecordedStep | undefined): Promise<string | undefined> {
      const nameOf = isModel(work) ? modelIn : nameIn;
      return await turn((rest) => {
        // A step that began before has a name, and can get its result without a second intent.
        if (past && !isModel(work)) {
          return nameIn(rest) === past.call || isAfter(past.call, rest);
        }
        return begins(work, rest) && !started.has(nameOf(rest) ?? '');
      }, nameOf);
    },
    /** Waits until the events after the intent of this call can be recorded. */
    async after(call: string): Promise<void> {
      await turn((rest) => isAfter(call, rest), undefined);
    },
  };
}

/** Records a step that only reads when it is done: its intent and its result in one commit. */
async function noteLook(
  thread: OwnJournal & Pick<Thread, 'budget' | 'talk'>,
  work: ScriptWork,
  call: ToolCallBlock,
  outcome: Outcome<Value>,
): Promise<Outcome<Value>> {
  const { tool, verb, effect } = work.facts;
  const stored = await keepResult(thread, asResult(outcome, work.marks));
  const about = { call_id: call.id, tool };
  const { content, isError: is_error, facts } = stored;
  const result = { content, is_error, marks: packMarks(stored.marks), ...(facts && { facts }) };
  thread.journal.note(
    [
      { type: 'tool_call', data: { ...about, verb, effect, arguments: call.arguments } },
      { type: 'tool_result', data: { ...about, ...result } },
    ],
    { cost: packCost(thread.budget.meter.read()) },
  );
  thread.talk.conversation.learn(stored.marks);
  return thread.journal.lost() ?? outcome;
}

/** Returns the group of a branch's call. The call is too late if another branch has ended the thread first. */
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

/** Uncounts a path while it waits for the steps of other paths. It counts again when `work` begins. */
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
  { facts, arguments: parameters }: ScriptWork,
  work: (past: RecordedStep | undefined) => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  if (control.ending) return STOPPED;
  const past = await record.take(facts.verb, parameters);
  // Other paths continued while this one waited.
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
  const order = createReplayOrder(thread, record, () => signals());

  /** Handles signals. Ends the run if one of them stops it. */
  async function signals(): Promise<Ending | undefined> {
    const stopped = await between();
    if (stopped) control.ending ??= stopped;
    return stopped;
  }

  async function perform(
    work: ScriptWork,
    past: RecordedStep | undefined,
    name: string | undefined,
  ): Promise<Outcome<Value>> {
    if (await signals()) return STOPPED;
    const call = blockOf(past?.call ?? record.nextCall(name), work);
    const escalated = control.escalated.get(call.id);
    if (escalated) return await escalatedOutcome(thread, work, call, escalated);
    const group = groupOf(thread, () => order.after(call.id));
    const isSpawn = control.intents.get(call.id)?.child !== undefined;
    const outcome =
      past?.intent.effect === 'write' &&
      !past.waits &&
      !isSpawn &&
      !hasWithheldResult(thread, call.id)
        ? await leaveUnknown(thread, call, work.facts.tool)
        : await markedOutcome(work, call, group);
    if (group.isTooLate) return STOPPED;
    // The step stays open while a person is asked. Its result will be the answer.
    if (isParked(thread) || isOpenCall(thread, call.id, outcome, work.facts.isReading))
      return STOPPED;
    const result = asResult(outcome, work.marks);
    if (!ASKS.has(work.facts.verb)) {
      const escalation = await escalateFailure(thread, call.id, work.facts.tool, result);
      if (escalation.ok && escalation.output) return STOPPED;
    }
    const stored = await keepResult(thread, result);
    await order.after(call.id);
    noteResult(thread, call, stored, work.facts.tool);
    thread.talk.conversation.learn(stored.marks);
    return control.ending ? STOPPED : outcome;
  }

  /** Runs a step. The body counts it and records its intent, and `perform` records its result. */
  async function step(work: ScriptWork): Promise<Outcome<Value>> {
    const isShared = mayRunInParallel(thread, work);
    return await unlessDone(thread, record, work, async (past) => {
      const name = await order.begin(work, past);
      const own = afterOthers(record, () => perform(work, past, name));
      return await (work.facts.isReading ? alone(own) : inOrder(isShared, own));
    });
  }

  /** Runs work while no other step runs, so that the events of a model's turn follow each other. */
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
    if (isModel(work) ? await signals() : control.ending) return STOPPED;
    const call = blockOf(past?.call ?? record.nextCall(name), work);
    const outcome = await work.body(call, {});
    if (control.ending) return STOPPED;
    return await noteLook(thread, work, call, outcome);
  }

  return {
    step,
    /** Runs a step that only reads or that is counted elsewhere. It is recorded when it is done. */
    look: (work: ScriptWork) => unlessDone(thread, record, work, (past) => look(work, past)),
    signals,
  };
}
