// Tools of the first documents, as they stand there. Most are part of the bundle now: `km check` names
// the tool for each of their errors, and that one takes the same call.
import { readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import {
  directiveText,
  READ,
  run as runThread,
  stage,
} from '@kernmantle/test-support/thread-project';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { installServer, startServer } from '../../../../mcp/tests/support/changing-server.ts';
import { QUERY } from '../../../../mcp/tests/support/connected.ts';
import { type JsonObject, textAt } from '../../../src/base/index.ts';
import { blocksOf, errorsIn, type Finding } from './examples.ts';

const TOOLS = blocksOf('tools.md');
const textOf = (heading: string): string => TOOLS.get(heading) ?? '';
const hintsOf = (errors: readonly Finding[]) => [...new Set(errors.map(({ hint }) => hint))];

const WAIT = 'Wait for an answer.';
const EVENTS = ['message_start', 'message_stop'];
/** Answers every request but those that say to wait: threads that ask so stay as they are. */
const server = createServer((request, response) => {
  let text = '';
  request.on('data', (chunk) => {
    text += String(chunk);
  });
  request.on('end', () => {
    if (text.includes(WAIT)) return;
    const isStream = JSON.parse(text).stream === true;
    response.setHeader('content-type', isStream ? 'text/event-stream' : 'application/json');
    const events = EVENTS.map((name) => `event: ${name}\ndata: {"type":"${name}"}\n\n`);
    response.end(isStream ? events.join('') : '{"content": []}');
  });
});
beforeAll(() => new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready)));
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((done) => server.close(done));
});
const origin = (): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const GREET = `<directive name="greet" version="1.0.0">
  <metadata>
    <description>Runs without a model</description>
    <category>examples</category>
    <limits><turns>1</turns><tokens>1000</tokens></limits>
    <permissions/>
  </metadata>
  <process><script>/return { done: true }</script></process>
</directive>
`;
const WAITING = `<directive name="wait" version="1.0.0">
  <metadata>
    <description>Waits for its model</description>
    <category>examples</category>
    <model tier="fast">any</model>
    <limits><turns>3</turns><tokens>50000</tokens></limits>
    <permissions/>
  </metadata>
  <process><step name="only">${WAIT}</step></process>
</directive>
`;
const MESSAGES = { messages: [{ role: 'user', content: 'Hello' }] };

/** A project with a directive that can be spawned, and with keys for the server of this file. */
function makeProject(files: Readonly<Record<string, string>>): Fixture {
  const fixture = makeFixture({
    ...files,
    '.ai/directives/greet.md': GREET,
    '../home/policy.yaml': 'hosts: ["127.0.0.1"]\nunsigned: allow\nsandbox: none\n',
  });
  for (const name of ['ANTHROPIC', 'OPENAI']) {
    fixture.env[`${name}_API_KEY`] = 'key-of-a-test';
    fixture.env[`${name}_BASE_URL`] = origin();
  }
  return fixture;
}

async function run(fixture: Fixture, item_id: string, parameters: JsonObject): Promise<JsonObject> {
  const done = await fixture.call('execute', { item_type: 'tool', item_id, parameters });
  expect(done, JSON.stringify(done)).toMatchObject({ ok: true });
  return (done.ok ? done.output : {}) as JsonObject;
}

/** The heading, the tool of the bundle, and a call with parameters that the example declares. */
type Shipped = readonly [heading: string, id: string, parameters: JsonObject];
const SPAWN = { directive_name: 'greet', initial_message: 'Deploy v1.2.3' };
const WITH_ID = { ...SPAWN, thread_id: 'greet_1' };
const QUERIED = { action: 'query', directive_name: 'greet', limit: 10 };
const SHIPPED: readonly Shipped[] = [
  ['filesystem/write_file', 'fs/write_file', { path: 'a.txt', content: 'a' }],
  [
    'llm/anthropic_messages',
    'llm/anthropic_messages',
    { ...MESSAGES, model: 'm', max_tokens: 9, stream: false, system_prompt: 's', tools: [] },
  ],
  [
    'llm/openai_chat',
    'llm/openai_chat',
    { ...MESSAGES, model: 'm', max_tokens: 9, stream: false, tools: [], tool_choice: 'auto' },
  ],
  ['orchestration/thread_directive', 'threads/thread_directive', SPAWN],
  ['threads/thread_directive', 'threads/thread_directive', { directive_name: 'greet', inputs: {} }],
  ['threads/thread_directive in short', 'threads/thread_directive', SPAWN],
  ['threads/safety_harness', 'threads/safety_harness', { ...SPAWN, inputs: {} }],
  ['threads/safety_harness in short', 'threads/safety_harness', SPAWN],
  ['threads/spawn_thread', 'threads/spawn_thread', { ...WITH_ID, inputs: {} }],
  ['threads/base_spawn_thread', 'threads/spawn_thread', WITH_ID],
  ['threads/thread_registry', 'threads/thread_registry', QUERIED],
  ['threads/thread_registry with rights', 'threads/thread_registry', QUERIED],
  ['threads/thread_registry in short', 'threads/thread_registry', QUERIED],
];

