// Tests native mode: exposed items are real tools, resources and prompts for clients of both
// revisions. The tools run in sandboxed processes.
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Runtime } from '@kernmantle/core/runtime';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { directiveText, READ, stage } from '@kernmantle/test-support/thread-project';
import type { Client } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { connectPeer, ERAS, type PeerOptions } from './support/peer.ts';

let fixture: Fixture;
let runtime: Runtime;

const tool = (id: string, more: string, code: string): Record<string, string> => ({
  [`.ai/tools/${id}.yaml`]: `tool_id: ${id.split('/').at(-1)}
version: "1.0.0"
description: About ${id}
executor_id: runtime/node
config: { module: ./${id.split('/').at(-1)}.mjs, function: run }
${more}`,
  [`.ai/tools/${id.replace(/[^/]+$/, (name) => `${name}.mjs`)}`]: code,
});
const returns = (value: unknown): string =>
  `export const run = () => (${JSON.stringify(value)});\n`;

const ASKS = `parameters:
  - { name: greeting, type: string }
  - { name: input_responses, type: object }
  - { name: input_state, type: object }
`;
const NAME_FORM = {
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message: 'What is your name?',
    requestedSchema: {
      type: 'object',
      properties: { name: { type: 'string' } },
      required: ['name'],
    },
  },
};
const ASK_CODE = `export const run = ({ greeting = 'Hello', input_responses, input_state }) => {
  const given = input_responses?.who;
  if (!given) return { input_required: { requests: { who: ${JSON.stringify(NAME_FORM)} }, state: { greeting } } };
  const name = given.action === 'accept' ? given.content.name : given.action;
  return { content: [{ type: 'text', text: input_state.greeting + ', ' + name + '!' }] };
};
`;

beforeAll(async () => {
  fixture = makeFixture({
    ...tool(
      'say/plain',
      'effect: read\nexpose: { mcp: tool }\n',
      returns({ content: [{ type: 'text', text: 'hi' }] }),
    ),
    ...tool(
      'say/mixed',
      'effect: read\nexpose: { mcp: tool, name: mixed-content }\n',
      returns({
        content: [
          { type: 'image', data: 'aGk=', mimeType: 'image/png' },
          { type: 'resource', resource: { uri: 'a://b', text: 'x' } },
          { type: 'resource_link', uri: 'a://c', name: 'c' },
          { type: 'nonsense', n: 1 },
        ],
      }),
    ),
    ...tool(
      'sum',
      `effect: read
expose: { mcp: tool }
input_schema:
  $schema: https://json-schema.org/draft/2020-12/schema
  type: object
  $defs: { n: { $anchor: n, type: number } }
  properties: { a: { $ref: "#/$defs/n" }, b: { $ref: "#/$defs/n" } }
  required: [a]
  allOf: [{ anyOf: [{ required: [a] }, { required: [b] }] }]
  if: { required: [b] }
  then: {}
  else: {}
  additionalProperties: false
output_schema: { type: object, properties: { sum: { type: number } }, required: [sum] }
`,
      'export const run = ({ a, b = 1 }) => ({ sum: a + b });\n',
    ),
    ...tool(
      'fails',
      'expose: { mcp: tool }\n',
      'export const run = () => { throw new Error("this went wrong"); };\n',
    ),
    ...tool(
      'says_error',
      'expose: { mcp: tool }\n',
      returns({ isError: true, content: [{ type: 'text', text: 'no' }] }),
    ),
    ...tool('asks', `${ASKS}expose: { mcp: tool }\n`, ASK_CODE),
    ...tool(
      'prints',
      'effect: read\nexpose: { mcp: tool }\n',
      `export const run = async () => {
  console.log('started');
  console.log(JSON.stringify({ progress: 50, total: 100, message: 'half' }));
  process.stdout.write('done without an end');
  return { content: [{ type: 'text', text: 'ok' }] };
};
`,
    ),
    ...tool(
      'note',
      'effect: read\nparameters: [{ name: id, type: string, required: true, enum: [one, other, two] }]\nexpose: { mcp: resource, uri: "notes://{id}/text", mime_type: application/json }\n',
      'export const run = ({ id }) => ({ id, about: `note ${id}` });\n',
    ),
    ...tool(
      'picture',
      'effect: read\nexpose: { mcp: resource, uri: "notes://picture", mime_type: image/png }\n',
      returns({ blob: 'aGk=' }),
    ),
    ...tool(
      'review',
      'effect: read\nparameters: [{ name: what, type: string, required: true, enum: [code, text] }]\nexpose: { mcp: prompt }\n',
      'export const run = ({ what }) => ({ messages: [{ role: "user", content: { type: "text", text: `review ${what}` } }, "odd"] });\n',
    ),
    ...tool(
      'ask_prompt',
      `${ASKS}effect: read\nexpose: { mcp: prompt }\n`,
      ASK_CODE.replace(
        "return { content: [{ type: 'text', text: input_state.greeting + ', ' + name + '!' }] };",
        "return { messages: [{ role: 'user', content: { type: 'text', text: name } }] };",
      ),
    ),
    ...tool(
      'long',
      'effect: read\nexpose: { mcp: tool }\n',
      'export const run = () => ({ text: "y".repeat(150000) });\n',
    ),
    ...tool('a/twice', 'expose: { mcp: tool }\n', returns({})),
    ...tool('b/twice', 'expose: { mcp: tool }\n', returns({})),
    ...tool('hidden', '', returns({})),
    '.ai/knowledge/style.md':
      '---\ntitle: Style\ndescription: How we write\nexpose: { mcp: resource }\n---\n# Style\n\nShort.\n',
  });
  fixture.write(
    `${fixture.home}/policy.yaml`,
    'unsigned: allow\nsurfaces: { mcp: { effects: [read, idempotent, write] } }\n',
  );
  runtime = await fixture.open();
});
afterAll(async () => {
  await runtime.close();
  fixture.remove();
});

