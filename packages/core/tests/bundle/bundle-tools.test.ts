// Every tool of the bundle that needs no thread, run through the kernel as a user's tool would be:
// real files, real HTTP on loopback.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { EXTENSIONS } from '../../../kernmantle/src/extensions.ts';
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
} from '../../src/base/index.ts';
import { createLabelRecords, makeValue } from '../../src/flow/index.ts';
import { BUNDLE, createRuntime, type Runtime } from '../../src/runtime/index.ts';

interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: Json;
}

const KEY = 'sk-test-51f0c9e2';
const seen: Seen[] = [];
let base: string;
let project: string;
let server: Server;
let origin: string;
let runtime: Runtime;

const EVENTS = ['start', 'delta', 'delta', 'stop'];

/** Answers like a model server: JSON, or an event stream when the request asks for one. */
function answer(request: IncomingMessage, response: ServerResponse, text: string): void {
  const body = text === '' ? null : (JSON.parse(text) as Json);
  const { method = '', url = '', headers } = request;
  seen.push({ method, path: url, headers, body });
  const isStream = getOwn(body, 'stream') === true || url.startsWith('/events');
  response.setHeader('content-type', isStream ? 'text/event-stream' : 'application/json');
  if (!isStream) return void response.end(JSON.stringify({ echo: body, url }));
  for (const event of EVENTS) response.write(`event: ${event}\ndata: {"type":"${event}"}\n\n`);
  response.end('data: [DONE]\n\n');
}

/** A thread's tool with a sink of its own in the thread's folder. */
const keptTool = (name: string): string => `tool_id: ${name}_kept
version: "1.0.0"
description: one turn, kept
executor_id: threads/${name}_thread
requires: [net.http]
effect: idempotent
config:
  stream:
    destinations:
      - { type: return }
      - { type: file_sink, path: ".ai/threads/{thread_id}/stream.jsonl" }
`;

beforeAll(async () => {
  server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => {
      text += chunk;
    });
    request.on('end', () => answer(request, response, text));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  base = await mkdtemp(join(tmpdir(), 'bundle-tools-'));
  project = join(base, 'project');
  const home = join(base, 'home');
  await cp(join(BUNDLE, 'demo'), project, { recursive: true });
  await mkdir(home);
  const policy = 'hosts: ["127.0.0.1"]\nunsigned: allow\nsandbox: none\n';
  await writeFile(join(home, 'policy.yaml'), policy);
  await mkdir(join(project, '.ai/tools/kept'), { recursive: true });
  for (const name of ['anthropic', 'openai']) {
    const kept = keptTool(name);
    await writeFile(join(project, `.ai/tools/kept/${name}_kept.yaml`), kept);
  }
  const opened = await createRuntime({
    project,
    extensions: EXTENSIONS,
    env: {
      PATH: process.env.PATH,
      KERNMANTLE_HOME: home,
      ANTHROPIC_API_KEY: KEY,
      ANTHROPIC_BASE_URL: origin,
      OPENAI_API_KEY: KEY,
      OPENAI_BASE_URL: origin,
    },
  });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  runtime = opened.output;
});

afterAll(async () => {
  await runtime?.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(base, { recursive: true, force: true });
});

const execute = (id: string, parameters: JsonObject, surface = 'cli'): Promise<Outcome<Json>> =>
  runtime.call('execute', { item_type: 'tool', item_id: id, parameters }, { surface });

async function run(id: string, parameters: JsonObject): Promise<JsonObject> {
  const result = await execute(id, parameters);
  if (!result.ok) throw new Error(JSON.stringify(result.error));
  if (!isObject(result.output)) throw new Error('expected an object');
  return result.output;
}

const codeOf = (result: Outcome<unknown>): string => (result.ok ? 'ok' : result.error.code);

test('files are written, edited, read, listed and searched', async () => {
  const path = 'out/plan.txt';
  const written = await run('fs/write_file', { path, content: 'one\ntwo\n' });
  expect(written).toMatchObject({ path, created: true, chain: ['fs/write_file', 'function'] });
  await run('fs/edit_file', { path, old_string: 'two', new_string: 'three' });
  expect(await run('fs/read_file', { path })).toMatchObject({ content: 'one\nthree\n' });
  expect(await run('fs/list_dir', { path: 'out' })).toMatchObject({
    entries: [{ name: 'plan.txt', type: 'file', bytes: 10 }],
  });
  expect(await run('fs/glob', { pattern: 'out/**/*.txt' })).toMatchObject({ paths: [path] });
  expect(await run('fs/grep', { pattern: '^thr', regex: true, path: 'out' })).toMatchObject({
    matches: [{ path, line: 2, text: 'three' }],
  });
});

