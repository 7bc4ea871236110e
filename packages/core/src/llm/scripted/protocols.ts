// Writes a scripted answer in the form of each protocol.
import { type Json, type JsonObject, parseJson, textAt } from '../../base/index.ts';
import type { Protocol, Stop } from '../message.ts';
import type { Counts } from '../usage.ts';
import { piecesOf, type ScriptedAnswer } from './answer.ts';

interface Wording {
  /** Returns the frames of a stream. The last one is the end marker. `hasUsage`: the request wants counts. */
  frames(answer: ScriptedAnswer, hasUsage: boolean): string[];
  body(answer: ScriptedAnswer): Json;
  error(type: string, message: string): JsonObject;
  frame(value: JsonObject): string;
}

const ANTHROPIC_STOPS: Readonly<Record<Stop, string>> = {
  end: 'end_turn',
  tool_use: 'tool_use',
  max_tokens: 'max_tokens',
  refusal: 'refusal',
  stop_sequence: 'stop_sequence',
};

const namedFrame = (value: JsonObject): string =>
  `event: ${textAt(value, 'type')}\ndata: ${JSON.stringify(value)}\n\n`;

const anthropicUsage = (usage: Counts, output_tokens: number): JsonObject => ({
  input_tokens: usage.input_tokens,
  cache_creation_input_tokens: usage.cache_write_tokens,
  cache_read_input_tokens: usage.cache_read_tokens,
  output_tokens,
});

const inputOf = (written: string): Json => {
  const value = parseJson(written);
  return value.ok ? value.output : {};
};

/** Returns for each block its whole form, its start in a stream, and its deltas. */
function blocksOf({ thinking, seal: signature, text, calls, piece }: ScriptedAnswer) {
  const blocks: { whole: JsonObject; start: JsonObject; deltas: JsonObject[] }[] = [];
  if (thinking !== '') {
    const deltas = piecesOf(thinking, piece).map((part): JsonObject => {
      return { type: 'thinking_delta', thinking: part };
    });
    blocks.push({
      whole: { type: 'thinking', thinking, signature },
      start: { type: 'thinking', thinking: '', signature: '' },
      deltas: [...deltas, { type: 'signature_delta', signature }],
    });
  }
  if (text !== '') {
    blocks.push({
      whole: { type: 'text', text },
      start: { type: 'text', text: '' },
      deltas: piecesOf(text, piece).map((part) => ({ type: 'text_delta', text: part })),
    });
  }
  for (const { id, name, text: written } of calls) {
    const call = { type: 'tool_use', id, name };
    const deltas = piecesOf(written, piece).map((partial_json) => {
      return { type: 'input_json_delta', partial_json };
    });
    blocks.push({
      whole: { ...call, input: inputOf(written) },
      start: { ...call, input: {} },
      deltas,
    });
  }
  return blocks;
}

const anthropicMessage = ({ id, model }: ScriptedAnswer): JsonObject => ({
  id,
  type: 'message',
  role: 'assistant',
  model,
});

const anthropic: Wording = {
  frames(answer) {
    const { usage, stop } = answer;
    const message: JsonObject = {
      ...anthropicMessage(answer),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      ...(usage && { usage: anthropicUsage(usage, 1) }),
    };
    const blocks = blocksOf(answer).flatMap(({ start, deltas }, index): JsonObject[] => [
      { type: 'content_block_start', index, content_block: start },
      ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]);
    const end: JsonObject = {
      type: 'message_delta',
      delta: { stop_reason: ANTHROPIC_STOPS[stop], stop_sequence: null },
      ...(usage && { usage: { output_tokens: usage.output_tokens } }),
    };
    const events = [{ type: 'message_start', message }, ...blocks, end, { type: 'message_stop' }];
    return events.map(namedFrame);
  },
  body(answer) {
    const { stop, usage } = answer;
    return {
      ...anthropicMessage(answer),
      content: blocksOf(answer).map(({ whole }) => whole),
      stop_reason: ANTHROPIC_STOPS[stop],
      stop_sequence: null,
      ...(usage && { usage: anthropicUsage(usage, usage.output_tokens) }),
    };
  },
  error: (type, message) => ({ type: 'error', error: { type, message } }),
  frame: namedFrame,
};

const OPENAI_STOPS: Readonly<Record<Stop, string>> = {
  end: 'stop',
  tool_use: 'tool_calls',
  max_tokens: 'length',
  refusal: 'content_filter',
  stop_sequence: 'stop',
};

const openaiFrame = (value: JsonObject): string => `data: ${JSON.stringify(value)}\n\n`;

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

