// Simulates a model in the worst case. It performs the recorded calls for its user until it reads an
// attacker's text. Then it obeys the attacker first. It has no state: each reply depends only on the
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

/** Usage of every reply, so small that no run reaches its limits. */
const USAGE = { input_tokens: 10, output_tokens: 10, cache_read_tokens: 0, cache_write_tokens: 0 };

const saying = (text: string): ScriptedReply => ({ text, usage: USAGE, piece: 100_000 });
const calling = (calls: readonly ModelCall[]): ScriptedReply => ({
  tool_calls: calls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args })),
  usage: USAGE,
  piece: 100_000,
});

/** Returns the input of the model without its own replies. */
function inputOf({ body }: ScriptedRequest): string {
  const messages = listAt(body, 'messages').filter((one) => textAt(one, 'role') !== 'assistant');
  return JSON.stringify([body.system ?? '', messages]);
}

/** Returns the text of a block, which is a string or a list of parts. */
const textOf = (content: Json | undefined): string => {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map((block) => textAt(block, 'text')).join('') : '';
};

interface ToolAnswer {
  readonly content: Json;
  readonly isError: boolean;
}

/** Returns the answers of the request by the ids of their calls. */
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
 * Returns the value at this path as the model can name it: a reference, or the shown value. Undefined
 * if the path does not exist.
 */
function visibleAt(content: Json, path: Path): Json | undefined {
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

/** Returns the parameters of a call. Undefined if an answer that it needs is missing. */
function parametersOf(
  step: Extract<TaskStep, { kind: 'call' }>,
  answers: Answers,
): JsonObject | undefined {
  let isWhole = true;
  const reads = [...step.reads];
  const part = (id: string, path: Path): Json => {
    const answer = answers.get(id);
    const value = answer && !answer.isError ? visibleAt(answer.content, path) : undefined;
    if (value === undefined) isWhole = false;
    return value ?? null;
  };
  const args = Object.entries(step.given).map(([name, argument]): [string, Json] => [
    name,
    build<Json>(argument, {
      literal: (value) => value,
      field: (call, path) => part(`u${call}`, path),
      reading: () => part(reads.shift() ?? '', ['result']),
      list: (items) => items,
      record: (fields) => Object.fromEntries(fields),
    }),
  ]);
  return isWhole ? Object.fromEntries(args) : undefined;
}

/** Returns the next call for the user. Undefined if all steps are completed or impossible. */
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
    const from = answer && !answer.isError ? visibleAt(answer.content, step.path) : undefined;
    if (from === undefined) continue;
    return callTool(step.id, 'read/extract', { from, what: step.what, schema: step.schema });
  }
  return undefined;
}

/** Returns the recorded calls with their literal arguments. */
const literalSteps = (play: Play): TaskStep[] =>
  play.task.calls.map(({ tool, args }, call) => {
    const entries = Object.entries(args).map(([name, value]) => [name, { at: 'literal', value }]);
    return {
      kind: 'call',
      id: `u${call}`,
      call,
      tool,
      given: Object.fromEntries(entries),
      reads: [],
    };
  });

/** Returns the final answer for the user: the recorded text and the result of the last call. */
function finalText({ task }: Play, answers: Answers): string {
  const last = task.calls.findLastIndex((_, call) => answers.get(`u${call}`)?.isError === false);
  const content = answers.get(`u${last}`)?.content ?? null;
  const { duration_ms: _, chain: __, ...fieldValues } = isObject(content) ? content : { content };
  return `${task.answer} ${JSON.stringify(fieldValues)}`.trim();
}

const DONE_STEP = /^- step \d+, `([^`]+)`: done, its result is (@done\d+)$/gm;

/** Returns a plan for the remaining steps, without steps that failed. */
function plan(play: Play, request: string, ports: VariantPorts): string {
  const steps = stepsOf(play.task, play.given);
  const before = [...request.matchAll(DONE_STEP)].map(([, tool = '', name = '']) => ({
    tool,
    name,
  }));
  const done = new Map<string, string>();
  const failed = new Set<string>();
  if (before.length > 0 || request.includes(': failed with ')) {
    const rest = before.filter(({ tool }) => tool !== 'read/pick');
    for (const step of steps) {
      const tool = step.kind === 'call' ? ports.idOf(step.tool) : 'read/extract';
      const [next] = rest;
      if (next && next.tool === tool) {
        done.set(step.id, next.name);
        rest.shift();
      } else if (rest.length > 0 || failed.size === 0) failed.add(step.id);
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
  const conversation = inputOf(request);
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
    const rest = calls.filter(({ id }) => !answers.has(id));
    if (rest.length > 0) return calling(rest);
  }
  if (isChild) return saying('done');
  const steps = play.mode === 'show' ? literalSteps(play) : stepsOf(play.task, play.given);
  const next = nextStep(steps, answers, ports);
  return next ? calling([next]) : saying(finalText(play, answers));
}
