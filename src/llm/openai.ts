// OpenAI's Chat Completions, as far as our parameters go into its body.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  type Outcome,
  ok,
  plainText,
  textAt,
} from '../base/index.ts';
import type {
  Block,
  Message,
  ProviderRequest,
  Stop,
  StreamState,
  ToolDefinition,
} from './message.ts';
import { errorFault } from './provider-fault.ts';
import { createDrafts, type Draft, type Drafts } from './reply-draft.ts';
import { type Reported, readOpenAiUsage } from './usage.ts';

const textOf = (content: readonly Block[]): string =>
  content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n\n');

/** The API has no mark for a failed call, so the text says it. */
const resultText = (content: Json, isError: boolean): string =>
  isError && typeof content === 'string' ? `error: ${content}` : plainText(content);

function writeAssistant(content: readonly Block[]): JsonObject[] {
  const text = textOf(content);
  const tool_calls = content.flatMap((block): JsonObject[] => {
    if (block.type !== 'tool_call') return [];
    const { id, name } = block;
    const called = { name, arguments: JSON.stringify(block.arguments) };
    return [{ id, type: 'function', function: called }];
  });
  if (text === '' && tool_calls.length === 0) return [];
  return [
    {
      role: 'assistant',
      content: text === '' ? null : text,
      ...(tool_calls.length > 0 && { tool_calls }),
    },
  ];
}

/** Every result is a message of its own, before what the user says. Thoughts are not sent back. */
export function writeOpenAiMessage({ role, content }: Message): readonly JsonObject[] {
  if (role === 'assistant') return writeAssistant(content);
  const results = content.flatMap((block): JsonObject[] => {
    if (block.type !== 'tool_result') return [];
    const text = resultText(block.content, block.is_error === true);
    return [{ role: 'tool', tool_call_id: block.id, content: text }];
  });
  const text = textOf(content);
  return text === '' ? results : [...results, { role: 'user', content: text }];
}

export function writeOpenAiTool({ name, description, input_schema }: ToolDefinition): JsonObject {
  const parameters: Json = isObject(input_schema) ? input_schema : { type: 'object' };
  return { type: 'function', function: { name, description, parameters } };
}

export const writeOpenAiSystem = ({ system }: { system: string }): JsonObject[] =>
  system === '' ? [] : [{ role: 'system', content: system }];

export function openAiParameters(
  request: ProviderRequest,
  messages: Json[],
  tools: readonly JsonObject[],
): JsonObject {
  const { model, max_tokens, stream, temperature } = request;
  const cap = request.max_tokens_parameter ?? 'max_completion_tokens';
  return {
    model,
    [cap]: max_tokens,
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
    messages,
    ...(tools.length > 0 && { tools: [...tools] }),
    ...(temperature !== undefined && { temperature }),
  };
}

// The event stream of OpenAI's Chat Completions, as many servers speak it. Calls come in parallel, by
// index, and nothing marks the end of one: a call is whole when its arguments are a JSON object that
// has ended, because nothing can follow it.

const STOPS: Readonly<Record<string, Stop>> = {
  stop: 'end',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
};

export const openAiStop = (reason: Json | undefined): Stop | undefined => {
  if (typeof reason !== 'string') return undefined;
  return Object.hasOwn(STOPS, reason) ? STOPS[reason] : 'end';
};

/** Text is a string; some servers send a list of parts. */
export function contentText(content: Json | undefined): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map((part) => textAt(part, 'text')).join('') : '';
}

/** Servers that show what a model thought use one of two names. */
export const reasoningText = (message: Json | undefined): string =>
  textAt(message, 'reasoning_content') || textAt(message, 'reasoning');

