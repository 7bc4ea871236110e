// What is wrong with the config of a tool is known before anybody runs it, and says who wrote it.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { relative } from 'node:path';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { afterEach, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/index.ts';

const made: Fixture[] = [];
afterEach(() => {
  for (const fixture of made.splice(0)) fixture.remove();
});

function project(tools: Readonly<Record<string, string>>, policy = TRUSTING): Fixture {
  const fixture = makeFixture();
  made.push(fixture);
  for (const [id, yaml] of Object.entries(tools)) {
    const name = id.slice(id.lastIndexOf('/') + 1);
    const head = `tool_id: ${name}\nversion: "1.0.0"\ndescription: a tool of these tests\n`;
    fixture.write(`.ai/tools/${id}.yaml`, `${head}${yaml}\n`);
  }
  fixture.write(`${fixture.home}/policy.yaml`, policy);
  return fixture;
}

const execute = (id: string, parameters: JsonObject = {}): JsonObject => ({
  item_type: 'tool',
  item_id: id,
  parameters,
});

interface Found {
  places: string[];
  searched: unknown;
  loaded: unknown;
  refused: { code: string; failed_at: unknown } | undefined;
}

/** What `check`, `search`, `load` and `execute` say about one tool. */
async function ask(fixture: Fixture, id: string): Promise<Found> {
  const runtime = await fixture.open();
  try {
    const places = runtime.library
      .check({ sources: ['project'] })
      .filter(({ severity }) => severity === 'error')
      .map((one) => `${relative(fixture.root, one.file)}:${one.line}:${one.column} ${one.code}`);
    const answer = await runtime.call('search', {
      query: id.split('/').at(-1) ?? id,
      item_type: 'tool',
    });
    const hits = answer.ok ? (answer.output as { items: JsonObject[] }).items : [];
    const loaded = await runtime.call('load', { item_type: 'tool', item_id: id, part: 'metadata' });
    const ran = await runtime.call('execute', execute(id), { surface: 'cli' });
    return {
      places,
      searched: hits.find(({ item_id }) => item_id === id)?.unavailable,
      loaded: loaded.ok ? (loaded.output as { item: JsonObject }).item.unavailable : loaded.error,
      refused: ran.ok ? undefined : { code: ran.error.code, failed_at: ran.error.detail.failed_at },
    };
  } finally {
    await runtime.close();
  }
}

const HTTP = 'executor_id: http_client\nrequires: [net.http]\n';
const PROCESS = 'executor_id: subprocess\nrequires: [process.spawn]\n';
const to = (destination: string): string =>
  `${HTTP}config:\n  url: https://a.example/\n  mode: stream\n  stream:\n    destinations:\n      - ${destination}`;

