import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  packagePath,
  parseYaml,
} from '../base/index.ts';
import { fillConfig } from '../expr/index.ts';
import type { Message, ProviderRequest } from './message.ts';
import { createRequestWriter, createWrittenMessages, requestParameters } from './request.ts';

const messages: Message[] = [
  { role: 'user', content: [{ type: 'text', text: 'run directive hello' }] },
  {
    role: 'assistant',
    content: [
      { type: 'thinking', text: 'hm', seal: { by: 'p/m', data: 's1g' } },
      { type: 'thinking', text: 'unsigned' },
      { type: 'thinking', text: '', redacted: true, seal: { by: 'p/m', data: 'opaque' } },
      { type: 'thinking', text: 'of another model', seal: { by: 'p/other', data: 'x' } },
      { type: 'text', text: 'reading' },
      { type: 'tool_call', id: 'c1', name: 'execute', arguments: { a: [1] } },
      { type: 'tool_call', id: 'c2', name: 'search', arguments: {} },
    ],
  },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'by the way' },
      { type: 'tool_result', id: 'c1', content: { ok: true, n: 1 } },
      { type: 'tool_result', id: 'c2', content: 'not found', is_error: true },
    ],
  },
];
const tool = { name: 'execute', description: 'runs an item', input_schema: { type: 'object' } };
const request: ProviderRequest = {
  model: 'm',
  system: 'be brief',
  messages,
  tools: [tool],
  max_tokens: 500,
  stream: true,
  sealedBy: 'p/m',
};
const MARK = { cache_control: { type: 'ephemeral' } };

test('an Anthropic request holds thoughts, calls and results, with what repeats marked', () => {
  expect(requestParameters('anthropic', request)).toEqual({
    model: 'm',
    max_tokens: 500,
    stream: true,
    system_prompt: [{ type: 'text', text: 'be brief', ...MARK }],
    tools: [{ ...tool, ...MARK }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'run directive hello', ...MARK }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 's1g' },
          { type: 'redacted_thinking', data: 'opaque' },
          { type: 'text', text: 'reading' },
          { type: 'tool_use', id: 'c1', name: 'execute', input: { a: [1] } },
          { type: 'tool_use', id: 'c2', name: 'search', input: {} },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c1', content: '{"ok":true,"n":1}' },
          { type: 'tool_result', tool_use_id: 'c2', content: 'not found', is_error: true },
          { type: 'text', text: 'by the way', ...MARK },
        ],
      },
    ],
  });
});

test('marks are left out on request, and are never more than four', () => {
  expect(
    JSON.stringify(requestParameters('anthropic', { ...request, cache: false })),
  ).not.toContain('cache_control');
  const long = { ...request, messages: [...messages, ...messages, ...messages] };
  const text = JSON.stringify(requestParameters('anthropic', long));
  expect(text.split('cache_control')).toHaveLength(5);
});

test('an OpenAI request puts results before what the user says and arguments into text', () => {
  expect(requestParameters('openai', { ...request, temperature: 0 })).toEqual({
    model: 'm',
    max_completion_tokens: 500,
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0,
    messages: [
      { role: 'system', content: 'be brief' },
      { role: 'user', content: 'run directive hello' },
      {
        role: 'assistant',
        content: 'reading',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'execute', arguments: '{"a":[1]}' } },
          { id: 'c2', type: 'function', function: { name: 'search', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: '{"ok":true,"n":1}' },
      { role: 'tool', tool_call_id: 'c2', content: 'error: not found' },
      { role: 'user', content: 'by the way' },
    ],
    tools: [
      {
        type: 'function',
        function: { name: 'execute', description: 'runs an item', parameters: { type: 'object' } },
      },
    ],
  });
});

test('a Responses request has items, and no state of the provider', () => {
  const cache_key = '0'.repeat(32);
  expect(requestParameters('responses', { ...request, cache_key })).toEqual({
    model: 'm',
    max_output_tokens: 500,
    stream: true,
    instructions: 'be brief',
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: cache_key,
    messages: [
      {
        type: 'message',
        role: 'user',
        content: [{ type: 'input_text', text: 'run directive hello' }],
      },
      {
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: 'hm' }],
        encrypted_content: 's1g',
      },
      { type: 'reasoning', summary: [], encrypted_content: 'opaque' },
      {
        type: 'message',
        role: 'assistant',
        content: [{ type: 'output_text', text: 'reading' }],
      },
      { type: 'function_call', call_id: 'c1', name: 'execute', arguments: '{"a":[1]}' },
      { type: 'function_call', call_id: 'c2', name: 'search', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c1', output: '{"ok":true,"n":1}' },
      { type: 'function_call_output', call_id: 'c2', output: 'error: not found' },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'by the way' }] },
    ],
    tools: [
      {
        type: 'function',
        name: 'execute',
        description: 'runs an item',
        parameters: { type: 'object' },
        strict: false,
      },
    ],
    parallel_tool_calls: true,
  });
  const body = formWith(BODIES.responses)(requestParameters('responses', request));
  expect(body.ok && JSON.parse(body.output)).toMatchObject({
    store: false,
    truncation: 'disabled',
    service_tier: 'default',
    input: { length: 9 },
  });
});

