// Provides the actions of a directive's script: tools and questions through the kernel with the thread's token,
// models in turns, and effects of the script itself.
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';
import {
  type ApprovalAnswer,
  addMarks,
  childFrame,
  createFrame,
  EMPTY,
  type Frame,
  makeValue,
  mergeAll,
  mergeDescriptors,
  perform,
  type Question,
  type Value,
} from '../../flow/index.ts';
import type { ItemKind } from '../../items/index.ts';
import { tokenAuthority } from '../../kernel/index.ts';
import type { FileBlock, ToolCallBlock } from '../../llm/index.ts';
import { blindModel } from '../files/attachment.ts';
import { accepts } from '../files/file-limits.ts';
import type { Ending } from '../loop.ts';
import { type ApprovalRequester, askAbout, callBinding } from '../rights/ask-about-call.ts';
import { callKey } from '../step/call-intent.ts';
import {
  callKernel,
  decideWithheldResult,
  runStep,
  type StepFacts,
  stepAct,
} from '../step/step.ts';
import { identifyCall } from '../step/tool-call.ts';
import { modelFor, priced } from '../thread/choose-model.ts';
import { Conversation } from '../thread/conversation.ts';
import type { ScriptAct, ScriptActions } from '../thread/ports.ts';
import type { BudgetHolder, Talk, Thread } from '../thread/thread.ts';
import { runApart } from '../turn/turn.ts';
import type { ScriptSteps, ScriptWork } from './script-steps.ts';

/** Resolves the requested tier, or else the model or tier of the directive, or else the tier `general`. */
export function chooseModel(
  { ports, place: { directive }, budget: { limits } }: BudgetHolder,
  tierName: string | undefined,
): Outcome<Pick<Talk, 'model' | 'price'>> {
  const { model_id, tier } = directive.model ?? {};
  return priced(ports, modelFor(ports, tierName ?? model_id ?? tier ?? 'general'), limits);
}

interface ModelQuestion {
  readonly prompt: Value;
  readonly tier: string | undefined;
  /** System prompt for the model. Absent: the prompt is empty. */
  readonly system?: string;
  /** File that the prompt is about, in front of it. */
  readonly file?: FileBlock | undefined;
}

/** Asks a model in a turn without tools. `between` handles signals after an interruption and can end it. */
export async function askModel(
  thread: Thread,
  { prompt, tier, system = '', file }: ModelQuestion,
  between: () => Promise<Ending | undefined>,
): Promise<Outcome<Value>> {
  const chosen = chooseModel(thread, tier);
  if (!chosen.ok) return chosen;
  const conversation = new Conversation();
  if (file && !accepts(chosen.output.model, file)) {
    return blindModel(thread.ports, chosen.output.model, file);
  }
  if (file) conversation.attach({ name: 'file', text: '', file }, prompt.meta.descriptor);
  conversation.user(prompt.text, prompt.meta.descriptor);
  for (;;) {
    const turn = await runApart(thread, { ...chosen.output, conversation, system });
    if ('reply' in turn) {
      const { content } = turn.reply;
      const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
      const descriptor = mergeDescriptors(conversation.ownMarks(), prompt.meta.descriptor);
      return ok(makeValue(text, { descriptor }));
    }
    if ('ending' in turn) return failed(turn.ending);
    const stopped = await between();
    if (stopped) return failed(stopped);
  }
}

const failed = ({ code = 'cancelled', reason }: Ending): Failure => fail(code, reason);

const KINDS: readonly ItemKind[] = ['tool', 'directive', 'knowledge'];

/**
 * Returns the frame of a call that the script's own guards have checked. Policies, guards of directives and guards
 * on facts that only the tool declares check it again.
 */
const forChecked = (frame: Frame): Frame =>
  childFrame(frame, { selection: { ...frame.selection, partOf: frame } });

/** Runs an effect of the script itself. The deadline or a kill stops it. */
async function ownWork(
  { ports, place }: Pick<Thread, 'ports' | 'place'>,
  stop: AbortController,
  call: ToolCallBlock,
  work: Parameters<ScriptActions['act']>[1],
  signal: AbortSignal | undefined,
): Promise<Outcome<Value>> {
  const recorded = await ports.replay?.recorded(place.id, call.id);
  if (recorded) return recorded;
  const end = (): void => stop.abort();
  signal?.addEventListener('abort', end, { once: true });
  const outcome = await work();
  signal?.removeEventListener('abort', end);
  return outcome.ok ? ok(makeValue(outcome.output)) : outcome;
}

/** Runs a step outside of the kernel. Guards have already checked the script's own operation. */
async function performOwn(
  thread: Thread,
  call: ToolCallBlock,
  facts: StepFacts,
  work: (signal?: AbortSignal) => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  const act = stepAct(thread, call, facts);
  const judged =
    thread.hooks.pending.size > 0 ? await decideWithheldResult(thread, call, act) : undefined;
  if (judged) return judged;
  return await perform(
    { type: 'step', name: facts.tool, opLabels: ['op:step'], retryOwner: false },
    [],
    (_inputs, { signal }) => work(signal),
    createFrame(),
    act,
  );
}