test.each([
  [`${HTTP}config: { url: "https://a.example/", mode: strm }`, 'config.mode', '6:44'],
  [
    `${HTTP}config: { url: "https://a.example/", timeouts: { connect: soon } }`,
    'config.timeouts.connect',
    '6:59',
  ],
  [
    `${HTTP}config: { url: "https://a.example/", timeouts: { conect: 3 } }`,
    'config.timeouts.conect',
    '6:50',
  ],
  [`${HTTP}config: { method: GET }`, 'config', '6:9'],
  [`${HTTP}config: { url: "ftp://a.example/" }`, 'config.url', '6:16'],
  [`${HTTP}config: { url: "https://a.example/", urll: x }`, 'config.urll', '6:38'],
  [`${HTTP}config: { url: "https://a.example/", headers: [a] }`, 'config.headers', '6:47'],
  [
    `${HTTP}config: { url: "https://a.example/", auth: { type: bearre, token: x } }`,
    'config.auth.type',
    '6:52',
  ],
  [`${HTTP}config: { url: "https://a.example/", auth: { type: bearer } }`, 'config.auth', '6:44'],
  [`${HTTP}config: { url: "https://a.example/", max_bytes: 0 }`, 'config.max_bytes', '6:49'],
  [
    `${HTTP}config: { url: "https://a.example/", stream: { transport: smoke } }`,
    'config.stream.transport',
    '6:59',
  ],
  [to('{ type: file_sik, path: a }'), 'config.stream.destinations.0.type', '11:17'],
  [to('{ type: fs/read_file }'), 'config.stream.destinations.0.type', '11:17'],
  [to('{ type: file_sink }'), 'config.stream.destinations.0', '11:9'],
  [to('{ type: file, path: [a] }'), 'config.stream.destinations.0.path', '11:29'],
  [to('{ type: return, max_sise: 4 }'), 'config.stream.destinations.0.max_sise', '11:25'],
  [
    to('{ type: websocket_sink, url: "https://a.example" }'),
    'config.stream.destinations.0.url',
    '11:38',
  ],
  [to('{ path: a }'), 'config.stream.destinations.0', '11:9'],
  [`${PROCESS}config: { command: [ls, -l] }`, 'config.command', '6:20'],
  [`${PROCESS}config: { args: [a] }`, 'config', '6:9'],
  [`${PROCESS}config: { command: ls, argz: [a] }`, 'config.argz', '6:24'],
  [`${PROCESS}config: { command: ls, max_memory_mb: lots }`, 'config.max_memory_mb', '6:39'],
  [`${PROCESS}config: { shell: fish, script: ls }`, 'config.shell', '6:18'],
  [`executor_id: node\nconfig: { function: run }`, 'config', '5:9'],
  [`executor_id: function\nconfig: { function: reed_file }`, 'config.function', '5:21'],
  [`executor_id: function\nconfig: { function: read_file, path: x }`, 'config.path', '5:32'],
  [`executor_id: thread\nconfig: { function: waite }`, 'config.function', '5:21'],
  [`executor_id: thread\nconfig: { function: wait, wait_ms: 1 }`, 'config.wait_ms', '5:27'],
  [`executor_id: script\nconfig: { script: x, scripd: x }`, 'config.scripd', '5:22'],
] as const)('a config is refused before it is run: %s', async (yaml, path, place) => {
  const found = await ask(project({ 'n/odd': yaml }), 'n/odd');
  expect(found.places).toContain(`.ai/tools/n/odd.yaml:${place} config_invalid`);
  expect(found.searched).toMatch(/\S/);
  expect(found.loaded).toBe(found.searched);
  expect(found.refused).toMatchObject({
    code: 'config_invalid',
    failed_at: { tool_id: 'n/odd', config_path: path },
  });
  expect(found.refused).toMatchObject({
    failed_at: { validation_errors: [{ field: path, error: expect.any(String) }] },
  });
});

test.each([
  `${HTTP}config: { method: "{how}", url: "{where}", headers: "{heads}", body: "{what}", timeouts: { connect: "{wait}" } }\nparameters: [{ name: how }, { name: where }, { name: heads }, { name: what }, { name: wait }]`,
  `${HTTP}env: [SHOP]\nconfig: { url: "https://\${SHOP}/x", auth: { type: bearer, token: "\${SHOP}" } }`,
  to('{ type: file_sink, path: "out/{thread_id}.jsonl" }'),
  to('{ type: sinks/null_sink }'),
  `${PROCESS}config: { command: "{program}", args: ["{x}", 1], cwd: "{x}" }\nparameters: [{ name: program }, { name: x }]`,
  `executor_id: node\nconfig: { module: ./odd.mjs, colour: blue, more: [1] }`,
] as const)('what may still be filled in, or is for a module, passes: %s', async (yaml) => {
  const fixture = project({ 'n/fine': yaml });
  fixture.write('.ai/tools/n/odd.mjs', 'export const run = () => 1;');
  const runtime = await fixture.open();
  const errors = runtime.library.check({ sources: ['project'] });
  expect(errors.filter(({ severity }) => severity === 'error')).toEqual([]);
  await runtime.close();
});

const CHAIN = {
  'n/top': 'executor_id: n/mid\nconfig: { headers: { a: top } }',
  'n/mid': 'executor_id: n/bot\nconfig: { timeouts: { connect: soon } }',
  'n/bot': `${HTTP}config: { url: "https://a.example/", headers: { a: bot } }`,
};

test('a mistake in the middle of a chain is told at its own place, by whichever tool it is met', async () => {
  const fixture = project(CHAIN);
  const found = await ask(fixture, 'n/top');
  expect(found.places).toEqual(['.ai/tools/n/mid.yaml:5:32 config_invalid']);
  expect(found.searched).toContain('`n/mid`');
  expect(found.refused).toMatchObject({
    code: 'config_invalid',
    failed_at: {
      tool_id: 'n/mid',
      config_path: 'config.timeouts.connect',
      validation_errors: [{ field: 'config.timeouts.connect' }],
    },
  });
});