test('a thought without an item of its reply after it is not sent, nor is the seal of another model', () => {
  const thought = { type: 'thinking', text: 'hm', seal: { by: 'p/m', data: 's' } } as const;
  const items = (content: Message['content'], sealedBy = 'p/m') =>
    requestParameters('responses', {
      ...request,
      messages: [{ role: 'assistant', content }],
      sealedBy,
    }).messages;
  const text = { type: 'text', text: 'a' } as const;
  expect(items([thought, text])).toMatchObject([{ type: 'reasoning' }, { type: 'message' }]);
  expect(items([text, thought])).toMatchObject([{ type: 'message' }]);
  expect(items([thought, { type: 'text', text: '' }])).toEqual([]);
  expect(items([thought, text], 'p/other')).toMatchObject([{ type: 'message' }]);
});

test('`reasoning` is an effort, or off for a server that knows none', () => {
  const sent = (reasoning: string) => requestParameters('responses', { ...request, reasoning });
  expect(sent('low')).toMatchObject({ reasoning: { effort: 'low' }, include: { length: 1 } });
  expect(sent('off')).not.toHaveProperty('reasoning');
  expect(sent('off')).not.toHaveProperty('include');
});

test('servers that know only the older name get it', () => {
  const parameters = requestParameters('openai', {
    ...request,
    stream: false,
    max_tokens_parameter: 'max_tokens',
  });
  expect(parameters).toMatchObject({ max_tokens: 500, stream: false });
  expect(parameters).not.toHaveProperty('stream_options');
  expect(parameters).not.toHaveProperty('max_completion_tokens');
});

test('what a provider would refuse as empty is left out', () => {
  const empty: Message[] = [
    { role: 'user', content: [{ type: 'text', text: 'hi' }] },
    { role: 'assistant', content: [{ type: 'text', text: ' ' }] },
    { role: 'assistant', content: [] },
  ];
  const bare = { ...request, messages: empty, system: '', tools: [] };
  const anthropic = requestParameters('anthropic', bare);
  expect(anthropic.messages).toHaveLength(1);
  expect(anthropic).not.toHaveProperty('tools');
  expect(anthropic).not.toHaveProperty('system_prompt');
  expect(requestParameters('openai', { ...bare, messages: empty.slice(2) }).messages).toEqual([]);
});

const block = fc.oneof(
  fc.record({ type: fc.constant('text' as const), text: fc.constantFrom('', ' ', 'hello', 'ü') }),
  fc.record({
    type: fc.constant('tool_result' as const),
    id: fc.constantFrom('a', 'b'),
    content: fc.constantFrom('x', 'y'),
  }),
);
const said: fc.Arbitrary<Message> = fc.record({
  role: fc.constantFrom('user', 'assistant'),
  content: fc.array(block, { minLength: 1, maxLength: 2 }),
});

/** The text that a tool's config makes of parameters. */
const formWith =
  (body: Json) =>
  (parameters: JsonObject): Outcome<string> => {
    const none = new Set<string>();
    const filled = fillConfig(body, { env: {}, declared: none, parameters, required: none });
    return filled.ok ? ok(JSON.stringify(filled.output.value)) : filled;
  };

function shippedBody(tool: string): Json {
  const text = readFileSync(packagePath(`bundle/tools/llm/${tool}.yaml`), 'utf8');
  const { config } = parseYaml(text).value as { config: { body: Json } };
  return config.body;
}

const BODIES = {
  anthropic: shippedBody('anthropic_messages'),
  openai: shippedBody('openai_chat'),
  responses: shippedBody('openai_responses'),
} as const;
const SLOT = '[{"role":"user","content":"all-messages-of-this-request"}]';
const spoken: fc.Arbitrary<Message> = fc.oneof(
  said,
  fc.constantFrom(...messages),
  fc.constant<Message>({ role: 'user', content: [{ type: 'text', text: SLOT }] }),
);

