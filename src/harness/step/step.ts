// One call of the model: counted, noted before it is done, done through the kernel with the thread's
// token, and its result noted. An intent without a result is how a crash in between is recognised.
import {
  type Failure,
  type Fault,
  fail,
  getOwn,
  type Json,
  type Outcome,
  ok,
} from '../../base/index.ts';
import {
  type ActPorts,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  type FlowCheckpoint,
  type Frame,
  makeValue,
  mergeDescriptors,
  perform,
  type Value,
} from '../../flow/index.ts';
import type { Caller } from '../../kernel/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import { raise, raiseError } from '../hooks/raise-checkpoint.ts';
import { packCost, usedAmounts } from '../limits/cost.ts';
import { firstExceeded, UNITS } from '../limits/limit.ts';
import type { Ending } from '../loop.ts';
import { packMarks } from '../thread/conversation.ts';
import { deadlineFault, STOPS_TOOL, watchForInterruption } from '../thread/interruption.ts';
import type { ToolCall } from '../thread/journal-event.ts';
import { withoutTime } from '../thread/prompt.ts';
import type { CallIntent, Thread } from '../thread/thread.ts';
import { refusedBy } from '../turn/turn-account.ts';
import { endCall, intentOf, nameCall } from './call-intent.ts';
import { keepResult, type Result } from './large-result.ts';
import { loopFault } from './loop-detector.ts';
import { asLimit, type IdentifiedCall, identifyCall, stepKind } from './tool-call.ts';

/** What a step is about: a call of a kernel verb, or something a script does by itself. */
export type StepFacts = Pick<IdentifiedCall, 'tool' | 'effect' | 'volatile' | 'parameters'> & {
  verb: string;
};

/** Everything the model wrote carries what it has read. */
function labelled(known: IdentifiedCall, marks: Descriptor): Record<string, Value> {
  const values: Record<string, Value> = {};
  for (const [name, data] of Object.entries(known.parameters)) {
    values[name] = makeValue(data, { descriptor: marks });
  }
  const { content } = known.request;
  if (content !== undefined) values.content = makeValue(content, { descriptor: marks });
  return values;
}

function callerOf(
  thread: Thread,
  signal: AbortSignal,
  { id = thread.control.currentCall, key, frame }: KernelCall,
): Caller {
  return {
    surface: 'thread',
    name: thread.place.id,
    frame: frame ?? thread.ports.frame(),
    signal,
    __auth: thread.rights.approved.auth(id),
    __thread_id: thread.place.id,
    __directive_id: thread.place.directive.name,
    ...(key === undefined ? {} : { idempotencyKey: key }),
  };
}

/** The directive's own outputs, handed back: the run is over. */
export function returned(
  thread: Thread,
  known: Pick<IdentifiedCall, 'verb' | 'request'>,
  output: Json,
): Ending | undefined {
  if (known.verb !== 'execute' || getOwn(known.request, 'action') !== 'return') return undefined;
  if (getOwn(output, 'directive') !== thread.place.directive.name) return undefined;
  return { status: 'completed', reason: '', outputs: getOwn(output, 'outputs') ?? {} };
}

/** As a model is told about it. */
export const failureJson = ({ error: { code, detail } }: Failure): Json => ({
  ok: false,
  error: { code, detail },
});

export const asResult = (outcome: Outcome<Value>, marks: Descriptor): Result =>
  outcome.ok
    ? { content: outcome.output.data, marks: outcome.output.meta.descriptor, isError: false }
    : {
        content: failureJson(outcome),
        marks: mergeDescriptors(marks, descriptorOfFault(outcome.error) ?? EMPTY),
        isError: true,
      };