const texts = (result: { content?: unknown }): string[] =>
  (result.content as { text?: string }[]).flatMap(({ text }) => text ?? []);

describe.each(ERAS)('native mode in %s', (era) => {
  async function withPeer<T>(
    work: (client: Client) => Promise<T>,
    options: PeerOptions = {},
  ): Promise<T> {
    const { client, close } = await connectPeer(runtime, { era, native: true, ...options });
    try {
      return await work(client);
    } finally {
      await close();
    }
  }
  const answering = (answer: () => unknown): PeerOptions => ({
    capabilities: { elicitation: {} },
    prepare: (client) =>
      client.setRequestHandler('elicitation/create', () => answer() as { action: 'accept' }),
  });

  test('exposed tools are listed with their own schemas, and nothing else', async () => {
    const told: string[] = [];
    const { tools } = await withPeer((client) => client.listTools(), {
      onError: ({ message }) => told.push(message),
    });
    expect(tools.map(({ name }) => name).sort()).toEqual(
      ['asks', 'fails', 'long', 'mixed-content', 'plain', 'prints', 'says_error', 'sum'].sort(),
    );
    const sum = tools.find(({ name }) => name === 'sum');
    expect(sum).toMatchObject({
      description: 'About sum',
      inputSchema: {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        $defs: { n: { $anchor: 'n', type: 'number' } },
        allOf: [{ anyOf: [{ required: ['a'] }, { required: ['b'] }] }],
        if: { required: ['b'] },
        additionalProperties: false,
      },
      outputSchema: { properties: { sum: { type: 'number' } } },
      annotations: { readOnlyHint: true, destructiveHint: false },
    });
    const asks = tools.find(({ name }) => name === 'asks');
    expect(Object.keys(asks?.inputSchema.properties ?? {})).toEqual(['greeting']);
    expect(told.join('\n')).toContain('`a/twice` and `b/twice`: none is served');
  });

  test('answers are content, structured content with a text twin, or errors', async () => {
    await withPeer(async (client) => {
      const call = (name: string, given = {}) => client.callTool({ name, arguments: given });
      expect(await call('plain')).toMatchObject({ content: [{ type: 'text', text: 'hi' }] });
      const mixed = await call('mixed-content');
      expect((mixed.content as { type: string }[]).map(({ type }) => type)).toEqual([
        'image',
        'resource',
        'resource_link',
        'text',
      ]);
      expect(texts(mixed)).toEqual(['{"type":"nonsense","n":1}']);
      const sum = await call('sum', { a: 1, b: 2 });
      expect(sum.structuredContent).toEqual({ sum: 3 });
      expect(JSON.parse(texts(sum)[0] ?? '')).toEqual({ sum: 3 });
      const failed = await call('fails');
      expect(failed.isError).toBe(true);
      expect(texts(failed)[0]).toContain('this went wrong');
      expect(await call('says_error')).toMatchObject({ isError: true, content: [{ text: 'no' }] });
      const wrong = await call('sum', { a: 'one' });
      expect(wrong.isError).toBe(true);
      expect(texts(wrong)[0]).toContain('`a`');
      expect(await call('hidden').catch((error) => error)).toMatchObject({ code: -32602 });
    });
  });

  test('a result that is too long is read from a link', async () => {
    await withPeer(async (client) => {
      const long = await client.callTool({ name: 'long', arguments: {} });
      expect(long.structuredContent).toBeUndefined();
      expect(JSON.stringify(long).length).toBeLessThan(10_000);
      const [, link] = long.content as { type: string; uri: string }[];
      expect(link).toMatchObject({ type: 'resource_link', mimeType: 'application/json' });
      let [text, uri] = ['', link?.uri];
      while (uri !== undefined) {
        const [page] = (await client.readResource({ uri })).contents;
        text += page && 'text' in page ? page.text : '';
        uri = page?._meta?.['kernmantle/next'] as string | undefined;
      }
      expect(JSON.parse(text)).toEqual({ text: 'y'.repeat(150_000) });
    });
  });

  test('the policy of the surface holds', async () => {
    const closed = makeFixture({
      ...tool('writes', 'effect: write\nexpose: { mcp: tool }\n', returns({})),
    });
    const other = await closed.open();
    try {
      const { client, close } = await connectPeer(other, { era, native: true });
      const refused = await client.callTool({ name: 'writes', arguments: {} });
      expect(refused.isError).toBe(true);
      expect(texts(refused)[1]).toContain('permission_denied');
      await close();
    } finally {
      await other.close();
      closed.remove();
    }
  });

  test('a tool asks the client, and goes on with the answer and its own state', async () => {
    const asked = await withPeer(
      (client) => client.callTool({ name: 'asks', arguments: { greeting: 'Hi' } }),
      answering(() => ({ action: 'accept', content: { name: 'Ann' } })),
    );
    expect(texts(asked)).toEqual(['Hi, Ann!']);
    const declined = await withPeer(
      (client) => client.callTool({ name: 'asks', arguments: {} }),
      answering(() => ({ action: 'decline' })),
    );
    expect(texts(declined)).toEqual(['Hello, decline!']);
    const prompt = await withPeer(
      (client) => client.getPrompt({ name: 'ask_prompt' }),
      answering(() => ({ action: 'accept', content: { name: 'Ann' } })),
    );
    expect(prompt.messages).toMatchObject([{ content: { text: 'Ann' } }]);
  });

  test('an answer that does not fit is asked for again', async () => {
    const answers = [{ name: 5 }, {}, { name: 'Ann' }];
    const asked = await withPeer(
      (client) => client.callTool({ name: 'asks', arguments: {} }),
      answering(() => ({ action: 'accept', content: answers.shift() ?? {} })),
    );
    expect(texts(asked)).toEqual(['Hello, Ann!']);
    expect(answers).toEqual([]);
  });

  test('a client that cannot be asked is told so', async () => {
    const asked = await withPeer((client) =>
      client.callTool({ name: 'asks', arguments: {} }).catch((error: unknown) => error),
    );
    expect(JSON.stringify(asked)).toMatch(/elicitation|-32021/);
  });

  test('no client sets what only the server sets', async () => {
    const given = { who: { action: 'accept', content: { name: 'Eve' } } };
    const asked = await withPeer((client) =>
      client.callTool({ name: 'asks', arguments: { input_responses: given } }),
    );
    expect(asked.isError).toBe(true);
    expect(texts(asked)[0]).toContain('input_responses');
    const parameters = { input_responses: given, input_state: { greeting: 'Hi' } };
    const plain = await withPeer(
      (client) =>
        client.callTool({
          name: 'execute',
          arguments: { item_type: 'tool', item_id: 'asks', parameters },
        }),
      { native: false },
    );
    expect(plain.structuredContent).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  });

  test('what a process prints are log messages and progress', async () => {
    const logs: unknown[] = [];
    const progress: unknown[] = [];
    await withPeer(
      async (client) => {
        if (era === '2025-11-25') await client.setLoggingLevel('info');
        const meta = era === '2025-11-25' ? {} : { 'io.modelcontextprotocol/logLevel': 'info' };
        const call = { name: 'prints', arguments: {}, _meta: meta };
        await client.callTool(call, { onprogress: (one) => progress.push(one) });
        if (era === '2025-11-25') await client.setLoggingLevel('error');
        await client.callTool({ name: 'prints', arguments: {} });
      },
      {
        prepare: (client) =>
          client.setNotificationHandler('notifications/message', ({ params }) => {
            logs.push(params);
          }),
      },
    );
    expect(logs).toEqual([
      { level: 'info', logger: 'prints', data: 'started' },
      { level: 'info', logger: 'prints', data: 'done without an end' },
    ]);
    expect(progress).toEqual([{ progress: 50, total: 100, message: 'half' }]);
  });

  test('nothing is said at once while a guard judges the result', async () => {
    const logs: unknown[] = [];
    const policy = fixture.write(
      '.ai/policy.yaml',
      'guards:\n  - { name: late, on: "op:tool:prints", timing: after, when: "true", deny: not for clients }\n',
    );
    onTestFinished(() => rmSync(policy));
    const judged = await fixture.open();
    onTestFinished(() => judged.close());
    const { client, close } = await connectPeer(judged, {
      era,
      native: true,
      prepare: (one) =>
        one.setNotificationHandler('notifications/message', ({ params }) => {
          logs.push(params);
        }),
    });
    if (era === '2025-11-25') await client.setLoggingLevel('info');
    const meta = era === '2025-11-25' ? {} : { 'io.modelcontextprotocol/logLevel': 'info' };
    const told = await client.callTool({ name: 'prints', arguments: {}, _meta: meta });
    await close();
    expect(texts(told)[0]).toContain('not for clients');
    expect(logs).toEqual([]);
  });

  test('resources are listed and read, also by a template', async () => {
    await withPeer(async (client) => {
      const { resources } = await client.listResources();
      expect(resources).toMatchObject([
        { uri: 'notes://picture', name: 'picture', mimeType: 'image/png' },
        {
          uri: 'knowledge://style',
          name: 'style',
          mimeType: 'text/markdown',
          description: 'How we write',
        },
      ]);
      const { resourceTemplates } = await client.listResourceTemplates();
      expect(resourceTemplates).toContainEqual(
        expect.objectContaining({ name: 'note', uriTemplate: 'notes://{id}/text' }),
      );
      const read = async (uri: string) => (await client.readResource({ uri })).contents;
      expect(await read('knowledge://style')).toMatchObject([{ text: '# Style\n\nShort.\n' }]);
      expect(await read('notes://picture')).toMatchObject([
        { mimeType: 'image/png', blob: 'aGk=' },
      ]);
      const [note] = await read('notes://two/text');
      expect(note).toMatchObject({ uri: 'notes://two/text', mimeType: 'application/json' });
      expect(JSON.parse(String(note && 'text' in note && note.text))).toEqual({
        id: 'two',
        about: 'note two',
      });
      const missing = await client.readResource({ uri: 'notes://no/such' }).catch((error) => error);
      expect(missing).toMatchObject({ code: -32602, data: { uri: 'notes://no/such' } });
    });
  });

  test('prompts are tools that answer messages; arguments are completed', async () => {
    await withPeer(async (client) => {
      const { prompts } = await client.listPrompts();
      expect(prompts.find(({ name }) => name === 'review')).toMatchObject({
        description: 'About review',
        arguments: [{ name: 'what', required: true }],
      });
      const got = await client.getPrompt({ name: 'review', arguments: { what: 'code' } });
      expect(got.messages).toMatchObject([
        { role: 'user', content: { type: 'text', text: 'review code' } },
        { role: 'user', content: { type: 'text', text: '"odd"' } },
      ]);
      const wrong = await client.getPrompt({ name: 'review' }).catch((error: unknown) => error);
      expect(wrong).toMatchObject({ code: -32602 });
      const complete = (
        ref: { type: 'ref/prompt'; name: string } | { type: 'ref/resource'; uri: string },
        name: string,
        value: string,
      ) => client.complete({ ref, argument: { name, value } });
      const prompt = await complete({ type: 'ref/prompt', name: 'review' }, 'what', 'c');
      expect(prompt.completion).toMatchObject({ values: ['code'] });
      const note = await complete({ type: 'ref/resource', uri: 'notes://{id}/text' }, 'id', 'o');
      expect(note.completion).toMatchObject({ values: ['one', 'other'] });
    });
  });
});