test('what two links make together is told by the one that joined them', async () => {
  const found = await ask(
    project({
      'n/top': 'executor_id: n/bot\nconfig: { auth: { type: basic } }',
      'n/bot': `${HTTP}config: { url: "https://a.example/", auth: { type: bearer, token: x } }`,
    }),
    'n/top',
  );
  expect(found.places).toEqual(['.ai/tools/n/top.yaml:4:14 config_invalid']);
});

test('a tool that others complete is no mistake, and cannot be called by itself', async () => {
  const fixture = project({
    'n/top': 'executor_id: n/base\nconfig: { url: "https://a.example/" }',
    'n/base': `${HTTP}config: { method: POST }`,
  });
  const { places, refused } = await ask(fixture, 'n/base');
  expect(places).toEqual([]);
  expect(refused).toMatchObject({ code: 'config_invalid' });
});

test('a call that fails names the link that said where it goes', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  const fixture = project(
    {
      'n/top': 'executor_id: n/mid\nconfig: { headers: { a: top } }',
      'n/mid': 'executor_id: n/bot',
      'n/bot': `${HTTP}config: { url: "http://127.0.0.1:${port}/" }`,
      'n/cry': 'executor_id: n/sh\nconfig: { args: [a] }',
      'n/sh': `${PROCESS}config: { command: surely-no-such-program }`,
    },
    `${TRUSTING}hosts: ["127.0.0.1"]\n`,
  );
  const refused = await fixture.call('execute', execute('n/top'));
  expect(refused).toMatchObject({
    error: {
      code: 'network_error',
      detail: { failed_at: { tool_id: 'n/bot', config_path: 'config.url' } },
    },
  });
  const missing = await fixture.call('execute', execute('n/cry'));
  expect(missing).toMatchObject({
    error: { detail: { failed_at: { tool_id: 'n/sh', config_path: 'config.command' } } },
  });
});

test('an item with such a config is not written', async () => {
  const content = `tool_id: new\nversion: "1.0.0"\ndescription: x\n${HTTP}config: { url: [a] }\n`;
  const fixture = project({});
  const request = {
    item_type: 'tool',
    item_id: 'n/new',
    action: 'create',
    parameters: { content },
  };
  expect(await fixture.call('execute', request)).toMatchObject({ ok: false });
});

const STREAM = `${HTTP}config:\n  method: GET\n  url: http://127.0.0.1:1/\n  mode: stream\n`;
test.each([
  [
    'url_as_parameter',
    `${HTTP}config: { method: POST }\nparameters: [{ name: url, type: string, required: true }]`,
    'add `url: "{url}"`',
  ],
  [
    'jsonrpc',
    'executor_id: subprocess\nconfig: { input_format: jsonrpc, output_format: jsonrpc }\nparameters: [{ name: command, type: string, required: true }]',
    'this is the tool `mcp/mcp_stdio` of the bundle',
  ],
  [
    'generated',
    'tool_type: mcp_tool\nexecutor_id: mcp_http\nconfig: { mcp_url: "https://mcp.example/mcp", mcp_tool: query }\nrequires: [db.query]\ninput_schema:',
    'km mcp sync NAME',
  ],
  [
    'generated_stdio',
    'tool_type: mcp_tool\nexecutor_id: mcp_stdio\nconfig: { command: node, mcp_tool: query }',
    'run its connector',
  ],
  [
    'nested',
    `${STREAM}  stream: { destinations: [{ type: file_sink, config: { path: a.txt } }] }`,
    'write its fields beside `type`',
  ],
  ['buffer', `${STREAM}  stream: { buffer_events: true }`, 'write `- type: return`'],
  ['size', `${STREAM}  stream: { max_buffer_size: 9 }`, 'write `max_size` beside'],
])('an older form is refused with the one to write: %s', async (id, yaml, hint) => {
  const fixture = project({ [`x/${id}`]: yaml });
  const runtime = await fixture.open();
  const told = runtime.library.check({ sources: ['project'] }).map((one) => one.hint ?? '');
  expect(told.join('\n')).toContain(hint);
  const refused = await runtime.call('execute', execute(`x/${id}`), { surface: 'cli' });
  expect(refused).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  await runtime.close();
});