/** Notes a result; a large one is kept apart, and what is noted is how it begins. */
export function noteResult(
  thread: Thread,
  call: ToolCallBlock,
  result: Result,
  { tool, effect = 'write' }: Partial<Pick<StepFacts, 'tool' | 'effect'>> = {},
): Outcome<Result> {
  const {
    journal,
    budget: { meter },
  } = thread;
  const done = keepResult(thread, result);
  const data = {
    call_id: call.id,
    ...(tool !== undefined && { tool }),
    content: done.content,
    is_error: done.isError,
    marks: packMarks(done.marks),
  };
  // What was only read can be read again.
  const write = effect === 'read' ? journal.appendSoon : journal.append;
  const noted = write([{ type: 'tool_result', data }], { cost: packCost(meter.read()) });
  endCall(thread, call);
  return noted.ok ? ok(done) : noted;
}

/** Notes a result and hands it to the model as it was noted. */
function conclude(
  thread: Thread,
  call: ToolCallBlock,
  result: Result,
  facts?: Pick<StepFacts, 'tool' | 'effect'>,
): Outcome<null> {
  const noted = noteResult(thread, call, result, facts);
  if (!noted.ok) return noted;
  const { content, marks, isError } = noted.output;
  thread.talk.conversation.result(call.id, content, marks, isError);
  return ok(null);
}

export interface KernelCall {
  /** Of the call; the one at work when absent. */
  id?: string;
  key: string | undefined;
  /** Parameters with their marks. */
  values: Record<string, Value>;
  /** With the policies in force when absent. */
  frame?: Frame;
}

/** The effect itself. It is stopped at the deadline, and when the thread is killed. */
export async function callKernel(
  thread: Thread,
  known: IdentifiedCall,
  call: KernelCall,
): Promise<Outcome<Value>> {
  const interruption = watchForInterruption(thread, STOPS_TOOL);
  try {
    // INVARIANT: just before an effect; whoever takes off has looked at the lease.
    if (interruption.cause() === 'lost') {
      return fail('stale_epoch', 'this process no longer holds the thread');
    }
    const request = { ...known.request, values: call.values };
    const caller = callerOf(thread, interruption.signal, call);
    const done = await thread.ports.kernel[known.verb](request as never, caller);
    if (done.ok) return done;
    const cause = interruption.cause();
    if (cause === undefined) return done;
    return cause === 'duration' ? deadlineFault(thread, done) : calledOff(known, done);
  } finally {
    interruption.release();
  }
}

const calledOff = ({ tool }: IdentifiedCall, { error }: Failure): Failure =>
  fail('cancelled', `\`${tool}\` was stopped while it was at work`, { ...error.detail });

// INVARIANT: a write that was stopped in the middle may have had its effect. It is not done again,
// whatever a hook says; the model is told and may look.
const mayRepeat = ({ effect }: StepFacts, event: FlowCheckpoint): boolean =>
  effect !== 'write' || event.name !== 'error' || !isStopped(event.fault);

const isStopped = ({ code }: Fault): boolean =>
  code === 'cancelled' || code === 'duration_exceeded';

export async function performCall(
  thread: Thread,
  call: ToolCallBlock,
  known: IdentifiedCall,
): Promise<Outcome<Value>> {
  const marks = thread.talk.conversation.ownMarks();
  return await performStep(thread, call, known, {
    marks,
    body: (key) => callKernel(thread, known, { id: call.id, key, values: labelled(known, marks) }),
  });
}

export interface StepWork {
  /** Of its arguments. */
  marks: Descriptor;
  /** The key is the same when this very step is done again. */
  body(key: string | undefined): Promise<Outcome<Value>>;
}