test('a state is worth nothing changed, to another client, or for another call', async () => {
  const can = { native: true, era: '2026-07-28', capabilities: { elicitation: {} } } as const;
  const one = await connectPeer(runtime, can);
  const other = await connectPeer(runtime, { ...can, caller: { id: 'other' } });
  const raw = async ({ client }: typeof one, params: Record<string, unknown>) =>
    await client
      .request(
        { method: 'tools/call', params: { name: 'asks', ...params } },
        { allowInputRequired: true },
      )
      .catch((error: unknown) => error);
  const inputResponses = { who: { action: 'accept', content: { name: 'Ann' } } };
  try {
    const asked = await raw(one, { arguments: { greeting: 'Hi' } });
    expect(asked).toMatchObject({ resultType: 'input_required', inputRequests: { who: {} } });
    const { requestState } = asked as { requestState: string };
    const back = { inputResponses, arguments: { greeting: 'Hi' } };
    const wrong = { code: -32602 };
    expect(await raw(one, { ...back, requestState: `${requestState}x` })).toMatchObject(wrong);
    expect(await raw(other, { ...back, requestState })).toMatchObject(wrong);
    const elsewhere = await raw(one, {
      inputResponses,
      arguments: { greeting: 'Ha' },
      requestState,
    });
    expect(JSON.stringify(elsewhere)).toContain('Invalid or expired requestState');
    expect(await raw(one, { ...back, requestState })).toMatchObject({
      content: [{ text: 'Hi, Ann!' }],
    });
    // A tool with its own state does not accept answers without a question.
    expect(await raw(one, back)).toMatchObject({ resultType: 'input_required' });
  } finally {
    await one.close();
    await other.close();
  }
});

