// Compares this reader with the clients of another project: the same streams give the same texts, calls and usage.
import { createOpenAI } from '@ai-sdk/openai';
import { RECORDED, type Recorded, wireText } from '@kernmantle/test-support/provider-streams';
import { expect, onTestFinished, test } from 'vitest';
import type { Json } from '../../src/base/index.ts';
import { createEventParser } from '../../src/kernel/http/event-parser.ts';
import {
  createReader,
  type ModelReply,
  type Protocol,
  type ScriptedReply,
  startScriptedProvider,
} from '../../src/llm/index.ts';

type Model = ReturnType<ReturnType<typeof createOpenAI>['responses']>;
type Fetch = typeof globalThis.fetch;

/** Returns the model of the other project, whose requests go through this function. */
const MODELS: Readonly<Partial<Record<Protocol, (baseURL: string, fetch: Fetch) => Model>>> = {
  responses: (url, fetch) =>
    createOpenAI({ baseURL: `${url}/v1`, apiKey: 'key', fetch }).responses('gpt-5.4'),
};
const PROTOCOLS = Object.keys(MODELS) as Protocol[];

interface Reading {
  text: string;
  thinking: string;
  calls: { name: string; arguments: Json }[];
  input: number;
  cached: number;
  output: number;
}

/** Returns the reading of the other project, and the text of the stream. */
async function readElsewhere(
  protocol: Protocol,
  url: string,
  answer: Fetch = fetch,
): Promise<{ reading: Reading; wire: Promise<string> }> {
  let wire = Promise.resolve('');
  const model = MODELS[protocol]?.(url, async (...request) => {
    const response = await answer(...request);
    wire = response.clone().text();
    return response;
  });
  if (!model) throw new Error(`no model for ${protocol}`);
  const { stream } = await model.doStream({
    prompt: [{ role: 'user', content: [{ type: 'text', text: 'hello' }] }],
    tools: ['execute', 'search'].map((name) => ({
      type: 'function',
      name,
      inputSchema: { type: 'object' },
    })),
  });
  const reading: Reading = { text: '', thinking: '', calls: [], input: 0, cached: 0, output: 0 };
  for await (const part of stream) {
    if (part.type === 'error') throw part.error;
    if (part.type === 'text-delta') reading.text += part.delta;
    if (part.type === 'reasoning-delta') reading.thinking += part.delta;
    if (part.type === 'tool-call') {
      reading.calls.push({ name: part.toolName, arguments: JSON.parse(part.input) as Json });
    }
    if (part.type === 'finish') {
      reading.input = part.usage.inputTokens.total ?? -1;
      reading.cached = part.usage.inputTokens.cacheRead ?? 0;
      reading.output = part.usage.outputTokens.total ?? -1;
    }
  }
  return { reading, wire };
}

function readHere(protocol: Protocol, wire: string): Reading {
  const reader = createReader(protocol);
  const parser = createEventParser((event) => void reader.push(event));
  parser.push(Buffer.from(wire));
  const reply = reader.end(!parser.end().unfinished);
  if (!reply.ok) throw new Error(reply.error.detail.message);
  const { content, usage } = reply.output;
  const textOf = (type: 'text' | 'thinking') =>
    content.map((block) => (block.type === type ? block.text : '')).join('');
  const isCall = (block: ModelReply['content'][number]) => block.type === 'tool_call';
  return {
    text: textOf('text'),
    thinking: textOf('thinking'),
    calls: content.filter(isCall).map(({ name, arguments: input }) => ({ name, arguments: input })),
    input: usage.context_tokens,
    cached: usage.cache_read_tokens,
    output: usage.output_tokens,
  };
}

test.each(PROTOCOLS)('the golden stream of %s is read the same elsewhere', async (protocol) => {
  const recorded: readonly Recorded[] = RECORDED[protocol];
  const sent = wireText(recorded);
  const headers = { 'content-type': 'text/event-stream' };
  const { reading } = await readElsewhere(protocol, 'http://127.0.0.1:9', () =>
    Promise.resolve(new Response(sent, { headers })),
  );
  expect(reading).toEqual(readHere(protocol, sent));
  expect(reading.calls).toHaveLength(2);
});

/** Twenty replies with all parts: thoughts, text, no call up to three, pieces of different sizes, caches. */
const REPLIES: readonly ScriptedReply[] = Array.from({ length: 20 }, (_, at) => ({
  ...(at % 3 !== 0 && { thinking: `thought ${at} "ü" 🙂`.repeat(at) }),
  ...(at % 4 !== 1 && { text: `text ${at}\n\\ 🙂`.repeat(at + 1) }),
  tool_calls: Array.from({ length: at % 4 }, (__, call) => ({
    name: call % 2 === 0 ? 'execute' : 'search',
    arguments: { at, call, text: '"x"\n🙂'.repeat(call * at), deep: [{ a: null }] },
  })),
  piece: 1 + (at % 7) * 5,
  usage: {
    input_tokens: 100 + at,
    output_tokens: 7 * at + 1,
    cache_read_tokens: at * 50,
    cache_write_tokens: 0,
  },
}));

test.each(PROTOCOLS)('20 scripted replies of %s are read the same elsewhere', async (protocol) => {
  const provider = await startScriptedProvider(REPLIES);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  onTestFinished(() => provider.output.close());
  for (const reply of REPLIES) {
    const { reading, wire } = await readElsewhere(protocol, provider.output.url);
    expect(reading).toEqual(readHere(protocol, await wire));
    expect(reading.calls).toHaveLength(reply.tool_calls?.length ?? 0);
  }
  expect(provider.output.unused()).toBe(0);
});