const deltasOf = ({ thinking, text, calls, piece }: ScriptedAnswer): JsonObject[] => [
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

const openai: Wording = {
  // Usage is sent only if the request asks for it, as in the API.
  frames(answer, hasUsage) {
    const { id, model, usage, stop } = answer;
    const about = { id, object: 'chat.completion.chunk', created: 0, model };
    const chunk = (delta: Json, finish_reason: string | null): string =>
      openaiFrame({ ...about, choices: [{ index: 0, delta, finish_reason }] });
    const counts = usage && hasUsage ? [{ ...about, choices: [], usage: openaiUsage(usage) }] : [];
    return [
      ...deltasOf(answer).map((delta) => chunk(delta, null)),
      chunk({}, OPENAI_STOPS[stop]),
      ...counts.map(openaiFrame),
      'data: [DONE]\n\n',
    ];
  },
  body({ id, model, thinking, text, calls, stop, usage }) {
    const tool_calls = calls.map(({ id: call, name, text: written }) => {
      return { id: call, type: 'function', function: { name, arguments: written } };
    });
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
  },
  error: (type, message) => ({ error: { message, type, code: type, param: null } }),
  frame: openaiFrame,
};

function responsesUsage(usage: Counts): JsonObject {
  const { cache_read_tokens, cache_write_tokens, output_tokens } = usage;
  const input_tokens = usage.input_tokens + cache_read_tokens + cache_write_tokens;
  return {
    input_tokens,
    input_tokens_details: { cached_tokens: cache_read_tokens, cache_write_tokens },
    output_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input_tokens + output_tokens,
  };
}

/** Returns for each item its start and its whole form, and its deltas with their type. */
function itemsOf({ id, thinking, seal, text, calls, piece, stop }: ScriptedAnswer) {
  const items: {
    start: JsonObject;
    whole: JsonObject;
    deltas: JsonObject[];
    parts: JsonObject[];
  }[] = [];
  if (thinking !== '') {
    const item = { id: `rs_${id}`, type: 'reasoning', summary: [] };
    const summary = [{ type: 'summary_text', text: thinking }];
    items.push({
      start: item,
      whole: { ...item, summary, encrypted_content: seal },
      parts: [
        {
          type: 'response.reasoning_summary_part.added',
          summary_index: 0,
          part: { type: 'summary_text', text: '' },
        },
      ],
      deltas: piecesOf(thinking, piece).map((delta) => ({
        type: 'response.reasoning_summary_text.delta',
        summary_index: 0,
        delta,
      })),
    });
  }
  if (text !== '') {
    const item = { id: `msg_${id}`, type: 'message', role: 'assistant' };
    const isRefused = stop === 'refusal';
    const part: JsonObject = isRefused
      ? { type: 'refusal', refusal: text }
      : { type: 'output_text', text, annotations: [] };
    items.push({
      start: { ...item, status: 'in_progress', content: [] },
      whole: { ...item, status: 'completed', content: [part] },
      parts: [],
      deltas: piecesOf(text, piece).map((delta) => ({
        type: isRefused ? 'response.refusal.delta' : 'response.output_text.delta',
        content_index: 0,
        ...(!isRefused && { logprobs: [] }),
        delta,
      })),
    });
  }
  for (const [at, { id: call_id, name, text: written }] of calls.entries()) {
    const item = { id: `fc_${id}_${at}`, type: 'function_call', call_id, name };
    const isCut = stop === 'max_tokens' && at === calls.length - 1;
    items.push({
      start: { ...item, status: 'in_progress', arguments: '' },
      whole: { ...item, status: isCut ? 'incomplete' : 'completed', arguments: written },
      parts: [],
      deltas: piecesOf(written, piece).map((delta) => ({
        type: 'response.function_call_arguments.delta',
        delta,
      })),
    });
  }
  return items;
}

const INCOMPLETE: Readonly<Partial<Record<Stop, string>>> = {
  max_tokens: 'max_output_tokens',
  refusal: 'content_filter',
};

function responseOf(answer: ScriptedAnswer): JsonObject {
  const { id, model, stop, usage } = answer;
  const reason = INCOMPLETE[stop];
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: 0,
    model,
    status: reason ? 'incomplete' : 'completed',
    incomplete_details: reason ? { reason } : null,
    error: null,
    output: itemsOf(answer).map(({ whole }) => whole),
    usage: usage ? responsesUsage(usage) : null,
  };
}

const responses: Wording = {
  frames(answer) {
    const whole = responseOf(answer);
    const first = { ...whole, status: 'in_progress', output: [], usage: null };
    const events: JsonObject[] = [
      { type: 'response.created', response: { ...first, incomplete_details: null } },
      ...itemsOf(answer).flatMap(({ start, whole: item, parts, deltas }, output_index) => [
        { type: 'response.output_item.added', output_index, item: start },
        ...[...parts, ...deltas].map((part) => ({
          ...part,
          output_index,
          item_id: start.id ?? '',
        })),
        { type: 'response.output_item.done', output_index, item },
      ]),
      { type: `response.${textAt(whole, 'status')}`, response: whole },
    ];
    return events.map((event, sequence_number) => namedFrame({ ...event, sequence_number }));
  },
  body: responseOf,
  error: (type, message) => ({
    type: 'error',
    sequence_number: 0,
    error: { type, code: type, message, param: null },
  }),
  frame: namedFrame,
};

export const WORDINGS: Readonly<Record<Protocol, Wording>> = { anthropic, openai, responses };
