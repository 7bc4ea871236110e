// What a script of a directive may do, as its thread does it: tools and questions through the kernel
// with the thread's token, models in turns, and what the script does itself.
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
import type { ToolCallBlock } from '../../llm/index.ts';
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
import { runTurn } from '../turn/turn.ts';
import type { ScriptSteps, ScriptWork } from './script-steps.ts';

/** The tier that was asked for, or the directive's, or the general one. */
export function chooseModel(
  { ports, place: { directive }, budget: { limits } }: BudgetHolder,
  wanted: string | undefined,
): Outcome<Pick<Talk, 'model' | 'price'>> {
  const { model_id, tier } = directive.model ?? {};
  return priced(ports, modelFor(ports, wanted ?? model_id ?? tier ?? 'general'), limits);
}

interface ModelQuestion {
  readonly prompt: Value;
  readonly tier: string | undefined;
  /** System prompt for the model. Absent: the prompt is empty. */
  readonly system?: string;
}

/** Asks a model in a turn without tools. `between` handles signals after an interruption and can end it. */
export async function askModel(
  thread: Thread,
  { prompt, tier, system = '' }: ModelQuestion,
  between: () => Promise<Ending | undefined>,
): Promise<Outcome<Value>> {
  const chosen = chooseModel(thread, tier);
  if (!chosen.ok) return chosen;
  const conversation = new Conversation();
  conversation.user(prompt.text, prompt.meta.descriptor);
  const talk: Talk = {
    ...thread.talk,
    ...chosen.output,
    conversation,
    system,
    ratio: undefined,
    fallback: undefined,
    triedModels: new Set(),
    tools: [],
  };
  for (;;) {
    const turn = await runTurn({ ...thread, talk });
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
 * The script's own guards have judged this call; policies and those of directives do again, and those on what
 * only the tool says of itself.
 */
const judged = (frame: Frame): Frame =>
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
  const done = await work();
  signal?.removeEventListener('abort', end);
  return done.ok ? ok(makeValue(done.output)) : done;
}

/** A step that enters no kernel. The script's own operation is what guards have judged. */
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
  given: JsonObject,
  values: ReadonlyMap<string, Value>,
  frame: Frame,
): Outcome<ScriptWork> {
  const known = identifyCall(thread.ports, { type: 'tool_call', id: '', name, arguments: given });
  if (!known.ok) return known;
  const marks = mergeDescriptors(
    frame.influence,
    mergeAll([...values.values()].map(({ meta: { descriptor } }) => descriptor)),
  );
  return ok({
    facts: known.output,
    arguments: given,
    marks,
    body: (step, group) =>
      callKernel(thread, step, known.output, {
        group,
        values: Object.fromEntries(values),
        marks,
        frame: judged(frame),
      }),
  });
}

/** A question about a statement is a step of its own: a script that runs again finds its answer there. */
async function putQuestion(
  thread: ApprovalRequester,
  call: ToolCallBlock,
  question: Question,
  frame: Frame,
): Promise<Outcome<Value>> {
  const about = { id: call.id, key: callKey(thread, call), effect: 'read' } as const;
  const asked = await askAbout(thread, about)(question, frame);
  if (!asked.ok) return asked;
  if (asked.output.answer === 'pending') {
    return fail('approval_pending', 'nobody has answered yet', { ...asked.output });
  }
  // The content that was approved stands in the recorded step alone.
  const recorded = await thread.ports.replay?.recorded(thread.place.id, call.id);
  return recorded ?? ok(makeValue({ ...asked.output }));
}

const askedIn = (data: Json): ApprovalAnswer => {
  const answer = ANSWERS.find((word) => word === getOwn(data, 'answer')) ?? 'denied';
  const why = plainText(getOwn(data, 'why') ?? '');
  const holds = getOwn(data, 'holds');
  const held = typeof holds === 'string' && { holds };
  return { answer, ...(why !== '' && { why }), ...held };
};
const ANSWERS = ['approved', 'denied', 'pending', 'expired'] as const;

/** More than words: a right or limits that are asked for, with the reason. */
function wishIn(data: Json): JsonObject | undefined {
  if (!isObject(data)) return undefined;
  const wish = ['reason', 'capability', 'scope', 'limits'].filter((name) =>
    Object.hasOwn(data, name),
  );
  if (wish.length === 0) return undefined;
  return Object.fromEntries(wish.map((name): [string, Json] => [name, data[name] ?? null]));
}

const OWN_WORK = { volatile: [], parameters: {} };

/** `stop` is aborted when what the script itself has started must end. */
export function createScriptActions(
  thread: Thread,
  { step, look, heard }: ScriptSteps,
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
      const held = ports.tokens.verify(rights.approved.auth(control.currentCall), place.id);
      return held.ok ? tokenAuthority(held.output).check(need) : held;
    },
    async tool(id, values, frame) {
      const item_type = KINDS.find((kind) => ports.library.find(kind, id).ok) ?? 'tool';
      const parameters = Object.fromEntries([...values].map(([name, { data }]) => [name, data]));
      const given = { item_type, item_id: id, parameters };
      const work = kernelWork(thread, 'execute', given, values, frame);
      return work.ok ? await step(work.output) : work;
    },
    async help(action, message, frame) {
      // What guidance is asked about is a topic; everything else is told why.
      const name = action === 'guidance' ? 'topic' : 'reason';
      const given = { action, ...(wishIn(message.data) ?? { [name]: message.text }) };
      const work = kernelWork(thread, 'help', given, new Map([[name, message]]), frame);
      return work.ok ? await step(work.output) : work;
    },
    model({ prompt, tier }, frame) {
      // What is asked under a condition carries the condition too.
      const question = { prompt: addMarks(prompt, frame.influence), tier };
      return look({
        facts: { ...OWN_WORK, verb: 'model', tool: 'script:model', effect: 'read' },
        arguments: { prompt: prompt.text, tier: tier ?? '' },
        marks: mergeDescriptors(frame.influence, prompt.meta.descriptor),
        body: () => askModel(thread, question, heard),
      });
    },
    async ask(question, frame) {
      const facts = { ...OWN_WORK, verb: 'ask', tool: 'script:ask', effect: 'read' } as const;
      const done = await step({
        facts,
        arguments: callBinding(question),
        marks: EMPTY,
        body: (call) =>
          performOwn(thread, call, facts, () => putQuestion(thread, call, question, frame)),
      });
      return done.ok ? ok(askedIn(done.output.data)) : done;
    },
    async act({ name, effect, arguments: given }: ScriptAct, work) {
      const tool = `script:${name}`;
      const facts = { ...OWN_WORK, verb: 'script', tool, effect };
      const about = { facts, arguments: { act: name, ...given }, marks: EMPTY };
      const own = (call: ToolCallBlock) => (signal?: AbortSignal) =>
        ownWork(thread, stop, call, work, signal);
      const done =
        effect === 'read'
          ? await look({ ...about, body: (call) => runStep(thread, facts, own(call)) })
          : await step({ ...about, body: (call) => performOwn(thread, call, facts, own(call)) });
      return done.ok ? ok(done.output.data) : done;
    },
  };
}
