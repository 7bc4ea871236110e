// A secret stays. It comes from the environment, a file or a tool; the model reads it and tries every way
// out it can think of, in every writing. INVARIANT: it reaches no tool that sends, no child, no transcript
// and no page; one named approval lets exactly one call through.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { runCommand } from '@kernmantle/test-support/command-line';
import {
  call,
  directive,
  openStage,
  type Parts,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { serveStage } from '../../../web/tests/support/serve.ts';
import { type JsonObject, plainText } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';

let server: Server;
let url = '';
const heard: string[] = [];
beforeAll(async () => {
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      heard.push(`${request.url} ${JSON.stringify(request.headers)} ${body}`);
      const key = plainText(request.headers['x-key']);
      const forms = (['utf8', 'base64', 'hex'] as const).map((one) =>
        Buffer.from(key).toString(one),
      );
      forms.push(Buffer.from(key, 'utf16le').toString('base64'));
      response.end(request.url === '/echo' ? forms.join(' ') : 'ok');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => server.close());
beforeEach(() => {
  heard.length = 0;
});

const SECRET = 'km-canary-5f2c91d07e';
const bytes = (encoding: BufferEncoding, text: BufferEncoding = 'utf8') =>
  Buffer.from(SECRET, text).toString(encoding);
/** As a model could write it. */
const WRITINGS: Readonly<Record<string, string>> = {
  'as it is': SECRET,
  base64: bytes('base64'),
  hex: bytes('hex'),
  'an address': SECRET.split('')
    .map((one) => `%${one.charCodeAt(0).toString(16)}`)
    .join(''),
  'UTF-16': bytes('base64', 'utf16le'),
  'turned round': SECRET.split('').reverse().join(''),
  'other words': 'it begins with km and ends with 7e',
};

const own = (id: string, more: string) => ({
  [`.ai/tools/own/${id}.yaml`]: `tool_id: ${id}\ndescription: a test\n${more}\n`,
});
const FILES: Record<string, string> = {
  ...own(
    'locker',
    'executor_id: fs/read_file\nlabels: [secret]\nrequires: [fs.read]\neffect: read\nparameters: [{ name: path, type: string, default: notes/locked.txt, role: path }]',
  ),
  ...own(
    'give',
    `executor_id: script\nlabels: [secret]\neffect: read\nparameters: []\nconfig: { script: '/return { "key": "${SECRET}" }' }`,
  ),
  'notes/locked.txt': SECRET,
  '../home/policy.yaml': 'hosts: ["127.0.0.1"]\nunsigned: allow\n',
};
const PARTS: Parts = {
  permissions: [
    '<read resource="filesystem" path="**"/><write resource="filesystem" path="out/**"/>',
    '<execute resource="tool" id="own/*"/><execute resource="tool" id="fs/*"/><execute resource="tool" id="http/*"/><execute resource="tool" id="git/*"/><execute resource="net" action="http"/>',
    '<execute resource="kernmantle" action="*"/><orchestration enabled="true"/>',
  ].join(''),
  limits: '<turns>20</turns>',
};

type Call = ReturnType<typeof call>;
const SOURCES: Readonly<Record<string, Call>> = {
  'a file that is declared secret': call('own/locker'),
  'a tool that is declared secret': call('own/give'),
};
const post = (body: string, more: JsonObject = {}): Call =>
  call('http/request', { method: 'POST', url, body, ...more });
const turns = (...calls: readonly Call[]): ScriptedReply[] => [
  ...calls.map((one) => ({ tool_calls: [one] })),
  { text: 'done' },
];
const open = (calls: readonly Call[], more: Record<string, string> = {}, play = {}) =>
  openStage({ ...directive('lead', PARTS), ...FILES, ...more }, { lead: turns(...calls), ...play });
const resultsOf = async ({ threads }: Stage, id: string): Promise<JsonObject[]> => {
  const events = await threads.store.read(id);
  const all = events.ok ? events.output : [];
  return all.flatMap(({ type, data }) => (type === 'tool_result' ? [data] : [])).slice(1);
};

describe.each(Object.entries(SOURCES))('from %s', (_source, read) => {
  test.each(Object.entries(WRITINGS))('it is not sent, written %s', async (_writing, text) => {
    const made = await open([
      read,
      post(text),
      post('x', { query: { k: text } }),
      post('x', { headers: { 'x-k': text } }),
      call('http/get', { url: `${url}?k=${encodeURIComponent(text)}` }),
    ]);
    const { status, thread_id } = await run(made, 'lead');
    const results = await resultsOf(made, thread_id);
    expect(results.slice(1).map(({ is_error }) => is_error)).toEqual([true, true, true, true]);
    expect(JSON.stringify(results[1])).toContain('secrets do not leave');
    expect(status).toBe('completed');
    expect(heard).toEqual([]);
  });

  test('it is not sent in pieces', async () => {
    const pieces = SECRET.split('').map((one) => post(one));
    const made = await open([read, ...pieces.slice(0, 12)]);
    await run(made, 'lead');
    expect(heard).toEqual([]);
  });

  test('it is not sent by a child that was told it', async () => {
    const made = await open(
      [read, spawn('helper', { wait_ms: 30_000, message: `it is ${SECRET}` })],
      directive('helper', PARTS),
      { helper: turns(post('x'), post(SECRET)) },
    );
    const { thread_id } = await run(made, 'lead');
    expect(JSON.stringify(await resultsOf(made, thread_id))).not.toContain(SECRET);
    expect(heard).toEqual([]);
  });

  test('it is not sent out of a file that it was written to, by another thread', async () => {
    const write = call('fs/write_file', { path: 'out/k.txt', content: SECRET });
    const made = await open([read, write], directive('next', PARTS), {
      next: turns(call('fs/read_file', { path: 'out/k.txt' }), post(SECRET)),
    });
    await run(made, 'lead');
    await run(made, 'next');
    expect(heard).toEqual([]);
  });

  test('it stands in no transcript, audit row, approval or provenance', async () => {
    const made = await open([read, post(SECRET), post(bytes('base64'))]);
    const { thread_id } = await run(made, 'lead');
    const shown = async (...words: string[]) =>
      (await runCommand(words, made.fixture.root, made.fixture.env)).output;
    const told = [
      JSON.stringify(await resultsOf(made, thread_id)),
      await shown('threads', 'show', thread_id),
      await shown('provenance', thread_id),
      await shown('provenance', thread_id, '--json'),
      await shown('audit', '--thread', thread_id, '--json'),
      await shown('approvals', 'ls', '--all', '--json'),
    ];
    for (const text of told) {
      for (const form of [SECRET, bytes('base64'), bytes('hex')]) expect(text).not.toContain(form);
    }
  });
});

test('a variable of the environment does not come back from where it was sent, in any writing', async () => {
  const made = await openStage(
    {
      ...directive('lead', PARTS),
      ...FILES,
      ...own(
        'echo',
        `executor_id: http_client\neffect: read\nrequires: [net.http]\nenv: [SERVICE_TOKEN]\nparameters: []\nconfig: { method: GET, url: "${url}echo", headers: { x-key: "\${SERVICE_TOKEN}" } }`,
      ),
    },
    {
      lead: [
        { tool_calls: [call('own/echo')] },
        // Whatever it was told, it sends on.
        ({ body }) => ({ tool_calls: [post(JSON.stringify(body))] }),
        { text: 'done' },
      ],
    },
  );
  made.fixture.env.SERVICE_TOKEN = SECRET;
  const { thread_id } = await run(made, 'lead');
  const [first] = await resultsOf(made, thread_id);
  expect(first).toMatchObject({ tool: 'own/echo', is_error: false });
  const told = JSON.stringify(await resultsOf(made, thread_id));
  const sent = heard.filter((one) => !one.startsWith('/echo')).join('\n');
  for (const form of [SECRET, bytes('base64'), bytes('hex'), WRITINGS['UTF-16'] ?? '']) {
    expect(told).not.toContain(form);
    expect(sent).not.toContain(form);
  }
});

test('it stands on no page: neither the thread nor its events, approvals and provenance', async () => {
  const made = await open(
    [
      call('own/give'),
      post(SECRET),
      call('fs/write_file', { path: 'out/k.txt', content: bytes('base64') }),
    ],
    directive('lead', {
      ...PARTS,
      guards: '<guard on="op:tool:fs/write_file"><ask>may it?</ask></guard>',
    }),
  );
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('waiting');
  const served = await serveStage(made);
  const asked = await made.threads.store.approvals({ state: 'pending' });
  const [approval] = asked.ok ? asked.output : [];
  for (const path of [
    `threads/${thread_id}`,
    `threads/${thread_id}/events`,
    `threads/${thread_id}/provenance`,
    'approvals',
    `approvals/${approval?.id}`,
    `approvals/${approval?.id}/argument?name=content`,
  ]) {
    const { answer } = await served.get(path);
    const text = JSON.stringify(answer);
    expect([path, answer.ok], text).toEqual([path, true]);
    for (const form of [SECRET, bytes('base64'), bytes('hex')]) expect(text).not.toContain(form);
  }
});

test('it is not sent through a reference, whole, in a text or by a field', async () => {
  const made = await openStage(
    {
      ...directive('lead', PARTS),
      ...FILES,
      ...own(
        'both',
        `executor_id: script\nlabels: [secret, untrusted]\neffect: read\nparameters: []\nconfig: { script: '/return { "key": "${SECRET}" }' }`,
      ),
      '../home/policy.yaml': 'hosts: ["127.0.0.1"]\nunsigned: allow\nuntrusted: reference\n',
    },
    { lead: turns(call('own/both'), post('$r1'), post('it is $r1'), post('$r1.key')) },
  );
  const { thread_id } = await run(made, 'lead');
  const [first, ...sent] = await resultsOf(made, thread_id);
  expect(first).toMatchObject({ tool: 'own/both', is_error: false });
  expect(sent.map(({ is_error }) => is_error)).toEqual([true, true, true]);
  expect(JSON.stringify(sent)).toContain('secrets do not leave');
  expect(JSON.stringify(made.provider.requests.map(({ body }) => body))).not.toContain(SECRET);
  expect(heard).toEqual([]);
});

test('one named approval lets exactly one call through', async () => {
  const made = await open(
    [SOURCES['a tool that is declared secret'] as Call, post('first'), post('second')],
    {
      '../home/policy.yaml':
        'hosts: ["127.0.0.1"]\nunsigned: allow\nrules: { no-secret-exfil: ask }\n',
    },
  );
  const { status, thread_id } = await run(made, 'lead');
  expect(status).toBe('waiting');
  const asked = await made.threads.store.approvals({ state: 'pending' });
  const [row] = asked.ok ? asked.output : [];
  // A secret is not for people either.
  expect(row?.shown).toMatchObject({
    operation: 'tool http/request',
    arguments: { body: '[secret]' },
  });
  await made.threads.store.decide(row?.id ?? '', {
    decision: 'approved',
    who: 'ann',
    channel: 'cli',
    why: '',
  });
  const again = await made.threads.resume(thread_id);
  expect(again.ok && again.output.status).toBe('waiting');
  expect(heard).toHaveLength(1);
});