test('wrong parameters are named before anything happens', async () => {
  const result = await execute('fs/read_file', { pth: 'README.md' });
  expect(codeOf(result)).toBe('invalid_input');
  expect(JSON.stringify(result)).toContain('did you mean `path`');
});

test('items stay out of reach of file tools', async () => {
  const result = await execute('fs/write_file', { path: '.ai/policy.yaml', content: '' });
  expect(codeOf(result)).toBe('permission_denied');
});

test('another program’s model may look, but neither write nor send', async () => {
  const ask = async (id: string, parameters: JsonObject) =>
    codeOf(await execute(id, parameters, 'mcp'));
  expect(await ask('fs/read_file', { path: 'README.md' })).toBe('ok');
  expect(await ask('fs/write_file', { path: 'out/x', content: '' })).toBe('permission_denied');
  expect(await ask('http/get', { url: `${origin}/x` })).toBe('permission_denied');
  expect(await ask('llm/anthropic_messages', { messages: [] })).toBe('permission_denied');
});

test('http tools send what they are given and label what comes back', async () => {
  const got = await run('http/get', { url: `${origin}/a?b=1`, query: { c: 'd e' } });
  expect(got).toMatchObject({ status: 200, chain: ['http/get', 'http_client'] });
  expect(seen.at(-1)).toMatchObject({ method: 'GET', path: '/a?b=1&c=d+e' });
  const sent = { method: 'PUT', url: `${origin}/r`, headers: { 'X-A': '1' }, body: { n: [1] } };
  await run('http/request', sent);
  expect(seen.at(-1)).toMatchObject({ method: 'PUT', headers: { 'x-a': '1' }, body: { n: [1] } });
  const value = await runtime.kernel.execute(
    { item_type: 'tool', item_id: 'http/get', parameters: { url: `${origin}/a` } },
    runtime.caller({ surface: 'cli' }),
  );
  expect(value.ok && value.output.meta.descriptor.taint).toEqual(
    expect.arrayContaining(['src:network', 'untrusted']),
  );
});

const messages = [{ role: 'user', content: 'hello' }];

test('the Anthropic tool speaks the Messages API and keeps its key', async () => {
  const result = await run('llm/anthropic_messages', { messages, system_prompt: 'be brief' });
  expect(seen.at(-1)).toMatchObject({
    method: 'POST',
    path: '/v1/messages',
    headers: { 'x-api-key': KEY, 'anthropic-version': '2023-06-01' },
  });
  expect(seen.at(-1)?.body).toEqual({
    model: 'claude-sonnet-5-5',
    max_tokens: 4096,
    stream: false,
    system: 'be brief',
    messages,
  });
  expect(JSON.stringify(result)).not.toContain(KEY);
});