/** Text, thoughts and calls as they grow. */
function createPieces(drafts: Drafts, onText: (piece: string) => void) {
  const calls = new Map<number, Draft>();
  let [thinking, text, latest]: (Draft | undefined)[] = [];

  function appendTo(kind: 'text' | 'thinking', piece: string): Outcome<null> {
    if (piece === '') return ok(null);
    let draft = kind === 'text' ? text : thinking;
    if (!draft) {
      const begun = drafts.begin(kind);
      if (!begun.ok) return begun;
      draft = begun.output;
      if (kind === 'text') text = draft;
      else thinking = draft;
    }
    const added = drafts.append(draft, 'text', piece);
    if (added.ok && kind === 'text') onText(piece);
    return added;
  }

  /** A name with another id is another call, also where a server counts every index as 0. */
  const isNew = (draft: Draft, id: string, name: string): boolean =>
    name !== '' && id !== '' && draft.id !== '' && draft.id !== id;

  function callFor(delta: JsonObject): Outcome<Draft> {
    const place = getOwn(delta, 'index');
    const id = textAt(delta, 'id');
    const name = textAt(getOwn(delta, 'function'), 'name');
    const known = typeof place === 'number' ? calls.get(place) : latest;
    if (known && !isNew(known, id, name)) {
      if (known.name === '') known.name = name.slice(0, 512);
      if (known.id === '') known.id = id.slice(0, 512);
      latest = known;
      return ok(known);
    }
    const begun = drafts.begin('tool_call', { id, name });
    if (!begun.ok) return begun;
    latest = begun.output;
    calls.set(typeof place === 'number' ? place : calls.size, latest);
    // What was said before the calls is said.
    if (text) text.isClosed = true;
    if (thinking) thinking.isClosed = true;
    return begun;
  }

  function addCall(delta: Json): Outcome<null> {
    if (!isObject(delta)) return ok(null);
    const call = callFor(delta);
    if (!call.ok) return call;
    const given = getOwn(getOwn(delta, 'function'), 'arguments');
    // Some servers send the arguments as a value.
    if (isObject(given)) call.output.given = given;
    return typeof given === 'string' ? drafts.append(call.output, 'text', given) : ok(null);
  }

  return { appendTo, addCall };
}

export function createOpenAiStream(
  onText: (piece: string) => void,
  maxCharacters?: number,
): StreamState {
  const drafts = createDrafts(maxCharacters);
  const { appendTo, addCall } = createPieces(drafts, onText);
  let reported: Reported = {};
  let isReported = false;
  let isDone = false;
  let isRefused = false;
  let stop: Stop | undefined;
  let model = '';

  function addDelta(delta: Json | undefined): Outcome<null> {
    const refusal = textAt(delta, 'refusal');
    if (refusal !== '') isRefused = true;
    const thought = appendTo('thinking', reasoningText(delta));
    if (!thought.ok) return thought;
    const said = appendTo('text', contentText(getOwn(delta, 'content')) + refusal);
    if (!said.ok) return said;
    for (const call of listAt(delta, 'tool_calls')) {
      const added = addCall(call);
      if (!added.ok) return added;
    }
    return ok(null);
  }

  return {
    drafts,
    take(event, name) {
      const error = getOwn(event, 'error');
      if (error !== undefined && error !== null) return errorFault(error);
      if (name === 'error') return errorFault(event);
      model ||= textAt(event, 'model').slice(0, 200);
      const usage = getOwn(event, 'usage');
      if (isObject(usage)) {
        reported = readOpenAiUsage(usage);
        isReported = reported.output_tokens !== undefined;
      }
      const [choice] = listAt(event, 'choices');
      if (choice === undefined || (getOwn(choice, 'index') ?? 0) !== 0) return ok(null);
      const added = addDelta(getOwn(choice, 'delta'));
      stop = openAiStop(getOwn(choice, 'finish_reason')) ?? stop;
      return added;
    },
    isDone: () => isDone,
    isEndText(data) {
      if (data.trim() !== '[DONE]') return false;
      isDone = true;
      return true;
    },
    end() {
      for (const draft of drafts.list) if (draft.kind === 'tool_call') draft.isClosed = true;
      // Counts that came before the end of the answer are only so far.
      const isFinal = isReported && stop !== undefined;
      return { stop: isRefused ? 'refusal' : stop, model, reported, isFinal };
    },
  };
}