test('a client hears of a resource that was changed, until it does not want to any more', async () => {
  const heard: string[] = [];
  const told = Promise.withResolvers<void>();
  const { client, close } = await connectPeer(runtime, {
    native: true,
    prepare: (one) =>
      one.setNotificationHandler('notifications/resources/updated', ({ params }) => {
        heard.push(params.uri);
        told.resolve();
      }),
  });
  try {
    const uri = 'knowledge://style';
    await client.subscribeResource({ uri });
    fixture.write('.ai/knowledge/style.md', '---\nexpose: { mcp: resource }\n---\n# Longer\n');
    await told.promise;
    await client.unsubscribeResource({ uri });
    expect(heard).toEqual([uri]);
    const missing = await client.subscribeResource({ uri: 'no://such' }).catch((error) => error);
    expect(missing).toMatchObject({ code: -32602 });
  } finally {
    await close();
  }
});

test('prompts of the plain server are called as they say', async () => {
  const text = (name: string, expose: string) =>
    directiveText(name).replace('</metadata>', `${expose}</metadata>`);
  const named = makeFixture({
    '.ai/directives/one.md': text('one', '<expose mcp="prompt" name="do-it"/>'),
    '.ai/directives/two.md': text('two', '<expose mcp="prompt" name="do-it"/>'),
    '.ai/directives/deep/three.md': text('three', '<expose mcp="prompt"/>'),
    '.ai/directives/four.md': text('four', '<expose mcp="tool"/>'),
  });
  named.write(`${named.home}/policy.yaml`, 'surfaces: { mcp: { directives: all } }\n');
  const other = await named.open();
  const { client, close } = await connectPeer(other);
  try {
    const { prompts } = await client.listPrompts();
    expect(prompts.map(({ name }) => name)).toEqual(['deep/three', 'do-it', 'two']);
    const got = await client.getPrompt({ name: 'do-it' });
    expect(JSON.stringify(got.messages)).toContain('Do it');
    const { completion } = await client.complete({
      ref: { type: 'ref/prompt', name: 'do-it' },
      argument: { name: 'x', value: '' },
    });
    expect(completion.values).toEqual([]);
  } finally {
    await close();
    await other.close();
    named.remove();
  }
});