function kernelWork(
  thread: Thread,
  name: 'execute' | 'help',
  input: JsonObject,
  values: ReadonlyMap<string, Value>,
  frame: Frame,
): Outcome<ScriptWork> {
  const call = identifyCall(thread.ports, { type: 'tool_call', id: '', name, arguments: input });
  if (!call.ok) return call;
  const marks = mergeDescriptors(
    frame.influence,
    mergeAll([...values.values()].map(({ meta: { descriptor } }) => descriptor)),
  );
  return ok({
    facts: call.output,
    arguments: input,
    marks,
    body: (step, group) =>
      callKernel(thread, step, call.output, {
        group,
        values: Object.fromEntries(values),
        marks,
        frame: forChecked(frame),
      }),
  });
}

/** Asks about a statement in a step of its own, so that a script that runs again finds the answer there. */
async function putQuestion(
  thread: ApprovalRequester,
  call: ToolCallBlock,
  question: Question,
  frame: Frame,
): Promise<Outcome<Value>> {
  const about = { id: call.id, key: callKey(thread, call), effect: 'read' } as const;
  const answer = await askAbout(thread, about)(question, frame);
  if (!answer.ok) return answer;
  if (answer.output.answer === 'pending') {
    return fail('approval_pending', 'the approval request is pending', { ...answer.output });
  }
  // Only the recorded step has the approved content.
  const recorded = await thread.ports.replay?.recorded(thread.place.id, call.id);
  return recorded ?? ok(makeValue({ ...answer.output }));
}

const answerIn = (data: Json): ApprovalAnswer => {
  const answer = ANSWERS.find((word) => word === getOwn(data, 'answer')) ?? 'denied';
  const why = plainText(getOwn(data, 'why') ?? '');
  const holds = getOwn(data, 'holds');
  const preview = typeof holds === 'string' && { holds };
  return { answer, ...(why !== '' && { why }), ...preview };
};
const ANSWERS = ['approved', 'denied', 'pending', 'expired'] as const;

/** Returns the request for a right or limits in a message, with its reason. `undefined`: there is none. */
function requestIn(data: Json): JsonObject | undefined {
  if (!isObject(data)) return undefined;
  const fields = ['reason', 'capability', 'scope', 'limits'].filter((name) =>
    Object.hasOwn(data, name),
  );
  if (fields.length === 0) return undefined;
  return Object.fromEntries(fields.map((name): [string, Json] => [name, data[name] ?? null]));
}

const OWN_WORK = { volatile: [], parameters: {} };

/** Creates the actions of a script. `stop` aborts the effects that the script itself has started. */
export function createScriptActions(
  thread: Thread,
  { step, look, signals }: ScriptSteps,
  stop: AbortController,
): Omit<ScriptActions, 'paths'> {
  const { ports, place, rights, control } = thread;
  return {
    auth: () => ({
      __auth: rights.approved.auth(control.currentCall),
      __thread_id: place.id,
      __directive_id: place.directive.name,
    }),
    check(need) {
      const token = ports.tokens.verify(rights.approved.auth(control.currentCall), place.id);
      return token.ok ? tokenAuthority(token.output).check(need) : token;
    },
    async tool(id, values, frame) {
      const item_type = KINDS.find((kind) => ports.library.find(kind, id).ok) ?? 'tool';
      const parameters = Object.fromEntries([...values].map(([name, { data }]) => [name, data]));
      const request = { item_type, item_id: id, parameters };
      const work = kernelWork(thread, 'execute', request, values, frame);
      return work.ok ? await step(work.output) : work;
    },
    async help(action, message, frame) {
      // The action `guidance` takes a topic, all others a reason.
      const name = action === 'guidance' ? 'topic' : 'reason';
      const request = { action, ...(requestIn(message.data) ?? { [name]: message.text }) };
      const work = kernelWork(thread, 'help', request, new Map([[name, message]]), frame);
      return work.ok ? await step(work.output) : work;
    },
    model({ prompt, tier }, frame) {
      // A question inside a condition has the marks of the condition too.
      const question = { prompt: addMarks(prompt, frame.influence), tier };
      return look({
        facts: { ...OWN_WORK, verb: 'model', tool: 'script:model', effect: 'read' },
        arguments: { prompt: prompt.text, tier: tier ?? '' },
        marks: mergeDescriptors(frame.influence, prompt.meta.descriptor),
        body: () => askModel(thread, question, signals),
      });
    },
    async ask(question, frame) {
      const facts = { ...OWN_WORK, verb: 'ask', tool: 'script:ask', effect: 'read' } as const;
      const outcome = await step({
        facts,
        arguments: callBinding(question),
        marks: EMPTY,
        body: (call) =>
          performOwn(thread, call, facts, () => putQuestion(thread, call, question, frame)),
      });
      return outcome.ok ? ok(answerIn(outcome.output.data)) : outcome;
    },
    async act({ name, effect, arguments: request }: ScriptAct, work) {
      const tool = `script:${name}`;
      const facts = { ...OWN_WORK, verb: 'script', tool, effect };
      const about = { facts, arguments: { act: name, ...request }, marks: EMPTY };
      const own = (call: ToolCallBlock) => (signal?: AbortSignal) =>
        ownWork(thread, stop, call, work, signal);
      const outcome =
        effect === 'read'
          ? await look({ ...about, body: (call) => runStep(thread, facts, own(call)) })
          : await step({ ...about, body: (call) => performOwn(thread, call, facts, own(call)) });
      return outcome.ok ? ok(outcome.output.data) : outcome;
    },
  };
}