/** One step through the pipeline: limits, intent, checkpoints, the effect itself. */
export async function performStep(
  thread: Thread,
  call: ToolCallBlock,
  known: StepFacts,
  { marks, body }: StepWork,
): Promise<Outcome<Value>> {
  const {
    ports,
    journal,
    budget: { meter },
  } = thread;
  let begun: CallIntent | undefined;
  thread.control.currentCall = call.id;
  const step = {
    kind: known.verb === 'execute' ? stepKind(ports.library, known.tool) : ('tool' as const),
    tool: known.tool,
    turn: journal.turn,
    arguments: call.arguments,
  };
  const act: ActPorts = {
    limits: {
      reserve() {
        const event = firstExceeded(
          usedAmounts(meter.read()),
          {},
          UNITS.tool,
          thread.budget.limits,
        );
        if (event) return refusedBy(event, usedAmounts(meter.read()).tool_calls ?? 0n);
        meter.countToolCall();
        begun = nameCall(thread, call, known);
        const data: ToolCall = {
          call_id: call.id,
          tool: known.tool,
          verb: known.verb,
          effect: known.effect,
          arguments: call.arguments,
          ...(known.volatile.length > 0 && { volatile: [...known.volatile] }),
          ...intentOf(begun, meter.read().tool_calls),
        };
        const noted = journal.note({ type: 'tool_call', data });
        return noted.ok ? ok({ settle: () => {}, release: () => {} }) : noted;
      },
    },
    async checkpoint(event) {
      const verdict = await raise(thread, asLimit(event), step);
      return verdict?.action === 'retry' && !mayRepeat(known, event) ? undefined : verdict;
    },
  };
  return await perform(
    { type: 'step', name: known.tool, opLabels: ['op:step'], retryOwner: false },
    [
      {
        name: 'arguments',
        role: 'content',
        value: makeValue(call.arguments, { descriptor: marks }),
      },
    ],
    () => body(begun?.key),
    ports.bareFrame(),
    act,
  );
}

export const isAtRest = ({ control: { ending } }: Thread): boolean =>
  ending?.status === 'waiting' || ending?.status === 'needs_input';

/** Before a call is made: what it is, and whether it goes round in circles. */
export async function beginStep(
  thread: Thread,
  call: ToolCallBlock,
): Promise<{ known: IdentifiedCall } | { ending: Ending | undefined }> {
  const known = identifyCall(thread.ports, call);
  if (!known.ok) {
    const done = asResult(known, thread.talk.conversation.ownMarks());
    return { ending: stop(thread, conclude(thread, call, done)) };
  }
  const { tool, verb, parameters, volatile } = known.output;
  const loop = thread.talk.detector.observe({
    id: call.id,
    turn: thread.journal.turn,
    tool,
    arguments: verb === 'execute' ? parameters : call.arguments,
    volatile: [...volatile],
  });
  if (loop) {
    if (!loop.progress) thread.talk.loops += 1;
    await raiseError(thread, { ok: false, error: loopFault(loop) }, tool);
  }
  return thread.control.ending ? { ending: thread.control.ending } : { known: known.output };
}

/** Records what came of it; an ending when that was the last step. */
export function endStep(
  thread: Thread,
  call: ToolCallBlock,
  known: IdentifiedCall,
  outcome: Outcome<Value>,
): Ending | undefined {
  // A person was asked: the call stays open, its result is the answer.
  if (isAtRest(thread)) return thread.control.ending;
  const done = asResult(outcome, thread.talk.conversation.ownMarks());
  thread.talk.detector.learned(call.id, withoutTime(done.content), done.isError);
  const ended = stop(thread, conclude(thread, call, done, known));
  if (ended) return ended;
  return outcome.ok ? returned(thread, known, outcome.output.data) : undefined;
}

/** What cannot be recorded ends this process's work on the thread; another may resume it. */
const stop = (thread: Thread, noted: Outcome<null>): Ending | undefined =>
  noted.ok
    ? thread.control.ending
    : { status: 'interrupted', reason: noted.error.detail.message, code: noted.error.code };

/** A call that was begun before a crash: repeated when that does no harm, otherwise left unknown. */
export function unknownOutcome(call: ToolCallBlock, tool: string): Failure {
  return fail(
    'outcome_unknown',
    `the process ended while \`${tool}\` was at work; it may or may not have taken effect, look before you repeat it`,
    { tool, call_id: call.id },
  );
}
