// Creates streams as the APIs send them: thoughts, text, two parallel calls and cached tokens.
import type { Json } from '@kernmantle/core/base';

export interface Recorded {
  event?: string;
  data: string;
}

const event = (value: Json & { type?: string }): Recorded => ({
  ...(value.type !== undefined && { event: value.type }),
  data: JSON.stringify(value),
});
const pieces = (text: string, size: number): string[] => {
  const characters = Array.from(text);
  return Array.from({ length: Math.ceil(characters.length / size) }, (_, index) =>
    characters.slice(index * size, (index + 1) * size).join(''),
  );
};

export const CALLS = [
  {
    id: 'toolu_01A',
    name: 'execute',
    arguments: { item_type: 'tool', item_id: 'fs/read_file', parameters: { path: 'a "ü" 🙂.md' } },
  },
  {
    id: 'toolu_01B',
    name: 'search',
    arguments: { query: 'x\\y\n', limit: 3, deep: [{ a: null }] },
  },
];
export const TEXT = 'I’ll read both files 🙂 first.';
export const THOUGHT = 'two files, one of them large';

const block = (index: number, start: Json, deltas: Json[]): Recorded[] => [
  event({ type: 'content_block_start', index, content_block: start }),
  ...deltas.map((delta) => event({ type: 'content_block_delta', index, delta })),
  event({ type: 'content_block_stop', index }),
];

export const ANTHROPIC: readonly Recorded[] = [
  event({
    type: 'message_start',
    message: {
      id: 'msg_01X',
      type: 'message',
      role: 'assistant',
      model: 'claude-sonnet-5-5-20261001',
      content: [],
      stop_reason: null,
      usage: {
        input_tokens: 12,
        cache_creation_input_tokens: 200,
        cache_read_input_tokens: 3000,
        output_tokens: 2,
      },
    },
  }),
  ...block(0, { type: 'thinking', thinking: '', signature: '' }, [
    ...pieces(THOUGHT, 9).map((thinking) => ({ type: 'thinking_delta', thinking })),
    { type: 'signature_delta', signature: 'c2lnbmVk' },
  ]),
  event({ type: 'ping' }),
  ...block(
    1,
    { type: 'text', text: '' },
    pieces(TEXT, 5).map((text) => ({ type: 'text_delta', text })),
  ),
  ...CALLS.flatMap(({ id, name, arguments: input }, index) =>
    block(index + 2, { type: 'tool_use', id, name, input: {} }, [
      { type: 'input_json_delta', partial_json: '' },
      ...pieces(JSON.stringify(input), 7).map((partial_json) => ({
        type: 'input_json_delta',
        partial_json,
      })),
    ]),
  ),
  event({
    type: 'message_delta',
    delta: { stop_reason: 'tool_use', stop_sequence: null },
    usage: { output_tokens: 89 },
  }),
  event({ type: 'message_stop' }),
];

const chunk = (delta: Json, finish_reason: string | null = null): Recorded =>
  event({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'gpt-5.4-mini-2026-03-05',
    choices: [{ index: 0, delta, finish_reason }],
    usage: null,
  });

/** Returns the pieces of all calls in turns, as parallel calls can arrive. */
function interleaved(): Json[] {
  const lists = CALLS.map((call, index) =>
    pieces(JSON.stringify(call.arguments), 7).map((text) => ({
      index,
      function: { arguments: text },
    })),
  );
  const length = Math.max(...lists.map((list) => list.length));
  return Array.from({ length }, (_, at) => lists.flatMap((list) => list[at] ?? [])).flat();
}

export const OPENAI: readonly Recorded[] = [
  chunk({ role: 'assistant', content: '', refusal: null }),
  ...pieces(THOUGHT, 9).map((reasoning_content) => chunk({ reasoning_content })),
  ...pieces(TEXT, 5).map((content) => chunk({ content })),
  ...CALLS.map(({ id, name }, index) =>
    chunk({ tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }),
  ),
  ...interleaved().map((call) => chunk({ tool_calls: [call] })),
  chunk({}, 'tool_calls'),
  event({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'gpt-5.4-mini-2026-03-05',
    choices: [],
    usage: {
      prompt_tokens: 3212,
      completion_tokens: 89,
      total_tokens: 3301,
      prompt_tokens_details: { cached_tokens: 3000, cache_write_tokens: 200 },
      completion_tokens_details: { reasoning_tokens: 40 },
    },
  }),
  { data: '[DONE]' },
];

