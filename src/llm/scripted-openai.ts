// An answer in the words of OpenAI's Chat Completions.
import type { Json, JsonObject } from '../base/index.ts';
import type { Stop } from './message.ts';
import { type Answer, piecesOf } from './scripted-answer.ts';
import type { Counts } from './usage.ts';

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

function deltasOf({ thinking, text, calls, piece }: Answer): JsonObject[] {
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
export function openAiFrames(answer: Answer, includeUsage: boolean): string[] {
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

export function openAiBody({ id, model, thinking, text, calls, stop, usage }: Answer): Json {
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