const SEVERAL: Readonly<Record<string, string>> = {
  read_transcript: 'threads/read_transcript',
  inject_message: 'threads/inject_message',
  pause: 'threads/pause_thread',
  resume: 'threads/resume_thread',
};
const shippedHint = (id: string): string =>
  `this is the tool \`${id}\` of the bundle: remove the file and call that`;

async function expectShipped(fixture: Fixture, heading: string, id: string): Promise<void> {
  const [path = ''] = heading.split(' ');
  const file = fixture.write(`.ai/tools/${path}.yaml`, textOf(heading));
  expect(hintsOf(await errorsIn(fixture))).toEqual([shippedHint(id)]);
  rmSync(file);
  expect(await errorsIn(fixture)).toEqual([]);
}

test.each(SHIPPED)('%s of the documents is in the bundle', async (heading, id, parameters) => {
  const fixture = makeProject({});
  try {
    await expectShipped(fixture, heading, id);
    await run(fixture, id, parameters);
  } finally {
    fixture.remove();
  }
});

test('the tools that steer a thread are in the bundle', async () => {
  const fixture = makeProject({ '.ai/directives/wait.md': WAITING });
  const calls: readonly Shipped[] = [
    ['threads/thread.read_transcript', 'threads/read_transcript', { last_n: 10 }],
    ['threads/thread.inject_message', 'threads/inject_message', { role: 'user', content: 'Stop' }],
    ['threads/thread.pause', 'threads/pause_thread', { reason: 'looks wrong' }],
    ['threads/thread.resume', 'threads/resume_thread', { inject_message: 'go on' }],
  ];
  try {
    for (const [heading, id] of calls) await expectShipped(fixture, heading, id);
    const runtime = await fixture.open();
    const execute = async (item_id: string, parameters: JsonObject) => {
      const request = { item_type: 'tool', item_id, parameters };
      const done = await runtime.call('execute', request, { surface: 'cli' });
      expect(done, JSON.stringify(done)).toMatchObject({ ok: true });
      return done.ok ? done.output : {};
    };
    const spawned = await execute('threads/thread_directive', { directive_name: 'wait' });
    const thread_id = textAt(spawned, 'thread_id');
    const [resume, ...others] = calls.toReversed();
    for (const [, id, parameters] of others.toReversed()) {
      await execute(id, { thread_id, ...parameters });
    }
    await runtime.close();
    await run(fixture, resume?.[1] ?? '', { thread_id, ...resume?.[2] });
  } finally {
    fixture.remove();
  }
});

test('the tools that ask an MCP server are in the bundle', async () => {
  const fixture = makeProject({});
  const { args } = installServer(fixture, { tools: [QUERY] });
  const mcp = await startServer(fixture, { tools: [QUERY] });
  try {
    await expectShipped(fixture, 'mcp/mcp_http', 'mcp/mcp_http');
    const asked = { url: mcp.url, rpc_method: 'tools/list', rpc_params: {} };
    expect(await run(fixture, 'mcp/mcp_http', asked)).toMatchObject({ result: { tools: [QUERY] } });
    await expectShipped(fixture, 'mcp/mcp_stdio', 'mcp/mcp_stdio');
    const piped = { command: process.execPath, args, method: 'tools/list', params: {} };
    expect(await run(fixture, 'mcp/mcp_stdio', piped)).toMatchObject({
      result: { tools: [QUERY] },
    });
  } finally {
    await mcp.stop();
    fixture.remove();
  }
});

test.each([
  ['sinks', 'sinks/', ' in short', ['file_sink', 'null_sink', 'websocket_sink']],
  ['steering', 'threads/thread.', '', ['read_transcript', 'inject_message', 'pause', 'resume']],
])('several tools in one file are named together: %s', async (_, before, after, names) => {
  const text = names.map((name) => textOf(`${before}${name}${after}`)).join('\n');
  const fixture = makeProject({ '.ai/tools/all.yaml': text });
  const found = names.map((name) => SEVERAL[name] ?? `sinks/${name}`);
  try {
    const list = found.map((id) => `\`${id}\``).join(', ');
    const hint = `these are the tools ${list} of the bundle: remove the file and call those`;
    expect(hintsOf(await errorsIn(fixture))).toEqual([hint]);
  } finally {
    fixture.remove();
  }
});

const SINKS = ['file_sink', 'null_sink', 'websocket_sink'].flatMap((name) => [
  [`sinks/${name}`, `sinks/${name}`] as const,
  [`sinks/${name} in short`, `sinks/${name}`] as const,
]);

test.each(SINKS)('%s of the documents is in the bundle', async (heading, id) => {
  const fixture = makeProject({});
  try {
    await expectShipped(fixture, heading, id);
  } finally {
    fixture.remove();
  }
});

test.each(['file_sink', 'null_sink'])('%s in Python is in the bundle', async (name) => {
  const module = { [`.ai/tools/sinks/${name}.py`]: textOf(`sinks/${name}.py`) };
  const fixture = makeProject(module);
  try {
    await expectShipped(fixture, `sinks/${name}`, `sinks/${name}`);
  } finally {
    fixture.remove();
  }
});