/** Writers of different protocols, for a thread that goes on in another. */
function writersOf(fixed: Omit<ProviderRequest, 'messages' | 'max_tokens'>, wrap = (b: Json) => b) {
  const forms = {
    anthropic: formWith(wrap(BODIES.anthropic)),
    openai: formWith(wrap(BODIES.openai)),
    responses: formWith(wrap(BODIES.responses)),
  };
  const writers = {
    anthropic: createRequestWriter('anthropic', fixed, forms.anthropic),
    openai: createRequestWriter('openai', fixed, forms.openai),
    responses: createRequestWriter('responses', fixed, forms.responses),
  };
  return { forms, writers };
}

test('a writer gives the text that the parameters of a request would have given', () => {
  const turn = fc.record({
    keep: fc.nat(12),
    more: fc.array(spoken, { maxLength: 4 }),
    maxTokens: fc.constantFrom(100, 200),
    protocol: fc.constantFrom('anthropic' as const, 'openai' as const, 'responses' as const),
    cache: fc.boolean(),
  });
  const kinds = fc.record({
    system: fc.constantFrom('', 'be brief', SLOT),
    tools: fc.constantFrom(
      [],
      [tool],
      [tool, { ...tool, input_schema: { examples: JSON.parse(SLOT) } }],
    ),
    wrap: fc.constantFrom(
      (body: Json) => body,
      (body: Json): Json => ({ body, again: '{messages}' }),
      (body: Json): Json => ({ body, quoted: 'all: {messages}' }),
    ),
  });
  fc.assert(
    fc.property(fc.array(turn, { maxLength: 8 }), kinds, (turns, { wrap, ...own }) => {
      const base = { model: 'm', stream: true, temperature: 0, ...own };
      const marked = writersOf({ ...base, cache: true }, wrap);
      const plain = writersOf({ ...base, cache: false }, wrap);
      const written = createWrittenMessages();
      let talk: Message[] = [];
      for (const { keep, more, maxTokens, protocol, cache } of turns) {
        talk = [...talk.slice(0, keep), ...more];
        const { forms, writers } = cache ? marked : plain;
        const asked = { ...base, cache, messages: talk, max_tokens: maxTokens };
        const text = writers[protocol].body({ messages: talk, maxTokens, written });
        expect(text).toEqual(forms[protocol](requestParameters(protocol, asked)));
      }
    }),
  );
});

test.each(['anthropic', 'openai', 'responses'] as const)(
  '%s messages are written once',
  (protocol) => {
    let reads = 0;
    const watched = messages.map(
      ({ role, content }): Message => ({
        role,
        get content() {
          reads++;
          return content;
        },
      }),
    );
    const written = createWrittenMessages();
    const writer = writersOf(request).writers[protocol];
    const first = writer.body({ messages: watched, maxTokens: 100, written });
    expect(reads).toBe(watched.length);
    expect(writer.body({ messages: watched, maxTokens: 100, written })).toEqual(first);
    const more: Message[] = [...watched, ...messages];
    expect(writer.body({ messages: more, maxTokens: 100, written })).not.toEqual(first);
    expect(reads).toBe(watched.length);
  },
);

test('a writer asks the tool what a body looks like once', () => {
  let asked = 0;
  const form = formWith(BODIES.openai);
  const writer = createRequestWriter('openai', request, (parameters) => {
    asked++;
    return form(parameters);
  });
  const written = createWrittenMessages();
  for (let at = 1; at <= messages.length; at++) {
    writer.body({ messages: messages.slice(0, at), maxTokens: 100, written });
  }
  expect(asked).toBe(1);
  writer.body({ messages, maxTokens: 50, written });
  expect(asked).toBe(2);
});

test('a writer says what the tool says of parameters that it refuses', () => {
  const refusal = fail('invalid_input', 'no');
  const written = createWrittenMessages();
  const writer = createRequestWriter('anthropic', request, () => refusal);
  expect(writer.body({ messages, maxTokens: 100, written })).toEqual(refusal);
  const deep = JSON.parse(`${'['.repeat(60)}${']'.repeat(60)}`) as Json;
  const call = { type: 'tool_call' as const, id: 'c', name: 'x', arguments: { deep } };
  const talk: Message[] = [{ role: 'assistant', content: [call] }];
  const strict = createRequestWriter('anthropic', request, (parameters) =>
    JSON.stringify(parameters).includes('[[[') ? refusal : formWith(BODIES.anthropic)(parameters),
  );
  expect(strict.body({ messages: talk, maxTokens: 100, written })).toEqual(refusal);
});
