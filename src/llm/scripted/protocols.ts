// An answer in the words of the Anthropic Messages API.
import { type Json, type JsonObject, parseJson } from '../../base/index.ts';
import type { Stop } from '../message.ts';
import type { Counts } from '../usage.ts';
import { piecesOf, type ScriptedAnswer } from './answer.ts';

const ANTHROPIC_STOPS: Readonly<Record<Stop, string>> = {
  end: 'end_turn',
  tool_use: 'tool_use',
  max_tokens: 'max_tokens',
  refusal: 'refusal',
  stop_sequence: 'stop_sequence',
};
const SIGNATURE = 'c2NyaXB0ZWQ=';

const anthropicFrame = (value: JsonObject & { type: string }): string =>
  `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`;

const anthropicUsage = (usage: Counts, output_tokens: number): JsonObject => ({
  input_tokens: usage.input_tokens,
  cache_creation_input_tokens: usage.cache_write_tokens,
  cache_read_input_tokens: usage.cache_read_tokens,
  output_tokens,
});

interface Part {
  start: JsonObject;
  deltas: JsonObject[];
}

function partsOf({ thinking, text, calls, piece }: ScriptedAnswer): Part[] {
  const parts: Part[] = [];
  if (thinking !== '') {
    parts.push({
      start: { type: 'thinking', thinking: '', signature: '' },
      deltas: [
        ...piecesOf(thinking, piece).map((part) => ({ type: 'thinking_delta', thinking: part })),
        { type: 'signature_delta', signature: SIGNATURE },
      ],
    });
  }
  if (text !== '') {
    parts.push({
      start: { type: 'text', text: '' },
      deltas: piecesOf(text, piece).map((part) => ({ type: 'text_delta', text: part })),
    });
  }
  for (const { id, name, text: written } of calls) {
    const deltas = piecesOf(written, piece).map((partial_json) => ({
      type: 'input_json_delta',
      partial_json,
    }));
    parts.push({ start: { type: 'tool_use', id, name, input: {} }, deltas });
  }
  return parts;
}

/** The last frame is the end marker. */
export function anthropicFrames(answer: ScriptedAnswer): string[] {
  const { id, model, usage } = answer;
  const message: JsonObject = {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    ...(usage && { usage: anthropicUsage(usage, 1) }),
  };
  return [
    anthropicFrame({ type: 'message_start', message }),
    ...partsOf(answer).flatMap(({ start, deltas }, index) => [
      anthropicFrame({ type: 'content_block_start', index, content_block: start }),
      ...deltas.map((delta) => anthropicFrame({ type: 'content_block_delta', index, delta })),
      anthropicFrame({ type: 'content_block_stop', index }),
    ]),
    anthropicFrame({
      type: 'message_delta',
      delta: { stop_reason: ANTHROPIC_STOPS[answer.stop], stop_sequence: null },
      ...(usage && { usage: { output_tokens: usage.output_tokens } }),
    }),
    anthropicFrame({ type: 'message_stop' }),
  ];
}

export function anthropicBody({
  id,
  model,
  thinking,
  text,
  calls,
  stop,
  usage,
}: ScriptedAnswer): Json {
  const inputOf = (written: string): Json => {
    const value = parseJson(written);
    return value.ok ? value.output : {};
  };
  return {
    id,
    type: 'message',
    role: 'assistant',
    model,
    content: [
      ...(thinking === '' ? [] : [{ type: 'thinking', thinking, signature: SIGNATURE }]),
      ...(text === '' ? [] : [{ type: 'text', text }]),
      ...calls.map((call) => ({
        type: 'tool_use',
        id: call.id,
        name: call.name,
        input: inputOf(call.text),
      })),
    ],
    stop_reason: ANTHROPIC_STOPS[stop],
    stop_sequence: null,
    ...(usage && { usage: anthropicUsage(usage, usage.output_tokens) }),
  };
}

export const anthropicError = (type: string, message: string): JsonObject & { type: string } => ({
  type: 'error',
  error: { type, message },
});

export const anthropicErrorFrame = (type: string, message: string): string =>
  anthropicFrame(anthropicError(type, message));

// An answer in the words of OpenAI's Chat Completions.

const OPENAI_STOPS: Readonly<Record<Stop, string>> = {
  end: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  refusal: 'content_filter',
  stop_sequence: 'stop',
};

const openaiFrame = (value: Json): string => `data: ${JSON.stringify(value)}\n\n`;

function openaiUsage(usage: Counts): JsonObject {
  const { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = usage;
  const prompt_tokens = input_tokens + cache_read_tokens + cache_write_tokens;
  return {
    prompt_tokens,
    completion_tokens: output_tokens,
    total_tokens: prompt_tokens + output_tokens,
    prompt_tokens_details: {
      cached_tokens: cache_read_tokens,
      ...(cache_write_tokens > 0 && { cache_write_tokens }),
    },
  };
}

function deltasOf({ thinking, text, calls, piece }: ScriptedAnswer): JsonObject[] {
  return [
    { role: 'assistant', content: '' },
    ...piecesOf(thinking, piece).map((reasoning_content) => ({ reasoning_content })),
    ...piecesOf(text, piece).map((content) => ({ content })),
    ...calls.flatMap(({ id, name, text: written }, index) => [
      { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] },
      ...piecesOf(written, piece).map((part) => ({
        tool_calls: [{ index, function: { arguments: part } }],
      })),
    ]),
  ];
}

/** The last frame is the end marker. Usage is sent only to those who ask for it, as the API does. */
export function openAiFrames(answer: ScriptedAnswer, includeUsage: boolean): string[] {
  const { id, model, usage } = answer;
  const about = { id, object: 'chat.completion.chunk', created: 0, model };
  const chunk = (delta: Json, finish_reason: string | null): string =>
    openaiFrame({ ...about, choices: [{ index: 0, delta, finish_reason }] });
  return [
    ...deltasOf(answer).map((delta) => chunk(delta, null)),
    chunk({}, OPENAI_STOPS[answer.stop]),
    ...(usage && includeUsage
      ? [openaiFrame({ ...about, choices: [], usage: openaiUsage(usage) })]
      : []),
    'data: [DONE]\n\n',
  ];
}

export function openAiBody({
  id,
  model,
  thinking,
  text,
  calls,
  stop,
  usage,
}: ScriptedAnswer): Json {
  const tool_calls = calls.map((call) => ({
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.text },
  }));
  const message: JsonObject = {
    role: 'assistant',
    content: text === '' ? null : text,
    ...(thinking !== '' && { reasoning_content: thinking }),
    ...(tool_calls.length > 0 && { tool_calls }),
  };
  return {
    id,
    object: 'chat.completion',
    created: 0,
    model,
    choices: [{ index: 0, message, finish_reason: OPENAI_STOPS[stop] }],
    ...(usage && { usage: openaiUsage(usage) }),
  };
}

export const openAiError = (type: string, message: string): JsonObject => ({
  error: { message, type, code: type, param: null },
});

export const openAiErrorFrame = (type: string, message: string): string =>
  openaiFrame(openAiError(type, message));