const THREAD = 'threads/anthropic_thread';
const WATCHED = textOf(THREAD).replace(
  /^config:\n[^]*?\n\n/m,
  `${textOf('destinations of a thread')}\n`,
);

test.each([
  ['as it stands', textOf(THREAD)],
  ['with destinations for watching', WATCHED],
  ['with a sink that drops events', textOf(THREAD).replace('type: return', 'type: null_sink')],
])('a thread tool of the documents runs %s, its prompt of any type', async (_, text) => {
  const look = directiveText('look', { permissions: READ });
  const at = `.ai/tools/${THREAD}.yaml`;
  const made = await stage({ '.ai/directives/look.md': look, [at]: text }, [{ text: 'the end' }]);
  const [narrowed, ...others] = await errorsIn(made.fixture);
  expect([narrowed?.hint, others]).toEqual(['write `type: any`', []]);
  const rows = text.split('\n');
  const index = (narrowed?.line ?? 0) - 1;
  rows[index] = rows[index]?.replace(/type: .*/, 'type: any') ?? '';
  made.fixture.write(at, rows.join('\n'));
  expect(await errorsIn(made.fixture)).toEqual([]);
  const { thread_id, status, ...more } = await runThread(made, 'look');
  expect(status, JSON.stringify(more)).toBe('completed');
  const kept = join(made.fixture.root, '.ai/threads', thread_id, 'transcript.jsonl');
  expect(readFileSync(kept, 'utf8')).toContain('message_stop');
});

test('a generated tool without its schema names the connector that writes it', async () => {
  const fixture = makeProject({});
  const file = fixture.write('.ai/tools/mcp/supabase_query.yaml', textOf('mcp/supabase_query'));
  fixture.env.SUPABASE_SERVICE_KEY = 'service-key-of-a-test';
  const mcp = await startServer(fixture, { name: 'supabase', tools: [QUERY] });
  const km = (...words: string[]) => runCommand(words, fixture.root, fixture.env);
  try {
    const seed = 'https://mcp.supabase.com/mcp';
    const [, add = ''] = /or `km ([^`]+)`/.exec(hintsOf(await errorsIn(fixture)).join()) ?? [];
    expect(add).toBe(`mcp add supabase --url ${seed}`);
    const connector = textOf('mcp/supabase_connector').replace(seed, mcp.url);
    fixture.write('.ai/tools/mcp/supabase_connector.yaml', connector);
    const [hint = ''] = hintsOf(await errorsIn(fixture));
    expect(hint).toContain('remove the file');
    expect(hint).toContain('`km mcp sync supabase`');
    rmSync(file);
    const synced = await km('mcp', 'sync', 'supabase', '--yes');
    expect(synced, synced.output).toMatchObject({ code: 0 });
    expect(await errorsIn(fixture)).toEqual([]);
    const called = await run(fixture, 'supabase_query', { sql: 'select 1' });
    expect(JSON.stringify(called)).toContain('select 1');
  } finally {
    await mcp.stop();
    fixture.remove();
  }
});

/** The form of a module in the documents: parameters by name, and what else there is. */
const EXECUTE = `async def execute(directive_name: str, inputs=None, **params):
    return {"name": directive_name, "inputs": inputs}
`;

test.each([
  ['.py', 'python_runtime', '', 'config: { module: ./deploy.py }', EXECUTE],
  ['.py', 'python_runtime', 'config:\n  function: execute', 'module: ./deploy.py', EXECUTE],
  [
    '.mjs',
    'node',
    '',
    'config: { module: ./deploy.mjs }',
    'export const run = ({ directive_name: name, inputs }) => ({ name, inputs });\n',
  ],
])('a sidecar without its module names the %s beside it: %s %s', async (...row) => {
  const [ending, executor, config, line, module] = row;
  const sidecar = textOf('threads/thread_directive in short')
    .replace('thread_directive', 'deploy')
    .replace('python_runtime', executor)
    .replace(/requires:[^]*?\n\n/, '');
  const at = '.ai/tools/deploy.yaml';
  const text = `${sidecar}${config}\n`;
  const fixture = makeProject({ [at]: text, [`.ai/tools/deploy${ending}`]: module });
  try {
    expect(hintsOf(await errorsIn(fixture))).toEqual([`add \`${line}\``]);
    fixture.write(at, config === '' ? `${text}${line}\n` : `${text}  ${line}\n`);
    expect(await errorsIn(fixture)).toEqual([]);
    const done = await run(fixture, 'deploy', { directive_name: 'a', inputs: { b: 1 } });
    expect(done).toMatchObject({ name: 'a', inputs: { b: 1 } });
  } finally {
    fixture.remove();
  }
});

test('a file with a part of a tool is told the name that it lacks', async () => {
  const part = textOf('destinations of a thread');
  const fixture = makeProject({ [`.ai/tools/${THREAD}.yaml`]: part });
  try {
    expect(hintsOf(await errorsIn(fixture))).toEqual(['add `tool_id: anthropic_thread`']);
  } finally {
    fixture.remove();
  }
});