test('the OpenAI tool speaks Chat Completions and keeps its key', async () => {
  const given = { model: 'gpt-5.4', messages, max_completion_tokens: 300 };
  const result = await run('llm/openai_chat', given);
  expect(seen.at(-1)).toMatchObject({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${KEY}` },
  });
  expect(seen.at(-1)?.body).toEqual({ ...given, stream: false });
  expect(JSON.stringify(result)).not.toContain(KEY);
});

test('a streamed answer arrives event by event', async () => {
  const result = await run('llm/anthropic_messages', { messages, stream: true });
  expect(result).toMatchObject({ stream_events_count: EVENTS.length + 1 });
  expect(JSON.stringify(result.body)).toContain('delta');
});

test.each(['anthropic', 'openai'])(
  'a turn of the %s thread is streamed into its folder',
  async (name) => {
    const id = `turn_${name}`;
    const caller = { ...runtime.caller({ surface: 'cli' }), __thread_id: id };
    const parameters = { thread_id: id, messages };
    const request = { item_type: 'tool', item_id: `kept/${name}_kept`, parameters };
    const result = await runtime.kernel.execute(request, caller);
    expect(codeOf(result)).toBe('ok');
    const lines = (await readFile(join(project, `.ai/threads/${id}/stream.jsonl`), 'utf8')).trim();
    expect(lines.split('\n')).toHaveLength(EVENTS.length + 1);
    if (name === 'openai') {
      expect(seen.at(-1)?.body).toMatchObject({
        stream: true,
        stream_options: { include_usage: true },
      });
    }
  },
);

test('a stream goes to the answer, a file and the project’s own sink', async () => {
  const result = await run('demo/events', { url: `${origin}/events` });
  expect(result).toMatchObject({ stream_events_count: EVENTS.length + 1 });
  const text = await readFile(join(project, 'out/events.jsonl'), 'utf8');
  expect(text.trim().split('\n')).toHaveLength(EVENTS.length + 1);
  expect(JSON.stringify(result.stream_destinations)).toContain('tally_sink');
});

test('a chain of two ends in the project’s module', async () => {
  const text = await readFile(join(project, 'notes/release.md'), 'utf8');
  expect(await run('text/word_stats', { text })).toMatchObject({ lines: 10 });
  const headline = await run('headline_words', { text: 'lantern lantern switch switch switch a' });
  expect(headline).toMatchObject({
    frequent: [
      { word: 'switch', count: 3 },
      { word: 'lantern', count: 2 },
    ],
    chain: ['text/headline_words', 'text/word_stats', 'runtime/node', 'subprocess'],
  });
});

test('what came from the private folder does not leave', async () => {
  const caller = runtime.caller({ surface: 'cli' });
  const read = await runtime.kernel.execute(
    { item_type: 'tool', item_id: 'fs/read_file', parameters: { path: 'private/key.txt' } },
    caller,
  );
  if (!read.ok) throw new Error(read.error.detail.message);
  const before = seen.length;
  const sent = await runtime.kernel.execute(
    {
      item_type: 'tool',
      item_id: 'http/request',
      parameters: { method: 'POST', url: `${origin}/k`, body: 'x' },
      values: { body: read.output },
    },
    caller,
  );
  expect(sent.ok).toBe(false);
  expect(seen.length).toBe(before);
});

const taintOf = async (
  id: string,
  parameters: JsonObject,
  values = {},
): Promise<readonly string[]> => {
  const request = { item_type: 'tool', item_id: id, parameters, values };
  const result = await runtime.kernel.execute(request, runtime.caller({ surface: 'cli' }));
  if (!result.ok) throw new Error(JSON.stringify(result.error));
  return result.output.meta.descriptor.taint;
};

test('what a stranger wrote stays untrusted in a file, also after an edit', async () => {
  const answer = await runtime.kernel.execute(
    { item_type: 'tool', item_id: 'http/get', parameters: { url: `${origin}/a` } },
    runtime.caller({ surface: 'cli' }),
  );
  if (!answer.ok) throw new Error(answer.error.detail.message);
  const content = makeValue('from a stranger\n', { descriptor: answer.output.meta.descriptor });
  const path = 'out/foreign.txt';
  await taintOf('fs/write_file', { path, content: 'from a stranger\n' }, { content });
  expect(await taintOf('fs/read_file', { path })).toContain('untrusted');
  expect(await taintOf('fs/grep', { path, pattern: 'stranger' })).toContain('untrusted');
  await taintOf('fs/edit_file', { path, old_string: 'a stranger', new_string: 'somebody' });
  expect(await taintOf('fs/read_file', { path })).toContain('untrusted');
});

test('a stream written to a file is still from the network for whoever reads it', async () => {
  const path = '.ai/threads/turn_anthropic/stream.jsonl';
  const file = join(project, path);
  const records = createLabelRecords(join(project, '.ai/labels.jsonl'), project);
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  expect(records.recall(file, sha256)?.taint).toContain('untrusted');
  // The folder of a thread is no place for file tools.
  await expect(taintOf('fs/read_file', { path })).rejects.toThrow('permission_denied');
});

test.each('overview directives permissions limits hooks spawning mcps stuck scripts'.split(' '))(
  'help explains %s',
  async (topic) => {
    const result = await runtime.call('help', { topic });
    const text = result.ok ? getOwn(result.output, 'text') : undefined;
    expect(typeof text === 'string' && text.length > 500).toBe(true);
  },
);

test('help shows no front matter', async () => {
  const result = await runtime.call('help', { topic: 'limits' });
  expect(result.ok && getOwn(result.output, 'text')).toMatch(/^# Limits/);
});

test('nothing was written outside the project and its folders', () => {
  expect(existsSync(join(project, '.ai/threads'))).toBe(true);
  expect(existsSync(join(base, 'out'))).toBe(false);
});