test('odd items cost themselves, and ids are parts of addresses', async () => {
  const odd = makeFixture({
    ...tool(
      'a/item',
      'effect: read\nparameters: [{ name: id, type: string, required: true }]\nexpose: { mcp: resource, uri: "a://{id}" }\n',
      returns({ text: 'a' }),
    ),
    ...tool(
      'b/item',
      'effect: read\nparameters: [{ name: id, type: string, required: true }]\nexpose: { mcp: resource, uri: "b://{id}" }\n',
      'export const run = ({ id }) => ({ text: id });\n',
    ),
    ...tool(
      'result',
      'effect: read\nparameters: [{ name: id, type: string, required: true }]\nexpose: { mcp: resource, uri: "c://{id}" }\n',
      returns({ text: 'c' }),
    ),
    ...tool(
      'broken',
      'expose: { mcp: tool }\ninput_schema: { type: object, properties: { a: { $ref: "#/no/where" } } }\n',
      returns({}),
    ),
    ...tool('fine', 'effect: read\nexpose: { mcp: tool }\n', returns({ fine: true })),
    '.ai/knowledge/my notes/a b.md': '---\nexpose: { mcp: resource }\n---\n# A b\n',
    '.ai/knowledge/named.md': '---\nexpose: { mcp: resource, uri: "n://named" }\n---\n# N\n',
  });
  odd.write(`${odd.home}/policy.yaml`, 'unsigned: allow\n');
  const other = await odd.open();
  const heard = Promise.withResolvers<string>();
  const { client, close } = await connectPeer(other, {
    native: true,
    prepare: (one) =>
      one.setNotificationHandler('notifications/resources/updated', ({ params }) =>
        heard.resolve(params.uri),
      ),
  });
  try {
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['item', 'item (b/item)', 'result (result)']),
    );
    const read = async (uri: string) => (await client.readResource({ uri })).contents;
    expect(await read('b://x%20y')).toMatchObject([{ text: 'x y' }]);
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toEqual(['knowledge://my%20notes/a%20b', 'n://named']);
    expect(await read('knowledge://my%20notes/a%20b')).toMatchObject([{ text: '# A b\n' }]);
    const fine = await client.callTool({ name: 'fine', arguments: {} });
    expect(fine.structuredContent).toEqual({ fine: true });
    await client.subscribeResource({ uri: 'n://named' });
    odd.write(
      '.ai/knowledge/named.md',
      '---\nexpose: { mcp: resource, uri: "n://named" }\n---\n# Other\n',
    );
    expect(await heard.promise).toBe('n://named');
  } finally {
    await close();
    await other.close();
    odd.remove();
  }
});

