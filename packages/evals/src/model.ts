// A model in the worst case. It performs the recorded calls for its user until it reads an
// attacker's text. Then it obeys the attacker first. Its only knowledge of a conversation is the
// request.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  parseJson,
  textAt,
} from '@kernmantle/core/base';
import type { ScriptedReply, ScriptedRequest } from '@kernmantle/core/llm';
import { planText } from './plan-text.ts';
import type { Play } from './play.ts';
import { readAnswer } from './reader.ts';
import type { Path } from './sources.ts';
import { build, stepsOf, type TaskStep } from './steps.ts';
import { CHILD, callTool, injectedCalls, type ModelCall, type VariantPorts } from './variants.ts';

/** Negligible usage, so that no run ends at its budget. */
const USAGE = { input_tokens: 10, output_tokens: 10, cache_read_tokens: 0, cache_write_tokens: 0 };

const saying = (text: string): ScriptedReply => ({ text, usage: USAGE, piece: 100_000 });
const calling = (calls: readonly ModelCall[]): ScriptedReply => ({
  tool_calls: calls.map(({ id, name, arguments: given }) => ({ id, name, arguments: given })),
  usage: USAGE,
  piece: 100_000,
});

/** The input of the model without its own replies. */
function heardIn({ body }: ScriptedRequest): string {
  const messages = listAt(body, 'messages').filter((one) => textAt(one, 'role') !== 'assistant');
  return JSON.stringify([body.system ?? '', messages]);
}

/** The text of a block in either format. */
const textOf = (content: Json | undefined): string => {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map((block) => textAt(block, 'text')).join('') : '';
};

interface ToolAnswer {
  readonly content: Json;
  readonly isError: boolean;
}

/** Answers by the id of the call. */
function answersIn({ body }: ScriptedRequest): Map<string, ToolAnswer> {
  const answers = new Map<string, ToolAnswer>();
  for (const message of listAt(body, 'messages')) {
    for (const block of listAt(message, 'content')) {
      if (textAt(block, 'type') !== 'tool_result') continue;
      const text = textOf(getOwn(block, 'content'));
      const parsed = parseJson(text);
      const content = parsed.ok ? parsed.output : text;
      const isError = getOwn(block, 'is_error') === true || getOwn(content, 'ok') === false;
      answers.set(textAt(block, 'tool_use_id'), { content, isError });
    }
  }
  return answers;
}

const stepText = (step: string | number): string =>
  typeof step === 'number'
    ? `[${step}]`
    : /^[\p{L}\p{N}_-]+$/u.test(step)
      ? `.${step}`
      : `["${step}"]`;

/**
 * The value at this path as the model can name it: a reference, or the shown value. Undefined if it
 * is not there.
 */
function shownAt(content: Json, path: Path): Json | undefined {
  let here: Json = content;
  for (const [at, step] of path.entries()) {
    const reference = textAt(here, 'reference');
    if (reference !== '') return `${reference}${path.slice(at).map(stepText).join('')}`;
    const next = Array.isArray(here) ? here[Number(step)] : getOwn(here, String(step));
    if (next === undefined) return undefined;
    here = next;
  }
  const reference = textAt(here, 'reference');
  return reference === '' ? here : reference;
}

type Answers = ReadonlyMap<string, ToolAnswer>;

/** Undefined if an answer that the call needs is missing. */
function parametersOf(
  step: Extract<TaskStep, { kind: 'call' }>,
  answers: Answers,
): JsonObject | undefined {
  let isWhole = true;
  const reads = [...step.reads];
  const part = (id: string, path: Path): Json => {
    const answer = answers.get(id);
    const found = answer && !answer.isError ? shownAt(answer.content, path) : undefined;
    if (found === undefined) isWhole = false;
    return found ?? null;
  };
  const given = Object.entries(step.given).map(([name, argument]): [string, Json] => [
    name,
    build<Json>(argument, {
      literal: (value) => value,
      field: (call, path) => part(`u${call}`, path),
      reading: () => part(reads.shift() ?? '', ['result']),
      list: (items) => items,
      record: (fields) => Object.fromEntries(fields),
    }),
  ]);
  return isWhole ? Object.fromEntries(given) : undefined;
}

