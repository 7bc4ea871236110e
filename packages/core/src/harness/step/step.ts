// Makes one call of the model: counts it, records its intent, executes it through the kernel with the thread's
// token, and records its result. An intent without a result shows that the process was lost in between.
import {
  type Failure,
  type Fault,
  fail,
  getOwn,
  type Json,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import {
  type ActPorts,
  addMarks,
  type CheckpointVerdict,
  childFrame,
  createFrame,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  type FlowCheckpoint,
  type Frame,
  factsOf,
  type MaybePromise,
  makeValue,
  markFailure,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import type { DataOf, HookStart, JournalEvent } from '../../journal/index.ts';
import { type Caller, callTarget } from '../../kernel/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { isEnded } from '../../store/index.ts';
import { keepFiles } from '../files/keep-files.ts';
import { raise, raiseError } from '../hooks/raise-checkpoint.ts';
import { packCost, usedAmounts } from '../limits/cost.ts';
import { asLimitFault, firstExceeded, limitFault, UNITS } from '../limits/limit.ts';
import type { Ending } from '../loop.ts';
import { commitIntent, returnedUses } from '../rights/approved-rights.ts';
import {
  APPROVED,
  askAbout,
  escalatedResult,
  escalateFailure,
  isPending,
} from '../rights/ask-about-call.ts';
import { answeredBefore } from '../rights/lasting-answers.ts';
import { frameOf, originsIn, packRules, rulesOf } from '../rights/thread-rules.ts';
import { withExtended } from '../rights/thread-token.ts';
import { nextUse, takeUse } from '../rights/use-budgets.ts';
import { aboutArguments, packMarks, unpackMarks } from '../thread/conversation.ts';
import { filesOf } from '../thread/file-values.ts';
import { runInTime, STOPS_TOOL } from '../thread/interruption.ts';
import { resultIn } from '../thread/recorded-answers.ts';
import { withoutTime } from '../thread/talk.ts';
import type {
  CallIntent,
  CallRecord,
  Control,
  DirectiveTalk,
  EscalatedCall,
  Interruptible,
  RightsHolder,
  Thread,
} from '../thread/thread.ts';
import { callKey, childOf, endCall, nameCall } from './call-intent.ts';
import { keepResult, type Result, wholeResult } from './large-result.ts';
import { loopFault } from './loop-detector.ts';
import {
  type IdentifiedCall,
  identifyCall,
  requiredFor,
  resolveCall,
  stepKind,
} from './tool-call.ts';

/** The facts about a step: a call of a kernel verb, or an operation of a script. */
export type StepFacts = Pick<
  IdentifiedCall,
  'tool' | 'effect' | 'volatile' | 'parameters' | 'resolved' | 'isReading'
> & { verb: string };

/** Returns the ending of a run whose directive returned its outputs. `given`: marks of the outputs. */
export function toReturnValue(
  { place, talk }: DirectiveTalk,
  callee: Pick<IdentifiedCall, 'verb' | 'request'>,
  output: Json,
  marksOfOutput: Descriptor,
): Ending | undefined {
  if (callee.verb !== 'execute' || getOwn(callee.request, 'action') !== 'return') return undefined;
  if (getOwn(output, 'directive') !== place.directive.name) return undefined;
  const marks = mergeDescriptors(talk.conversation.ownMarks(), marksOfOutput);
  return { status: 'completed', reason: '', outputs: getOwn(output, 'outputs') ?? {}, marks };
}

export const failureJson = ({ error: { code, detail } }: Failure): Json => ({
  ok: false,
  error: { code, detail },
});

export const asResult = (outcome: Outcome<Value>, marks: Descriptor): Result =>
  outcome.ok
    ? {
        content: outcome.output.data,
        marks: outcome.output.meta.descriptor,
        isError: false,
        facts: outcome.output.meta.origin.facts ? factsOf(outcome.output) : undefined,
        files: filesOf(outcome.output),
      }
    : {
        content: failureJson(outcome),
        marks: mergeDescriptors(marks, descriptorOfFault(outcome.error) ?? EMPTY),
        isError: true,
      };

const NO_INTENT: Partial<CallIntent> = {};

/** Adds a result to the next commit. `result` comes from `keepResult`. */
export function noteResult(
  thread: CallRecord & Pick<Thread, 'budget' | 'rights'>,
  call: ToolCallBlock,
  { content, isError, marks, facts, files }: Result,
  tool?: string,
): void {
  const { journal, budget } = thread;
  const { about, use } = thread.control.intents.get(call.id) ?? NO_INTENT;
  const data = {
    call_id: call.id,
    ...(tool !== undefined && { tool }),
    content,
    is_error: isError,
    marks: packMarks(marks),
    ...(facts && { facts }),
    ...(files && { files: [...files] }),
    ...packRules(thread.rights.rules.taken(call.id)),
    ...(about && { about }),
    ...(use?.isBegun === false && { unused: true as const }),
  };
  // A denial is not counted here, because it has an event of its own.
  if (isError && getOwn(getOwn(content, 'error'), 'code') !== 'permission_denied') {
    budget.meter.countFailure();
  }
  const cost = packCost(budget.meter.read());
  const unused = thread.rights.approved.unused(call.id);
  const returns = unused.length > 0 ? returnedUses(unused, call.id) : undefined;
  const events: JournalEvent[] = [{ type: 'tool_result', data }];
  journal.note(returns ? [...events, ...returns.events] : events, { cost, ...returns?.change });
  endCall(thread, call);
}

/** Records a result and gives the recorded form to the model. */
async function conclude(
  thread: Thread,
  call: ToolCallBlock,
  result: Result,
  tool?: string,
): Promise<void> {
  const stored = await keepResult(thread, result);
  noteResult(thread, call, stored, tool);
  thread.talk.conversation.result(call.id, stored, result.content);
}

/** Coordination of calls that run at the same time. */
export interface CallGroup {
  readonly size?: number;
  /** Called when the intent of this call is recorded. */
  readonly recorded?: () => void;
  /** Resolves when this call may record more than its intent. */
  readonly inTurn?: () => Promise<void>;
  /** Fails if a parallel branch has ended the thread. */
  readonly mayBegin?: () => Outcome<null>;
}

interface KernelCall {
  readonly group?: CallGroup;
  values: Record<string, Value>;
  marks: Descriptor;
  /** Frame of the script that makes the call. Absent: a frame with the policies in force. */
  frame?: Frame;
}

/** Makes one call through the kernel: limits, intent, gate, guards, effect, checkpoints. */
export async function callKernel(
  thread: Thread,
  call: ToolCallBlock,
  callee: IdentifiedCall,
  { values, marks, frame, group = {} }: KernelCall,
): Promise<Outcome<Value>> {
  const { ports, place, rights } = thread;
  const guards = rights.rules.guards();
  const key = callKey(thread, call);
  const act = stepAct(thread, call, callee, { key, group, marks });
  const judged =
    thread.hooks.pending.size > 0 ? await decideWithheldResult(thread, call, act) : undefined;
  if (judged) return markedWith(judged, marks);
  // If a person approved the script statement, the call that the statement makes needs no second approval.
  const ask = frame?.isApproved
    ? APPROVED
    : inTurnOf(group, askAbout(thread, { id: call.id, key, effect: callee.effect }));
  const answered = answeredBefore(thread);
  const caller: Caller = {
    surface: 'thread',
    name: place.id,
    frame: frame
      ? childFrame(frame, { guards, ports: { ask, answered } })
      : frameOf(thread, ask, { answered, origins: originsIn(thread) }),
    auth: () => rights.approved.auth(call.id),
    __thread_id: place.id,
    __directive_id: place.directive.name,
    idempotencyKey: key,
    act,
    ...(frame?.approved !== undefined && { approved: frame.approved }),
  };
  const request = { ...callee.request, values };
  const outcome = await ports.kernel[callee.verb](request as never, caller);
  const added = outcome.ok ? addRules(thread, call, callee) : ok(null);
  return outcome.ok && callee.isReading ? outcome : markedWith(added.ok ? outcome : added, marks);
}

/** Calls that run at the same time ask in their order, because a question is recorded. */
const inTurnOf = ({ inTurn }: CallGroup, ask: ReturnType<typeof askAbout>): typeof ask =>
  inTurn
    ? async (...question) => {
        await inTurn();
        return await ask(...question);
      }
    : ask;

/** Adds the rules of a directive that the call executed. */
function addRules(
  { ports, rights }: RightsHolder,
  { id }: ToolCallBlock,
  { verb, request }: IdentifiedCall,
): Outcome<null> {
  const { item_type, item_id, action = 'run' } = request;
  if (verb !== 'execute' || item_type !== 'directive' || action !== 'run') return ok(null);
  const found = ports.library.find('directive', plainText(item_id));
  const directive = found.ok ? found.output.directive : undefined;
  if (!directive) return ok(null);
  const rules = rulesOf(withExtended(ports, directive), ports.project);
  return rights.rules.executed(id, rules);
}

/** Returns the result so far, for a hook that is asked about it. `callMarks`: marks of the arguments. */
async function heldResult(
  thread: Pick<Thread, 'ports' | 'place'>,
  event: FlowCheckpoint,
  callMarks: Descriptor,
): Promise<NonNullable<HookStart['held']>> {
  const outcome: Outcome<Value> =
    event.name === 'after_step'
      ? ok(event.result)
      : { ok: false, error: 'fault' in event ? event.fault : NOTHING };
  const result = asResult(outcome, callMarks);
  const { content, isError, marks, facts, files } = await keepResult(thread, result);
  return {
    content,
    is_error: isError,
    marks: packMarks(marks),
    ...(facts && { facts }),
    ...(files && { files: [...files] }),
  };
}
const NOTHING = fail('internal_error', 'the call has no result yet').error;

/**
 * Returns the known outcome of a call whose hook had not answered, after the hook has answered now. `undefined`:
 * the call must be made.
 */
export async function decideWithheldResult(
  thread: Thread,
  { id }: ToolCallBlock,
  { checkpoint }: Pick<ActPorts, 'checkpoint'>,
): Promise<Outcome<Value> | undefined> {
  const { hooks, ports, place, control, budget } = thread;
  const start = [...hooks.pending.values()].find(({ call_id, held }) => held && call_id === id);
  if (!start?.held) return undefined;
  const content = await wholeResult(ports, place.id, start.held.content);
  const outcome = resultIn({ call_id: id, ...start.held, content });
  // The resume has uncounted this call, because its intent is in the journal.
  if (control.intents.has(id)) budget.meter.countToolCall();
  // The recorded event says whether the fault is a limit.
  const failure = outcome.ok || start.event !== 'limit' ? outcome : asLimitFault(outcome);
  const event: FlowCheckpoint = failure.ok
    ? { name: 'after_step', arguments: [], result: failure.output }
    : { name: 'error', arguments: [], fault: failure.error };
  const verdict = await checkpoint?.(event, UNJUDGED, createFrame());
  if (verdict?.action === 'retry') return undefined;
  return verdict?.action === 'end' ? verdict.outcome : outcome;
}
/** The checkpoint of a step reads the event alone. */
const UNJUDGED = { type: 'step', name: 'held', opLabels: [], retryOwner: false } as const;

/** Adds the marks of the arguments to the outcome, whatever the verb did with them. */
export const markedWith = (outcome: Outcome<Value>, marks: Descriptor): Outcome<Value> =>
  outcome.ok ? ok(addMarks(outcome.output, marks)) : markFailure(outcome, marks);

/** Runs the effect. The deadline or a kill stops it. */
export const runStep = (
  thread: Interruptible,
  { tool }: StepFacts,
  body: (signal?: AbortSignal) => MaybePromise<Outcome<Value>>,
): Promise<Outcome<Value>> =>
  runInTime(thread, STOPS_TOOL, body, (failure) => stoppedAtWork(tool, failure));

const stoppedAtWork = (tool: string, { error }: Failure): Failure =>
  fail('cancelled', `\`${tool}\` was stopped while it ran`, { ...error.detail });

// INVARIANT: a write that was stopped is never repeated, whatever a hook answers, because it may have had its
// effect. The model gets an error and can check.
const mayRepeat = ({ effect }: StepFacts, event: FlowCheckpoint): boolean =>
  effect !== 'write' || event.name !== 'error' || !isStopped(event.fault);

const isStopped = ({ code }: Fault): boolean =>
  code === 'cancelled' || code === 'duration_exceeded';

export async function performCall(
  thread: Thread,
  call: ToolCallBlock,
  callee: IdentifiedCall,
  group: CallGroup,
): Promise<Outcome<Value>> {
  const { conversation, references } = thread.talk;
  // The text of the model carries the marks of everything that it has read.
  const marks = conversation.ownMarks();
  if (references) {
    const named = resolveCall(references, callee, marks);
    return named.ok
      ? await callKernel(thread, call, named.output.known, { ...named.output, group })
      : markFailure(named, marks);
  }
  // A parameter can have any name, `__proto__` too.
  const values: Record<string, Value> = Object.create(null);
  for (const [name, data] of Object.entries(callee.parameters)) {
    values[name] = makeValue(data, { descriptor: marks });
  }
  const { content } = callee.request;
  if (content !== undefined) values.content = makeValue(content, { descriptor: marks });
  return await callKernel(thread, call, callee, { values, marks, group });
}

interface StepOptions {
  readonly key?: string;
  readonly group?: CallGroup;
  /** Marks of all arguments. Hooks receive them even if the call has no parameters. */
  readonly marks?: Descriptor;
}

/** Returns the ports of one step: limits, intent, checkpoints and time. */
export function stepAct(
  thread: Thread,
  call: ToolCallBlock,
  callee: StepFacts,
  { key = callKey(thread, call), group = {}, marks = EMPTY }: StepOptions = {},
): ActPorts {
  const { size, recorded, inTurn, mayBegin } = group;
  const { ports, journal, budget, control } = thread;
  const { tool, verb, effect, volatile } = callee;
  control.currentCall = call.id;
  const step = {
    // Only hooks read this, so it is computed on demand.
    get kind() {
      return verb === 'execute' ? stepKind(ports.library, tool) : 'tool';
    },
    tool,
    turn: journal.turn,
    // Hooks judge the resolved arguments. The journal has the arguments as the model wrote them.
    arguments: callee.resolved ?? call.arguments,
    required: () => requiredFor(ports, callee),
    call: { id: call.id, held: (event: FlowCheckpoint) => heldResult(thread, event, marks) },
  };
  return {
    async intent(op, inputs) {
      const allowed = mayBegin?.();
      if (allowed && !allowed.ok) return allowed;
      const used = usedAmounts(budget.meter.read());
      const event = firstExceeded(used, UNITS.tool, budget.limits);
      if (event) return limitFault(event, used.tool_calls ?? 0n);
      // The count precedes the commit, so that a parallel branch sees it.
      const n = budget.meter.countToolCall();
      const child = await childOf(ports, control.intents.get(call.id), callee);
      const { budgets } = thread.rights.own;
      const counted = budgets.length > 0 ? budgets.filter((one) => one.tool === tool) : budgets;
      const isCounted = counted.length > 0 && verb === 'execute';
      const use = isCounted ? nextUse(control.intents.get(call.id)) : undefined;
      nameCall(control, call, key, child, use);
      const target = callTarget({ op, arguments: inputs });
      const data: DataOf<'tool_call'> = {
        call_id: call.id,
        tool,
        verb,
        effect,
        arguments: call.arguments,
        ...(volatile.length > 0 && { volatile: [...volatile] }),
        key,
        // A resume compares this number with the recorded cost.
        n,
        ...(child !== undefined && { child }),
        ...(target !== '' && { target }),
        ...(use && { use: use.n }),
        ...(size !== undefined && { group: size }),
        ...aboutArguments(inputs),
      };
      const commit = () => commitIntent(thread, call.id, { type: 'tool_call', data });
      const committed = await (use ? takeUse(thread, counted, commit) : commit());
      recorded?.();
      return committed;
    },
    async run(body) {
      const use = control.intents.get(call.id)?.use;
      if (use) use.isBegun = true;
      const outcome = await runStep(thread, callee, body);
      return outcome.ok ? ok(await keepFiles(thread, outcome.output)) : outcome;
    },
    async checkpoint(event) {
      thread.talk.conversation.learn(marks, false);
      if (event.name === 'before_step') return await raise(thread, event, step);
      await inTurn?.();
      return await raiseDone(thread, call, event, step, mayRepeat(callee, event));
    },
  };
}

/** A hook receives the end of a step before the model does. */
async function raiseDone(
  thread: Thread,
  call: ToolCallBlock,
  event: Exclude<FlowCheckpoint, { name: 'before_step' }>,
  step: Parameters<typeof raise>[2],
  isRepeatable: boolean,
): Promise<CheckpointVerdict | undefined> {
  const { conversation } = thread.talk;
  if (event.name === 'after_step') {
    conversation.learn(event.result.meta.descriptor, false);
    noteOrigins(thread.control, call, event.arguments);
    return await raise(thread, event, step);
  }
  conversation.learn(descriptorOfFault(event.fault), false);
  const reported = event.name === 'error' ? { ...event, call: call.id } : event;
  const verdict = await raise(thread, reported, step);
  return !isRepeatable && verdict?.action === 'retry' ? undefined : verdict;
}

/** Adds the origins of steering arguments to the intent, for the result event. */
function noteOrigins(
  control: Control,
  { id }: ToolCallBlock,
  list: Parameters<typeof aboutArguments>[0],
): void {
  for (const { origin } of list) {
    const intent = origin && control.intents.get(id);
    if (!intent) continue;
    control.intents.set(id, { ...intent, ...aboutArguments(list) });
    return;
  }
}

export const isParked = ({ control: { ending } }: Pick<Thread, 'control'>): boolean =>
  ending?.status === 'waiting' || ending?.status === 'needs_input';

/** True if a hook was asked about the result of this call. */
export const hasWithheldResult = (
  { hooks: { pending } }: Pick<Thread, 'hooks'>,
  id: string,
): boolean => [...pending.values()].some(({ call_id, held }) => held && call_id === id);

/**
 * True if the call stays open: a hook is asked about it, or another process takes the thread before its result. An
 * interrupted reader's call is repeated after the resume.
 */
export const isOpenCall = (
  { control: { ending, leaving }, hooks: { pending } }: Pick<Thread, 'control' | 'hooks'>,
  id: string,
  outcome: Outcome<Value>,
  isReading = false,
): boolean =>
  ending !== undefined &&
  !isEnded(ending.status) &&
  ((isReading && !outcome.ok) ||
    (leaving !== undefined && !outcome.ok && outcome.error.code === 'handed_over') ||
    [...pending.values()].some(({ call_id }) => call_id === id));

/** Identifies a call and checks for a loop before it is made. */
export async function beginStep(
  thread: Thread,
  call: ToolCallBlock,
): Promise<{ known: IdentifiedCall } | { ending: Ending | undefined }> {
  const escalated = thread.control.escalated.get(call.id);
  if (escalated) return { ending: await endEscalated(thread, call, escalated) };
  const callee = identifyCall(thread.ports, call);
  if (!callee.ok) {
    const result = asResult(callee, thread.talk.conversation.ownMarks());
    await conclude(thread, call, result);
    return { ending: stop(thread) };
  }
  const { tool, verb, effect, parameters, volatile } = callee.output;
  const loop = thread.talk.detector.observe({
    id: call.id,
    turn: thread.journal.turn,
    tool,
    effect,
    arguments: verb === 'execute' ? parameters : call.arguments,
    volatile,
  });
  if (loop) {
    // The journal already has a loop that a hook was asked about.
    const { pending } = thread.hooks;
    const isKnown = [...pending.values()].some(({ call_id, held }) => !held && call_id === call.id);
    if (!isKnown) thread.talk.loops += 1;
    await raiseError(thread, { ok: false, error: loopFault(loop) }, tool, { call: call.id });
  }
  return thread.control.ending ? { ending: thread.control.ending } : { known: callee.output };
}

/** Ends a call that a person was asked about. It is not repeated; the answer is its result. */
async function endEscalated(
  thread: Thread,
  call: ToolCallBlock,
  escalated: EscalatedCall,
): Promise<Ending | undefined> {
  const answer = await escalatedResult(thread, call.id, escalated);
  if (!answer.ok) return { status: 'interrupted', reason: answer.error.detail.message };
  if (answer.output === undefined) return thread.control.ending;
  thread.control.escalated.delete(call.id);
  const callee = identifyCall(thread.ports, call);
  if (callee.ok) thread.control.failures.delete(callee.output.tool);
  const own = thread.talk.conversation.ownMarks();
  const marks = mergeDescriptors(own, unpackMarks(escalated.marks));
  const result = { content: answer.output, marks, isError: true };
  await conclude(thread, call, result, callee.ok ? callee.output.tool : undefined);
  return stop(thread);
}

/** Records the result of a call. Returns an ending if the run is over. */
export async function endStep(
  thread: Thread,
  call: ToolCallBlock,
  callee: IdentifiedCall,
  outcome: Outcome<Value>,
): Promise<Ending | undefined> {
  // The answer of a person will be the result of this open call.
  const { ending } = thread.control;
  if (
    ending &&
    ((isParked(thread) && isPending(outcome)) ||
      isOpenCall(thread, call.id, outcome, callee.isReading))
  )
    return ending;
  const result = asResult(outcome, thread.talk.conversation.ownMarks());
  thread.talk.detector.learned(call.id, withoutTime(result.content), result.isError);
  const escalation = await escalateFailure(thread, call.id, callee.tool, result);
  if (escalation.ok && escalation.output) return thread.control.ending;
  await conclude(thread, call, result, callee.tool);
  const ended = stop(thread);
  if (ended) return ended;
  if (!outcome.ok) return undefined;
  return toReturnValue(thread, callee, outcome.output.data, outcome.output.meta.descriptor);
}

/** Returns the ending of a run. After a lost commit this process stops and another can resume. */
function stop({ control, journal }: CallRecord): Ending | undefined {
  const lost = journal.lost();
  if (!lost) return control.ending;
  return { status: 'interrupted', reason: lost.error.detail.message, code: lost.error.code };
}

/** Returns the fault of an open call that cannot be repeated without harm. */
export function unknownOutcome(call: ToolCallBlock, tool: string): Failure {
  return fail(
    'outcome_unknown',
    `the process ended while \`${tool}\` ran; it may or may not have taken effect, so check before you repeat it`,
    { tool, call_id: call.id },
  );
}