test.each(ERAS)(
  'a directive as a tool starts a thread, which is read by its handle (%s)',
  async (era) => {
    const look = directiveText('look', {
      permissions: READ,
      inputs: '<who type="string" required="true">whom</who>',
    });
    const files = {
      '../home/policy.yaml':
        'unsigned: allow\nsurfaces: { mcp: { effects: [read, idempotent, write], directives: all } }\n',
      '.ai/directives/look.md': look.replace(
        '</metadata>',
        '<expose mcp="tool" name="look-around"/></metadata>',
      ),
    };
    const { runtime: staged } = await stage(files, () => ({ text: 'done' }));
    const { client, close } = await connectPeer(staged, { era, native: true });
    onTestFinished(close);
    const { tools } = await client.listTools();
    expect(tools).toMatchObject([
      { name: 'look-around', inputSchema: { required: ['who'], additionalProperties: false } },
    ]);
    const wrong = await client.callTool({ name: 'look-around', arguments: {} });
    expect(wrong.isError).toBe(true);
    const started = await client.callTool({ name: 'look-around', arguments: { who: 'ann' } });
    const { thread_id } = started.structuredContent as { thread_id: string };
    expect(thread_id).toMatch(/^look_.*\.[\w-]{32}$/);
    const status = async () => {
      const [read] = (await client.readResource({ uri: `thread://${thread_id}/status` })).contents;
      return read && 'text' in read ? (JSON.parse(read.text) as { status: string }).status : '';
    };
    await expect.poll(status).toBe('completed');
  },
);

test('`km mcp serve --native` is served to a client of the older SDK', async () => {
  const launcher = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));
  const client = new OldClient({ name: 'old', version: '1.0.0' });
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [launcher, 'mcp', 'serve', '--native', '--project', fixture.root],
      env: { ...(fixture.env as Record<string, string>), KERNMANTLE_SRC: '1' },
      stderr: 'ignore',
    }),
  );
  try {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('sum');
    const sum = await client.callTool({ name: 'sum', arguments: { a: 2, b: 3 } });
    expect(sum.structuredContent).toEqual({ sum: 5 });
    const { resources } = await client.listResources();
    expect(resources.map(({ uri }) => uri)).toContain('notes://picture');
  } finally {
    await client.close();
  }
});