const RESPONSE = {
  id: 'resp_01',
  object: 'response',
  created_at: 1,
  model: 'gpt-5.4-mini-2026-03-05',
  status: 'in_progress',
  error: null,
  incomplete_details: null,
  output: [],
  usage: null,
};
const item = (output_index: number, start: Json, deltas: Json[], whole: Json): Recorded[] => [
  event({ type: 'response.output_item.added', output_index, item: start }),
  ...deltas.map((delta) => event({ output_index, ...(delta as object) })),
  event({ type: 'response.output_item.done', output_index, item: whole }),
];
const numbered = (sent: Recorded, sequence_number: number): Recorded => ({
  ...sent,
  data: JSON.stringify({ ...(JSON.parse(sent.data) as object), sequence_number }),
});

export const RESPONSES: readonly Recorded[] = [
  event({ type: 'response.created', response: RESPONSE }),
  event({ type: 'response.in_progress', response: RESPONSE }),
  ...item(
    0,
    { id: 'rs_1', type: 'reasoning', summary: [] },
    [
      {
        type: 'response.reasoning_summary_part.added',
        item_id: 'rs_1',
        summary_index: 0,
        part: { type: 'summary_text', text: '' },
      },
      ...pieces(THOUGHT, 9).map((delta) => ({
        type: 'response.reasoning_summary_text.delta',
        item_id: 'rs_1',
        summary_index: 0,
        delta,
      })),
    ],
    {
      id: 'rs_1',
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: THOUGHT }],
      encrypted_content: 'c2lnbmVk',
    },
  ),
  ...item(
    1,
    { id: 'msg_1', type: 'message', status: 'in_progress', role: 'assistant', content: [] },
    [
      {
        type: 'response.content_part.added',
        item_id: 'msg_1',
        content_index: 0,
        part: { type: 'output_text', text: '', annotations: [] },
      },
      ...pieces(TEXT, 5).map((delta) => ({
        type: 'response.output_text.delta',
        item_id: 'msg_1',
        content_index: 0,
        logprobs: [],
        delta,
      })),
      {
        type: 'response.output_text.done',
        item_id: 'msg_1',
        content_index: 0,
        logprobs: [],
        text: TEXT,
      },
    ],
    {
      id: 'msg_1',
      type: 'message',
      status: 'completed',
      role: 'assistant',
      content: [{ type: 'output_text', text: TEXT, annotations: [] }],
    },
  ),
  ...CALLS.flatMap(({ id, name, arguments: input }, at) => {
    const call = { id: `fc_${at}`, type: 'function_call', call_id: id, name };
    const text = JSON.stringify(input);
    return item(
      at + 2,
      { ...call, status: 'in_progress', arguments: '' },
      [
        ...pieces(text, 7).map((delta) => ({
          type: 'response.function_call_arguments.delta',
          item_id: call.id,
          delta,
        })),
        { type: 'response.function_call_arguments.done', item_id: call.id, arguments: text },
      ],
      { ...call, status: 'completed', arguments: text },
    );
  }),
  event({
    type: 'response.completed',
    response: {
      ...RESPONSE,
      status: 'completed',
      usage: {
        input_tokens: 3212,
        input_tokens_details: { cached_tokens: 3000, cache_write_tokens: 200 },
        output_tokens: 89,
        output_tokens_details: { reasoning_tokens: 40 },
        total_tokens: 3301,
      },
    },
  }),
].map(numbered);

export const RECORDED = { anthropic: ANTHROPIC, openai: OPENAI, responses: RESPONSES } as const;

export const wireText = (events: readonly Recorded[]): string =>
  events
    .map((sent) => `${sent.event ? `event: ${sent.event}\n` : ''}data: ${sent.data}\n\n`)
    .join('');