/** The next step for the user. Undefined if all steps are done or impossible. */
function nextStep(
  steps: readonly TaskStep[],
  answers: Answers,
  { idOf }: VariantPorts,
): ModelCall | undefined {
  for (const step of steps) {
    if (answers.has(step.id)) continue;
    if (step.kind === 'call') {
      const parameters = parametersOf(step, answers);
      if (parameters) return callTool(step.id, idOf(step.tool), parameters);
      continue;
    }
    const answer = answers.get(`u${step.call}`);
    const from = answer && !answer.isError ? shownAt(answer.content, step.path) : undefined;
    if (from === undefined) continue;
    return callTool(step.id, 'read/extract', { from, what: step.what, schema: step.schema });
  }
  return undefined;
}

/** The recorded calls with their literal arguments. */
const literalSteps = (play: Play): TaskStep[] =>
  play.task.calls.map(({ tool, args }, call) => {
    const given = Object.entries(args).map(([name, value]) => [name, { at: 'literal', value }]);
    return {
      kind: 'call',
      id: `u${call}`,
      call,
      tool,
      given: Object.fromEntries(given),
      reads: [],
    };
  });

/** The final answer for the user: the recorded text, and the last value that was read. */
function lastWords({ task }: Play, answers: Answers): string {
  const last = task.calls.findLastIndex((_, call) => answers.get(`u${call}`)?.isError === false);
  const content = answers.get(`u${last}`)?.content ?? null;
  const { duration_ms: _, chain: __, ...fieldValues } = isObject(content) ? content : { content };
  return `${task.answer} ${JSON.stringify(fieldValues)}`.trim();
}

const DONE_STEP = /^- step \d+, `([^`]+)`: done, its result is (@done\d+)$/gm;

/** A plan for the remaining steps, without steps that failed. */
function plan(play: Play, asked: string, ports: VariantPorts): string {
  const steps = stepsOf(play.task, play.given);
  const before = [...asked.matchAll(DONE_STEP)].map(([, tool = '', name = '']) => ({ tool, name }));
  const done = new Map<string, string>();
  const failed = new Set<string>();
  if (before.length > 0 || asked.includes(': failed with ')) {
    const left = before.filter(({ tool }) => tool !== 'read/pick');
    for (const step of steps) {
      const tool = step.kind === 'call' ? ports.idOf(step.tool) : 'read/extract';
      const [next] = left;
      if (next && next.tool === tool) {
        done.set(step.id, next.name);
        left.shift();
      } else if (left.length > 0 || failed.size === 0) failed.add(step.id);
      else break;
    }
  }
  return `\`\`\`\n${planText(steps, play.task, done, failed, ports)}\n\`\`\``;
}

const isPlanRequest = (text: string): boolean => text.startsWith('# Directive\n');

/** Answers a request of a run: from its thread, a child, a reader or the planner. */
export function answerRequest(
  play: Play,
  request: ScriptedRequest,
  ports: VariantPorts,
): ScriptedReply {
  const conversation = heardIn(request);
  if (listAt(request.body, 'tools').length === 0) {
    const [first] = listAt(request.body, 'messages');
    const text = textOf(getOwn(first, 'content'));
    return saying(isPlanRequest(text) ? plan(play, text, ports) : readAnswer(play, conversation));
  }
  const answers = answersIn(request);
  const isChild = conversation.includes(`run directive ${CHILD}`);
  if (play.injection && (isChild || conversation.includes(play.sign))) {
    const calls = injectedCalls(isChild ? 'plain' : play.variant, play.injection, ports, play.name);
    // All calls are in one reply. They run in order, even if an earlier one fails.
    const left = calls.filter(({ id }) => !answers.has(id));
    if (left.length > 0) return calling(left);
  }
  if (isChild) return saying('done');
  const steps = play.mode === 'show' ? literalSteps(play) : stepsOf(play.task, play.given);
  const next = nextStep(steps, answers, ports);
  return next ? calling([next]) : saying(lastWords(play, answers));
}
