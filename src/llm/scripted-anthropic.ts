// An answer in the words of the Anthropic Messages API.
import { type Json, type JsonObject, parseJson } from '../base/index.ts';
import type { Stop } from './message.ts';
import { type Answer, piecesOf } from './scripted-answer.ts';
import type { Counts } from './usage.ts';

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

function partsOf({ thinking, text, calls, piece }: Answer): Part[] {
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
export function anthropicFrames(answer: Answer): string[] {
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

export function anthropicBody({ id, model, thinking, text, calls, stop, usage }: Answer): Json {
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
