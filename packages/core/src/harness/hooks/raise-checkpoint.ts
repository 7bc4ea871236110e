// Raises the five checkpoints of a running thread: finds the hook that answers, runs it and carries out the
// decision. `action.ts` has the table of decisions.
import { isDeepStrictEqual } from 'node:util';
import {
  type Failure,
  type Fault,
  fail,
  getOwn,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import {
  type CheckpointVerdict,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  type FlowCheckpoint as FlowEvent,
  type MaybePromise,
  makeValue,
  markFailure,
  mergeAll,
} from '../../flow/index.ts';
import type { Library } from '../../items/index.ts';
import {
  type DataOf,
  type HookAnswered,
  type HookStart,
  PASSED_HOOK,
} from '../../journal/index.ts';
import { checkInputs } from '../../kernel/index.ts';
import { packCost, usedAmounts } from '../limits/cost.ts';
import { packLimits } from '../limits/effective-limits.ts';
import {
  contextWarning,
  crossedMarks,
  type LimitEvent,
  limitIn,
  markKey,
  type WarningEvent,
} from '../limits/limit.ts';
import { raisedAmounts, raiseRoom } from '../thread/budget.ts';
import { type ModelUser, switchModel } from '../thread/choose-model.ts';
import { aboutArguments, conversationText, unpackMarks } from '../thread/conversation.ts';
import { openingEvents } from '../thread/opening.ts';
import {
  countedResult,
  notesLine,
  skippedResult,
  warningLine,
  withheldResult,
} from '../thread/prompt.ts';
import { NO_BOUNDS, stepDone } from '../thread/restore.ts';
import { newAttempt, tell } from '../thread/talk.ts';
import type {
  CompiledHook,
  Control,
  DirectiveTalk,
  HookAbout,
  Hooks,
  Thread,
} from '../thread/thread.ts';
import {
  type Decision,
  decide,
  decideFailure,
  type HookDecision,
  type Situation,
  withoutHook,
} from './action.ts';
import {
  afterStep,
  beforeStep,
  type CheckpointEvent,
  faultOf,
  onError,
  type Step,
  stepName,
} from './checkpoint.ts';
import { type HookVerdict, parseVerdict } from './hook-answer.ts';
import { withProposal } from './improve-directive.ts';
import { buildContext, fillInputs, type HookView, select, withoutOutside } from './select-hook.ts';

function eventOf(event: FlowEvent, step: Step): CheckpointEvent {
  switch (event.name) {
    case 'before_step':
      return beforeStep(step);
    case 'after_step':
      return afterStep(step, event.result.data);
    case 'error':
    case 'limit':
      // The deadline or the budget of an ancestor can be exceeded during the step. A failure to count, for
      // example without a store, is not a limit.
      return limitIn(event.fault)?.event ?? onError(event.fault);
  }
}

/**
 * Fills inputs that the directive of a hook declares and the hook does not set: the event, the transcript and
 * the limit. `FILLED_INPUTS` of `items` lists them.
 */
function withEvent(
  { ports, talk, place }: DirectiveTalk,
  directive: string,
  event: CheckpointEvent,
  inputs: JsonObject,
): JsonObject {
  const found = ports.library.find('directive', directive);
  const declared = found.ok ? (found.output.directive?.inputs ?? []) : [];
  const facts: Record<string, () => Json> = {
    event: () => event.name,
    detail: () => (event.name === 'error' ? { ...event.detail } : {}),
    transcript: () => conversationText(talk.conversation.messages()),
    original_directive: () => place.directive.name,
    ...(event.name === 'limit' || event.name === 'warning' ? limitFacts(event) : {}),
  };
  const unset = Object.entries(facts).filter(([fact]) =>
    declared.some(({ name }) => name === fact && !Object.hasOwn(inputs, name)),
  );
  return { ...inputs, ...Object.fromEntries(unset.map(([fact, read]) => [fact, read()])) };
}

const limitFacts = (event: LimitEvent | WarningEvent): Record<string, () => Json> => ({
  limit: () => event.limit,
  current: () => event.current,
  max: () => event.max,
  ...(event.name === 'warning' && { percent: () => event.percent }),
});

function startedAt({ pending }: Hooks, situation: Situation): HookStart | undefined {
  if (pending.size === 0) return undefined;
  const { event, step, open = {} } = situation;
  return [...pending.values()].find(
    (start) =>
      start.event === event.name &&
      start.step === step &&
      start.call_id === open.call &&
      start.fault?.code === open.fault?.code,
  );
}

/** True if this hook started the thread. The directive of a hook can have changed since then. */
function isBy(library: Library, { index, hook }: CompiledHook, start: HookStart): boolean {
  const found = library.find('directive', hook.directive);
  return index === start.index && found.ok && found.output.id === start.directive;
}

/** A hook and its inputs. `foreign`: inputs whose value depends on untrusted data. */
interface Chosen {
  hook: CompiledHook;
  inputs: JsonObject;
  foreign?: readonly string[];
}

/** Returns the first hook that matches, with its inputs. */
function choose(
  thread: HookView & DirectiveTalk & Pick<Thread, 'hooks' | 'journal'>,
  { event, required }: Situation,
  list: readonly CompiledHook[],
): Chosen | undefined {
  const { hooks, journal } = thread;
  if (!mayAnswer(hooks, event.name)) return undefined;
  const context = buildContext(thread, event, required);
  const before = [...hooks.fired].join();
  const isEnd = event.name === 'end';
  const own = isEnd ? list.filter(({ events }) => events.has('end')) : list;
  const { hook, errors } = select(own, context, hooks.fired);
  for (const { hook: broken, message } of errors) {
    const detail = { message, when: broken.when };
    journal.note({ type: 'error', data: { code: 'expression_error', detail } });
  }
  if (hook) {
    const name = hook.hook.directive;
    const inputs = withEvent(thread, name, event, fillInputs(hook, context));
    if (!thread.talk.references) return { hook, inputs };
    const same = fillInputs(hook, withoutOutside(context));
    const foreign = Object.keys(inputs).filter(
      (input) => !isDeepStrictEqual(getOwn(inputs, input), getOwn(same, input)),
    );
    return { hook, inputs, foreign };
  }
  const fired = [...hooks.fired];
  if (before !== fired.join()) journal.note({ type: 'hook_state', data: { fired } });
  return undefined;
}

/** Facts for the `hook_start` event: the checkpoint, and the open call or fault. */
const aboutOf = (
  { event, step, open: { call, held, fault } = {} }: Situation,
  { index }: CompiledHook,
  fired: readonly number[],
): HookAbout => ({
  event: event.name,
  step,
  index,
  fired,
  ...(call !== undefined && { call_id: call }),
  ...(held && { held }),
  ...(fault && { fault }),
  ...(event.name === 'warning' && { warning: event }),
});

/** Parks the run together with its hook, which has not decided yet. */
function rest(control: Control, situation: Situation, { error }: Failure): Decision {
  const status = RESTING.find((one) => one === error.detail.status) ?? 'waiting';
  control.ending ??= { status, reason: error.detail.message };
  const fault = faultOf(situation.event) ?? error;
  return { instruction: { do: 'wait', fault }, notes: {}, bounds: situation.bounds };
}
const RESTING = ['needs_input', 'interrupted'] as const;

/** Returns the decision with checked inputs and their opening. Fails if no new attempt can use the inputs. */
async function withInputs(
  { ports, place, talk }: DirectiveTalk,
  { inputs: newInputs }: HookVerdict,
  decision: Decision,
  answerMarks: Descriptor,
): Promise<Outcome<Decision>> {
  const { instruction } = decision;
  if (!newInputs || 'fault' in instruction) return ok(decision);
  const { item, directive, plan } = place;
  const isFixed = plan !== undefined || directive.process.script !== undefined;
  if ((instruction.do !== 'new_attempt' && instruction.do !== 'restart') || isFixed) {
    const message =
      'the hook’s `context.inputs` cannot be used here; `retry` begins a new attempt at a limit and at the start';
    return fail('hook_failed', message);
  }
  const inputs = checkInputs(directive, newInputs);
  if (!inputs.ok) return inputs;
  const { conversation } = talk;
  const marks = mergeAll([
    answerMarks,
    talk.references ? conversation.allMarks() : conversation.marks(),
    ...talk.opening.map(({ data }) => ('marks' in data ? unpackMarks(data.marks) : EMPTY)),
  ]);
  const prepared = { item, directive, inputs: inputs.output };
  const isReference = talk.references !== undefined;
  const opening = await openingEvents(ports, prepared, '', { marks, isReference });
  if (!opening.ok) return opening;
  // The opening keeps the message of the person.
  const message = talk.opening.slice(opening.output.length);
  const begins = { inputs: inputs.output, opening: [...opening.output, ...message] };
  return ok({ ...decision, instruction: { do: 'new_attempt', begins } });
}

/** Runs the first hook that matches. Without a match the defaults apply. */
async function decisionOf(
  thread: Thread,
  situation: Situation,
  list = thread.hooks.list,
): Promise<Decision> {
  const { hooks, journal, budget, ports, control } = thread;
  const before = startedAt(hooks, situation);
  const same = before && list.find((one) => isBy(ports.library, one, before));
  const chosen: Chosen | undefined = same
    ? { hook: same, inputs: {} }
    : choose(thread, situation, list);
  if (!chosen) return withoutHook(situation);
  const { hook, inputs, foreign } = chosen;
  const name = hook.hook.directive;
  const fired = [...hooks.fired];
  const began = ports.clock.monotonic();
  await journal.flush();
  budget.meter.stopClock();
  const request = before && same ? { before } : { about: aboutOf(situation, hook, fired), foreign };
  const answered = await hooks.run(thread, name, inputs, request);
  budget.meter.startClock();
  if (!answered.ok && answered.error.code === 'approval_pending') {
    return rest(control, situation, answered);
  }
  const start = startedAt(hooks, situation);
  if (start) hooks.pending.delete(start.thread_id);
  // A hook that cannot be paid for, or cannot run here, does not match. The next hook can answer.
  if (!answered.ok && PASSED_HOOK.has(answered.error.code)) {
    journal.note({ type: 'error', data: answered.error });
    return await decisionOf(thread, situation, list.slice(list.indexOf(hook) + 1));
  }
  const marks = answered.ok ? answered.output.meta.descriptor : descriptorOfFault(answered.error);
  const parsed = answered.ok ? parseVerdict(answered.output.data) : answered;
  const decided = parsed.ok
    ? await withInputs(thread, parsed.output, decide(parsed.output, situation), marks)
    : parsed;
  const decision = decided.ok
    ? await withProposal(thread, { ...decided.output, marks })
    : decideFailure(name, decided, situation);
  const { instruction, model, notes, bounds } = decision;
  const { call, held } = situation.open ?? {};
  const isReplaced = !start && !KEEPS_RESULT.has(instruction.do);
  const data: HookAnswered = {
    directive: name,
    event: situation.event.name,
    step: situation.step,
    decision: instruction.do,
    notes,
    duration_ms: Math.round(ports.clock.monotonic() - began),
    fired,
    bounds,
    ...(model !== undefined && { model }),
    ...(instruction.do === 'raise' && { limits: packLimits(instruction.limits) }),
    ...(start && { thread_id: start.thread_id }),
    ...(isReplaced && call !== undefined && held && { call_id: call, held: await held() }),
  };
  const cost = packCost(budget.meter.read());
  const raise = instruction.do === 'raise' && {
    raise: raisedAmounts(thread, instruction.limits, instruction.raised),
  };
  journal.note({ type: 'hook', data }, { cost, ...raise });
  return { ...decision, instruction: carriedBy(instruction, marks), hook: name, marks };
}

/** Decisions after which the result of the call is recorded unchanged. */
const KEEPS_RESULT: ReadonlySet<HookDecision['do']> = new Set<HookDecision['do']>([
  'proceed',
  'tell_error',
  'tell_warning',
  'run_with_granted',
  'raise',
]);

/** Adds the marks of the hook to its reason, because the hook has read data with these marks. */
const carriedBy = (instruction: HookDecision, marks: Descriptor): HookDecision =>
  'fault' in instruction
    ? { ...instruction, fault: markFailure({ ok: false, error: instruction.fault }, marks).error }
    : instruction;

/** Applies the changes of a decision for the rest of the run, and tells the model the notes of the hook. */
function applyDecision(
  thread: ModelUser & Pick<Thread, 'hooks' | 'journal'>,
  { instruction, bounds, model, notes, marks, hook = '' }: Decision,
): HookDecision {
  thread.hooks.bounds = bounds;
  if (model !== undefined) switchModel(thread, model);
  const line = notesLine(hook, notes);
  if (line !== undefined) tell(thread, line, undefined, marks);
  return instruction;
}

const consult = async (thread: Thread, situation: Situation): Promise<HookDecision> =>
  applyDecision(thread, await decisionOf(thread, situation));

/** Final status by decision. The other decisions continue the run. */
const ENDS = {
  ask_person: 'needs_input',
  wait: 'waiting',
  stop: 'limit',
  fail: 'failed',
  abort: 'aborted',
} as const;

/** Texts that the model gets in place of a result. */
const INSTEAD = {
  skip_step: skippedResult,
  withhold_result: withheldResult,
  count_as_done: countedResult,
} as const;

/** True for a warning about the context window of a thread that makes room by itself. */
const makesRoom = ({ budget }: Pick<Thread, 'budget'>, { limit }: WarningEvent): boolean =>
  limit === 'context' && budget.limits.context_compact.value === 'auto';

/** Carries out a decision. Without a `default`, a new decision does not compile. */
function carryOut(
  thread: Thread,
  instruction: HookDecision,
  event: CheckpointEvent,
  step: string,
): CheckpointVerdict | undefined {
  // `raiseEnd` handles this decision. It exists only at the end of a run.
  if (instruction.do === 'next_round') return undefined;
  // The operation fails with the reason, and the loop stops at its next boundary. A stop that arrived while the
  // hook ran takes precedence.
  if ('fault' in instruction) {
    const { code, detail } = instruction.fault;
    thread.control.ending ??= { status: ENDS[instruction.do], reason: detail.message, code };
    return { action: 'end', outcome: { ok: false, error: instruction.fault } };
  }
  switch (instruction.do) {
    case 'proceed':
    case 'tell_error':
    case 'run_with_granted':
      return undefined;
    case 'tell_warning':
      if (event.name === 'warning' && !makesRoom(thread, event)) tell(thread, warningLine(event));
      return undefined;
    case 'raise':
      thread.budget.limits = instruction.limits;
      return { action: 'retry' };
    case 'repeat_step':
    case 'restart':
      return { action: 'retry' };
    case 'new_attempt':
      newAttempt(thread, instruction.begins);
      return { action: 'retry' };
    case 'skip_step':
    case 'withhold_result':
    case 'count_as_done':
      return { action: 'end', outcome: ok(makeValue(INSTEAD[instruction.do](step))) };
  }
}

/** True if a hook can match. A hook that fired is evaluated at every event, so that it can be rearmed. */
export function mayAnswer({ list, fired }: Hooks, name: CheckpointEvent['name']): boolean {
  for (const { events } of list) if (events.has(name)) return true;
  return name !== 'end' && fired.size > 0;
}

/** Raises a checkpoint, at fixed points of the pipeline. Allocates and awaits nothing without hooks. */
export function raise(
  thread: Thread,
  event: FlowEvent,
  step: Step,
): MaybePromise<CheckpointVerdict | undefined> {
  const { hooks, control } = thread;
  if (control.ending) return undefined;
  const isStep = event.name === 'before_step' || event.name === 'after_step';
  if (!isStep || mayAnswer(hooks, event.name)) return raiseEvent(thread, event, step);
  if (event.name === 'after_step' && hooks.bounds !== NO_BOUNDS) {
    hooks.bounds = stepDone(hooks.bounds, stepName(step));
  }
  return undefined;
}

/** Returns the refused call, the stage that refused it, and the known facts about its arguments. */
function placeOf(event: FlowEvent): Omit<DataOf<'permission_denied'>, 'code' | 'detail'> {
  if (event.name !== 'error') return {};
  const { stage, call, arguments: inputs } = event;
  return {
    ...(call !== undefined && { call_id: call }),
    ...(stage && { stage }),
    ...aboutArguments(inputs),
  };
}

async function raiseEvent(
  thread: Thread,
  flowEvent: FlowEvent,
  step: Step,
): Promise<CheckpointVerdict | undefined> {
  const event = eventOf(flowEvent, step);
  const { journal } = thread;
  const name = stepName(step);
  const open = openAt(flowEvent, step);
  // Denials and limits have an event of their own, recorded once even if a hook is resumed later.
  const isNew = !startedAt(thread.hooks, { event, step: name, open, bounds: NO_BOUNDS });
  if (isNew && event.name === 'limit') journal.note({ type: 'limit', data: event });
  else if (isNew && event.name === 'error' && event.code === 'permission_denied') {
    const { code, detail } = event;
    journal.note({ type: 'permission_denied', data: { code, detail, ...placeOf(flowEvent) } });
  }
  const fault = event.name === 'limit' && 'fault' in flowEvent ? flowEvent.fault : undefined;
  const situation = await situationOf(thread, event, name, fault);
  const instruction = await consult(thread, { ...situation, open, required: step.required });
  await journal.catchUp();
  return carryOut(thread, instruction, event, name);
}

/** Returns the open call of a checkpoint. Before the step it has no result. */
function openAt(event: FlowEvent, { call }: Step): NonNullable<Situation['open']> {
  if (!call) return 'fault' in event ? { fault: event.fault } : {};
  const withheld = event.name !== 'before_step' && { held: () => call.held(event) };
  return { call: call.id, ...withheld };
}

async function situationOf(
  thread: DirectiveTalk & Pick<Thread, 'hooks' | 'budget' | 'journal'>,
  event: CheckpointEvent,
  step: string,
  fault?: Fault,
): Promise<Situation> {
  const { place, hooks, talk, budget } = thread;
  const reached = fault && limitIn(fault);
  // Limits can be raised only here. The room for a raise costs a read of every ancestor's budget.
  const isAtLimit = event.name === 'limit' || event.name === 'warning';
  // If the budget of an ancestor is exceeded, a raise of the thread's own limit would not help.
  const above = reached?.event.thread;
  const isOwn = above === undefined || above === place.id;
  const needed = reached?.least ?? 0n;
  const isFatal = step.startsWith('turn ');
  const plain = { event, step, bounds: hooks.bounds, loops: talk.loops, isFatal };
  if (!isOwn || !isAtLimit) return plain;
  return { ...plain, raise: { limits: budget.limits, needed, room: await raiseRoom(thread) } };
}

/** Returns the event type of an error. Loops and denials have types of their own. */
const typeOf = ({ code }: Fault): 'loop_detected' | 'permission_denied' | 'error' =>
  (['loop_detected', 'permission_denied'] as const).find((type) => type === code) ?? 'error';

interface ErrorPlace {
  isTold?: boolean;
  isStart?: boolean;
  call?: string;
}

/** Raises a loop or a call for help as an error. `isTold`: the model gets the error from another source. */
export async function raiseError(
  thread: Thread,
  { error }: Failure,
  step: string,
  { isTold = false, isStart = false, call }: ErrorPlace = {},
): Promise<CheckpointVerdict | undefined> {
  const event = onError(error);
  const open = { fault: error, ...(call !== undefined && { call }) };
  const situation = { ...(await situationOf(thread, event, step)), isStart, isOwn: true, open };
  if (!startedAt(thread.hooks, situation)) {
    thread.journal.note({ type: typeOf(error), data: { code: error.code, detail: error.detail } });
  }
  const instruction = await consult(thread, situation);
  if (instruction.do !== 'tell_error') return carryOut(thread, instruction, event, step);
  const from = descriptorOfFault(error);
  if (!isTold) tell(thread, `[harness] ${error.detail.message}`, undefined, from);
  return undefined;
}

/** Raises the end of a run. Returns the fault whose message the model gets, if a hook demands another round. */
export async function raiseEnd(
  thread: Thread,
  event: CheckpointEvent & { name: 'end' },
): Promise<Fault | undefined> {
  if (!mayAnswer(thread.hooks, event.name)) return undefined;
  const step = `end ${event.round}`;
  const instruction = await consult(thread, await situationOf(thread, event, step));
  if (instruction.do === 'next_round') return instruction.fault;
  carryOut(thread, instruction, event, step);
  return undefined;
}

/** Raises a checkpoint of a compaction. `keep`: a text of the hook that the facts must contain. */
export async function raiseCompaction(
  thread: Thread,
  event: CheckpointEvent & { name: 'before_step' | 'after_step' },
): Promise<{ does: HookDecision['do']; keep?: Json | undefined; marks?: Descriptor | undefined }> {
  if (!mayAnswer(thread.hooks, event.name)) return { does: 'proceed' };
  const decision = await decisionOf(thread, await situationOf(thread, event, event.step));
  const { keep, ...notes } = decision.notes;
  const instruction = applyDecision(thread, { ...decision, notes });
  if ('fault' in instruction) carryOut(thread, instruction, event, event.step);
  return { does: instruction.do, keep, marks: decision.marks };
}

/** Raises each limit warning since the last check. Returns `undefined` if there is none. */
export function raiseWarnings(thread: Thread): Promise<void> | undefined {
  const { budget, talk, hooks } = thread;
  const { meter, limits, warned, windowSeen } = budget;
  const cost = meter.read();
  const warnings = crossedMarks(usedAmounts(cost), limits, warned);
  budget.windowSeen = cost.context_tokens;
  const max = limits.context?.value ?? BigInt(talk.price.context ?? 0);
  const window = contextWarning(windowSeen, cost.context_tokens, max, limits.context_warn);
  if (window) warnings.push(window);
  // A warning that a hook had not answered when the thread parked is raised again.
  for (const { warning } of hooks.pending.values()) if (warning) warnings.unshift(warning);
  return warnings.length > 0 ? warn(thread, warnings) : undefined;
}

async function warn(thread: Thread, warnings: readonly WarningEvent[]): Promise<void> {
  for (const event of warnings) {
    // The warning about the context window is repeated at every crossing.
    if (event.limit !== 'context') thread.budget.warned.add(markKey(event));
    const situation = await situationOf(thread, event, event.code);
    if (!startedAt(thread.hooks, situation)) thread.journal.note({ type: 'warning', data: event });
    const instruction = await consult(thread, situation);
    carryOut(thread, instruction, event, event.code);
    if (thread.control.ending) return;
  }
}
