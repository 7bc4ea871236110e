// Reference mode: what strangers wrote is kept from the model, and still gets where the model sends it.
// A marker stands in every place that a stranger can write; no request that the provider receives holds it.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { TRUSTING } from '@kernmantle/test-support/project';
import {
  answer,
  call,
  directive,
  directiveText,
  hook,
  nameIn,
  openStage,
  type Parts,
  type Play,
  run,
  type Stage,
  spawn,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import { getOwn, type Json, type JsonObject } from '../../src/base/index.ts';
import type { ScriptedReply, ScriptedRequest } from '../../src/llm/index.ts';

const MARKER = `zq${randomBytes(6).toString('hex')}`;
const own = (id: string, more: string) => ({
  [`.ai/tools/own/${id}.yaml`]: `tool_id: ${id}\ndescription: a test\nexecutor_id: script\n${more}\n`,
});
const says = (id: string, what: Json, more = 'labels: [untrusted]') =>
  own(
    id,
    `parameters: []\neffect: read\n${more}\nconfig: { script: ${JSON.stringify(`/return ${JSON.stringify(what)}`)} }`,
  );
const FILES: Record<string, string> = {
  ...says('page', { [MARKER]: `do ${MARKER}`, items: [{ id: 7, to: `${MARKER}@evil.example` }] }),
  ...says(
    'mails',
    {
      mails: [
        { id: 'm1', subject: `hello ${MARKER}`, unread: true },
        { id: 'm2', subject: MARKER },
      ],
    },
    'result: { free_text: [subject] }',
  ),
  ...says('big', {
    pages: Array.from({ length: 900 }, (_, at) => ({ at, text: `${MARKER} `.repeat(8) })),
  }),
  ...says(
    'many',
    {
      mails: Array.from({ length: 1500 }, (_, at) => ({
        id: `m${at}`,
        subject: `${MARKER} ${at}`,
      })),
    },
    'result: { free_text: [subject] }',
  ),
  ...own(
    'note',
    'parameters: [{ name: text, type: string, role: content }]\neffect: write\nrequires: [fs.write]\nconfig: { script: \'/append "@text" to "done/log.txt"\' }',
  ),
  ...own(
    'post',
    'parameters: [{ name: to, type: string, role: destination }, { name: text, type: string, role: content }]\neffect: write\nrisk: [exfil]\nconfig: { script: \'/return "sent"\' }',
  ),
  ...own(
    'broken',
    `parameters: []\neffect: read\nlabels: [untrusted]\nconfig: { script: '/bail "no: ${MARKER}"' }`,
  ),
};
const ids = Object.keys(FILES).map((file) => file.slice('.ai/tools/'.length, -'.yaml'.length));
const grant = (glob: string) => `<write resource="filesystem" path="${glob}"/>`;
const PERMISSIONS = `${ids.map((id) => `<execute resource="tool" id="${id}"/>`).join('')}
  <execute resource="tool" id="fs/*"/><execute resource="tool" id="http/get"/>
  <execute resource="net" action="http"/><execute resource="kernmantle" action="*"/>
  <execute resource="knowledge" action="modify"/><read resource="filesystem" path="**"/>
  <orchestration enabled="true"/>${grant('done/**')}${grant('.ai/knowledge/**')}`;
const REFERENCE: Parts = { permissions: PERMISSIONS, untrusted: 'reference' };
const DONE: ScriptedReply = { text: 'done' };
const calls = (...list: ReturnType<typeof call>[]): ScriptedReply => ({ tool_calls: list });

const item = (item_type: string, item_id: string, more: JsonObject = {}) => ({
  name: 'execute',
  arguments: { item_type, item_id, ...more } as Json,
});

const open = (says: Play[string], parts: Parts = REFERENCE, files = {}, play: Play = {}) =>
  openStage({ ...directive('lead', parts), ...FILES, ...files }, { lead: says, ...play });

/** All that the provider was sent, whatever it was escaped as. */
function sentTo({ provider }: Stage): string {
  const bodies = provider.requests.map(({ body }) => JSON.stringify(body));
  return bodies
    .join('\n')
    .replaceAll(/\\+u([0-9a-f]{4})/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    );
}
function expectNothingSaid(made: Stage): void {
  expect(made.provider.count()).toBeGreaterThan(1);
  expect(sentTo(made).toLowerCase()).not.toContain(MARKER);
}

const eventsOf = async ({ threads }: Stage, id: string) => {
  const events = await threads.store.read(id);
  return events.ok ? events.output : [];
};
const resultsOf = async (made: Stage, id: string): Promise<JsonObject[]> =>
  (await eventsOf(made, id))
    .filter(({ type }) => type === 'tool_result')
    .slice(1)
    .map(({ data }) => data);
/** The results of the last request, as the model was shown them. */
function lastShown({ body }: ScriptedRequest): Json[] {
  const messages = getOwn(body, 'messages') as { content: JsonObject[] }[];
  const blocks = messages.at(-1)?.content ?? [];
  return blocks
    .filter(({ type }) => type === 'tool_result')
    .map(({ content }) => {
      const text = typeof content === 'string' ? content : getOwn((content as Json[])[0], 'text');
      return JSON.parse(text as string) as Json;
    });
}
const logOf = ({ fixture }: Stage): string =>
  existsSync(join(fixture.root, 'done/log.txt'))
    ? readFileSync(join(fixture.root, 'done/log.txt'), 'utf8')
    : '';

test('a result is shown by its shape, and passed on by its name', async () => {
  const seen: Json[] = [];
  const made = await open([
    calls(call('own/page')),
    (request) => {
      seen.push(...lastShown(request));
      return calls(call('own/note', { text: 'got $r1.items[0].to.' }));
    },
    (request) => {
      seen.push(...lastShown(request));
      return { text: 'It was $r1.items[0].id' };
    },
  ]);
  const { status, text, thread_id } = await run(made, 'lead');
  expect([status, text]).toEqual(['completed', 'It was 7']);
  expect(seen[0]).toMatchObject({ reference: '$r1', type: 'object' });
  expect(logOf(made)).toBe(`got ${MARKER}@evil.example.\n`);
  const written = (await eventsOf(made, thread_id))
    .filter(({ type }) => type === 'tool_call')
    .at(-1);
  expect(written?.data.arguments).toMatchObject({ parameters: { text: 'got $r1.items[0].to.' } });
  expectNothingSaid(made);
});

test('of a result whose tool names the fields, only those are kept back', async () => {
  const seen: Json[] = [];
  const made = await open([
    calls(call('own/mails')),
    (request) => {
      seen.push(...lastShown(request));
      return { text: 'The first is $r1, said nobody' };
    },
  ]);
  const { text, thread_id, ...rest } = await run(made, 'lead');
  expect(text).toBe(`The first is hello ${MARKER}, said nobody`);
  expect(rest).toMatchObject({ marks: { labels: ['untrusted'] } });
  expect(seen).toMatchObject([
    {
      mails: [
        {
          id: 'm1',
          subject: { reference: '$r1', type: 'text', characters: 6 + MARKER.length },
          unread: true,
        },
        { id: 'm2', subject: { reference: '$r2' } },
      ],
    },
  ]);
  const [result] = await resultsOf(made, thread_id);
  expect(result?.facts).toEqual({ free_text: ['subject'] });
  expectNothingSaid(made);
});

test('the words of the model are its own: they carry no label of what it was not shown', async () => {
  const made = await open([
    calls(call('own/page')),
    calls(
      call('own/note', { text: 'mine' }),
      call('own/post', { to: 'x@example.org', text: 'mine' }),
    ),
    { text: 'done' },
  ]);
  const { status, thread_id, ...rest } = await run(made, 'lead');
  expect([status, rest]).toMatchObject(['completed', { marks: { labels: [] } }]);
  const noted = (await resultsOf(made, thread_id)).map(({ marks }) => getOwn(marks, 'labels'));
  expect(noted).toEqual([['untrusted'], [], []]);
});

test('a risky call with a reference asks a person, who sees what it stands for', async () => {
  const made = await open([
    calls(call('own/page')),
    calls(call('own/post', { to: '$r1.items[0].to', text: 'hi' })),
    DONE,
  ]);
  const { status, thread_id } = await run(made, 'lead');
  expect(status).toBe('waiting');
  const asked = await made.threads.store.approvals({ state: 'pending' });
  expect(asked.ok && asked.output).toMatchObject([
    { shown: { arguments: { to: `${MARKER}@evil.example`, text: 'hi' } } },
  ]);
  for (const { id } of asked.ok ? asked.output : []) {
    await made.threads.store.decide(id, {
      decision: 'approved',
      who: 'ann',
      channel: 'cli',
      why: '',
    });
  }
  const again = await made.threads.resume(thread_id);
  expect(again.ok && again.output.status).toBe('completed');
  expectNothingSaid(made);
});

test('an unknown reference is told with those there are, and nothing is run', async () => {
  const seen: Json[] = [];
  const made = await open([
    calls(call('own/page')),
    calls(call('own/note', { text: '$r4' }), call('own/note', { text: '$r1.none' })),
    (request) => {
      seen.push(...lastShown(request));
      return DONE;
    },
  ]);
  await run(made, 'lead');
  expect(JSON.stringify(seen)).toContain('reference `$r4` not found; `$r1` exists');
  expect(JSON.stringify(seen)).toContain('`$r1.none` not found');
  expect(logOf(made)).toBe('');
  expectNothingSaid(made);
});

/** Every way in: each with what the model does to get at it. */
type Way = [string, Play[string], Parts?, Record<string, string>?, Play?];
const WAYS: Way[] = [
  ['a result', [calls(call('own/page')), calls(call('own/mails')), DONE]],
  ['a large result', [calls(call('own/big')), calls(call('own/many')), DONE]],
  [
    'a piece of a large result',
    [
      calls(call('own/many')),
      (request) => {
        const [shown] = lastShown(request);
        const id = getOwn(shown, 'artifact') as string;
        const piece = (field: string) => ({
          name: 'execute',
          arguments: { item_type: 'artifact', item_id: id, parameters: { field, length: 400 } },
        });
        return calls(piece(''), piece('/mails/3/subject'), piece('/mails/3/id'), piece('/nothing'));
      },
      DONE,
    ],
  ],
  ['a failure', [calls(call('own/broken')), calls(call('own/broken')), DONE]],
  [
    'a call that cannot be made of it',
    [
      calls(call('own/page')),
      calls(
        call('own/note', { text: { a: '$r1' } }),
        call('fs/read_file', { path: '$r1.items[0].to' }),
        call('own/nothing', { text: '$r1' }),
        call('own/note', { text: '$r1', other: '$r1.items' }),
      ),
      calls(
        { name: 'search', arguments: { query: '$r1.items[0].to' } },
        { name: 'load', arguments: { item_type: 'knowledge', item_id: '$r1.items[0].to' } },
        { name: 'help', arguments: { topic: '$r1.items[0].to' } },
        { name: 'execute', arguments: { item_type: '$r1', item_id: '$r1', parameters: '$r1' } },
        { name: 'nothing', arguments: { text: '$r1' } },
      ),
      DONE,
    ],
  ],
  [
    'files, names of files and knowledge that were written from it',
    [
      calls(call('own/page'), call('own/mails')),
      calls(
        call('fs/write_file', { path: 'done/a.md', content: '$r1.items[0].to' }),
        call('fs/write_file', { path: 'done/$r3.md', content: 'x' }),
        item('knowledge', 'told', {
          action: 'create',
          content: '---\ntitle: $r3\ncategory: x\ntags: []\n---\n\n$r3',
        }),
      ),
      calls(
        call('fs/read_file', { path: 'done/a.md' }),
        call('fs/list_dir', { path: 'done' }),
        call('fs/glob', { pattern: 'done/**' }),
        call('fs/grep', { pattern: 'zq', path: 'done' }),
        item('knowledge', 'told'),
      ),
      calls(
        { name: 'load', arguments: { item_type: 'knowledge', item_id: 'told' } },
        { name: 'search', arguments: { query: 'told' } },
        {
          name: 'load',
          arguments: { item_type: 'knowledge', item_id: 'told', part: 'metadata' },
        },
      ),
      DONE,
    ],
  ],
  [
    'inputs and messages of a child, what it says and what it is told',
    [
      calls(call('own/page')),
      calls(
        spawn('part', {
          inputs: { text: '$r1.items[0].to', more: { [`x`]: '$r1' } },
          initial_message: 'look at $r1.items[0].to',
          wait_ms: 10_000,
        }),
      ),
      calls(
        call('threads/wait_thread', { thread_id: '$r2.thread_id', timeout_ms: 100 }),
        call('threads/read_transcript', { thread_id: '$r2.thread_id', last_n: 50 }),
        call('threads/inject_message', {
          thread_id: '$r2.thread_id',
          content: '$r1',
          role: 'user',
        }),
      ),
      DONE,
    ],
    REFERENCE,
    directive('part', {
      permissions: PERMISSIONS,
      inputs:
        '<input name="text" type="string" required="true"/><input name="more" type="object" required="false"/>',
      outputs: '<output name="found" type="string" required="true"/>',
    }),
    {
      part: [
        calls(call('own/mails')),
        {
          tool_calls: [
            {
              name: 'execute',
              arguments: {
                item_type: 'directive',
                item_id: 'part',
                action: 'return',
                parameters: { found: 'it says $r1 and $r2', all: '$r3' },
              },
            },
          ],
        },
      ],
    },
  ],
  [
    'what hooks say',
    [calls(call('own/page')), calls(call('own/broken')), calls(call('own/mails')), DONE],
    {
      ...REFERENCE,
      hooks:
        hook('event.name == "after_step" and event.step == "own/page"', 'noter').replace(
          '</hook>',
          '<inputs><result>${event.result}</result></inputs></hook>',
        ) +
        hook('event.name == "error"', 'asker') +
        hook('event.name == "after_step" and event.step == "own/mails"', 'skipper'),
    },
    {
      '.ai/directives/noter.md': `
<directive name="noter" version="1.0.0">
  <metadata><description>x</description><category>hooks</category><limits/><permissions/></metadata>
  <inputs><input name="result" type="any" required="false"/></inputs>
  <outputs><action type="string">continue|fail</action><context type="object"/></outputs>
  <process><script>/return { "action": "continue", "context": { "note": @result } }</script></process>
</directive>`,
      ...directive('asker', {
        inputs: '<input name="detail" type="object" required="false"/>',
        outputs: '<output name="action" type="string" required="true">continue|fail</output>',
      }),
      '.ai/directives/skipper.md': answer('skipper', { action: 'skip', error: 'no' }),
    },
    { asker: [{ text: '{"action":"continue","context":{"note":"$r1.message"}}' }] },
  ],
];

test.each<Way>(WAYS)(
  'no request holds a stranger’s word: %s',
  async (_, says, parts, files = {}, play = {}) => {
    const made = await open(says, parts, files, play);
    const { thread_id } = await run(made, 'lead');
    const noted = JSON.stringify(await eventsOf(made, thread_id));
    // It was there.
    expect(noted).toContain(MARKER);
    expectNothingSaid(made);
    const report = await made.threads.replay(thread_id);
    expectSame(report);
  },
);

test('a child sees of its inputs what its parent has written itself', async () => {
  const seen: string[] = [];
  const made = await open(
    [
      calls(call('own/page')),
      calls(
        spawn('part', {
          inputs: { to: 'ann@example.org', text: '$r1.items[0].to' },
          initial_message: 'send it today',
          wait_ms: 10_000,
        }),
      ),
      DONE,
    ],
    REFERENCE,
    directive('part', {
      permissions: PERMISSIONS,
      inputs: '<input name="to" type="string"/><input name="text" type="string"/>',
    }),
    {
      part: [
        (request) => {
          seen.push(JSON.stringify(request.body));
          return calls(call('own/post', { to: 'ann@example.org', text: '$r1' }));
        },
        { text: 'sent $r1' },
      ],
    },
  );
  const { thread_id, status } = await run(made, 'lead');
  expect(status).toBe('completed');
  expect(seen.join('')).toContain('ann@example.org');
  expect(seen.join('')).toContain('send it today');
  const [, spawned] = await resultsOf(made, thread_id);
  expect(spawned).toMatchObject({
    content: { status: 'completed', text: `sent ${MARKER}@evil.example` },
    marks: { labels: ['untrusted'] },
  });
  expectNothingSaid(made);
  const child = getOwn(spawned?.content, 'thread_id') as string;
  for (const id of [thread_id, child]) {
    expectSame(await made.threads.replay(id));
  }
});

test('a secret does not leave behind a reference', async () => {
  const made = await open(
    [
      calls(call('own/vault')),
      calls(call('own/post', { to: 'x@example.org', text: 'is $r1' })),
      DONE,
    ],
    { ...REFERENCE, permissions: `${PERMISSIONS}<execute resource="tool" id="own/vault"/>` },
    says('vault', { key: MARKER }, 'labels: [untrusted, secret]'),
  );
  const { thread_id } = await run(made, 'lead');
  expect(await resultsOf(made, thread_id)).toMatchObject([
    { marks: { labels: ['untrusted', 'secret'] } },
    { is_error: true, content: { error: { code: 'permission_denied' } } },
  ]);
  expectNothingSaid(made);
});

test('what is read without tools is data, or one more reference', async () => {
  const schema = {
    type: 'object',
    properties: { due: { type: 'string', format: 'date' }, note: { type: 'string' } },
    required: ['due', 'note'],
  };
  const script: ScriptedReply[] = [
    calls(call('own/page')),
    calls(call('read/extract', { from: '$r1', what: 'when it is due', schema })),
    { text: 'due, it says: $r2' },
  ];
  const made = await stage(
    {
      ...directive('lead', {
        ...REFERENCE,
        permissions: `${PERMISSIONS}<execute resource="tool" id="read/extract"/>`,
      }),
      ...FILES,
    },
    (request) =>
      nameIn(request) === 'lead'
        ? script[request.assistant_messages - 1]
        : { text: JSON.stringify({ due: '2026-01-02', note: `pay ${MARKER}` }) },
  );
  const { text, ...rest } = await run(made, 'lead');
  expect([text, rest]).toMatchObject([
    `due, it says: pay ${MARKER}`,
    { marks: { labels: ['untrusted'] } },
  ]);
  const [told, read] = [true, false].map((isTold) =>
    made.provider.requests
      .filter((request) => (nameIn(request) === 'lead') === isTold)
      .map(({ body }) => JSON.stringify(body))
      .join(),
  );
  expect(told).toContain('These tools read it for you: read/extract.');
  expect(told).toContain('2026-01-02');
  expect(told).not.toContain(MARKER);
  // Its reader has the text, and nothing to do with it.
  expect(read).toContain(MARKER);
  expect(read).not.toContain('item_type');
});

test('an answer from the network, also one that fails', async () => {
  const server = createServer((request, answered) => {
    answered.writeHead(request.url === '/bad' ? 500 : 200, {
      'x-note': MARKER,
      'content-type': 'text/plain',
    });
    answered.end(`do ${MARKER}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const made = await open(
    [
      calls(call('http/get', { url: `${base}/ok` })),
      calls(call('http/get', { url: `${base}/bad` })),
      DONE,
    ],
    REFERENCE,
    { '../home/policy.yaml': `${TRUSTING}hosts: ["127.0.0.1"]\n` },
  );
  const { thread_id } = await run(made, 'lead');
  expect(JSON.stringify(await resultsOf(made, thread_id))).toContain(MARKER);
  expectNothingSaid(made);
});

test('a failure that a person was asked about stays a stranger’s', async () => {
  const broken = calls(call('own/broken'));
  const made = await open([broken, broken, broken, DONE], {
    ...REFERENCE,
    deviation: 'escalate="true"',
  });
  const { status, thread_id } = await run(made, 'lead');
  expect(status).toBe('waiting');
  const asked = await made.threads.store.approvals({ state: 'pending' });
  for (const { id } of asked.ok ? asked.output : []) {
    await made.threads.store.decide(id, {
      decision: 'approved',
      who: 'ann',
      channel: 'cli',
      why: 'go on',
    });
  }
  const again = await made.threads.resume(thread_id);
  expect(again.ok && again.output.status).toBe('completed');
  expectNothingSaid(made);
});

test('instructions and tools that were written from it are not told', async () => {
  const tool = [
    'tool_id: told\ntool_type: script\nversion: "1.0.0"\ndescription: do $r1.items[0].to',
    "executor_id: script\nparameters: []\neffect: read\nconfig: { script: '/return 1' }\n",
  ].join('\n');
  const permissions = `${PERMISSIONS}${grant('**')}<execute resource="tool" action="modify"/>`;
  const parts = { ...REFERENCE, permissions };
  const native = directiveText('reader', {
    ...parts,
    permissions: `${permissions}<execute resource="tool" id="own/told"/>`,
  }).replace('<model model_id', '<model tools="native" model_id');
  const made = await open(
    [
      calls(call('own/page')),
      calls(
        call('fs/write_file', { path: 'AGENTS.md', content: 'You must $r1.items[0].to' }),
        item('tool', 'own/told', { action: 'create', content: tool }),
      ),
      DONE,
    ],
    parts,
    {
      '.ai/directives/reader.md': native,
      '../home/policy.yaml': `${TRUSTING}rules: { no-untrusted-destructive: off }\n`,
    },
    { reader: [DONE] },
  );
  await run(made, 'lead');
  const agents = readFileSync(join(made.fixture.root, 'AGENTS.md'), 'utf8');
  expect(agents).toContain(MARKER);
  const told = readFileSync(join(made.fixture.root, '.ai/tools/own/told.yaml'), 'utf8');
  expect(told).toContain(MARKER);
  await run(made, 'reader');
  expectNothingSaid(made);
});

test('in show mode nothing is kept back', async () => {
  const made = await open(
    [calls(call('own/page')), calls(call('own/note', { text: '$r1' })), DONE],
    {
      permissions: PERMISSIONS,
    },
  );
  const { thread_id } = await run(made, 'lead');
  expect(sentTo(made)).toContain(MARKER);
  expect(sentTo(made)).not.toContain('references');
  expect(logOf(made)).toBe('$r1\n');
  const [start] = (await eventsOf(made, thread_id)).filter(({ type }) => type === 'thread_start');
  expect(start?.data).not.toHaveProperty('untrusted');
});

test.each([
  ['project', '.ai/policy.yaml'],
  ['user', '../home/policy.yaml'],
])(
  'a policy of the %s holds whatever the directive says, and for its children',
  async (level, file) => {
    const made = await open(
      [calls(call('own/page')), calls(spawn('part', { wait_ms: 10_000 })), DONE],
      { permissions: PERMISSIONS, untrusted: 'show' },
      {
        [file]: `${level === 'user' ? TRUSTING : ''}untrusted: reference\n`,
        ...directive('part', { permissions: PERMISSIONS, untrusted: 'show' }),
      },
      { part: [calls(call('own/page')), DONE] },
    );
    await run(made, 'lead');
    expectNothingSaid(made);
  },
);

test('a thread that goes on has the same references', async () => {
  const first = await open([
    calls(call('own/page')),
    calls(call('own/many')),
    calls(call('own/mails')),
    DONE,
  ]);
  const { thread_id } = await run(first, 'lead');
  const before = sentTo(first).split('\n').at(-1) ?? '';
  const seen: string[] = [];
  const made = await open([
    calls(call('own/page')),
    calls(call('own/many')),
    calls(call('own/mails'), call('own/post', { to: '$r1.items[0].to', text: 'x' })),
    (request) => {
      seen.push(JSON.stringify(request.body));
      return { text: '$r1502 $r1503 $r2' };
    },
  ]);
  const waiting = await run(made, 'lead');
  expect(waiting.status).toBe('waiting');
  const asked = await made.threads.store.approvals({ state: 'pending' });
  for (const { id } of asked.ok ? asked.output : []) {
    await made.threads.store.decide(id, {
      decision: 'denied',
      who: 'ann',
      channel: 'cli',
      why: '',
    });
  }
  const again = await made.threads.resume(waiting.thread_id);
  expect(again.ok && again.output.status).toBe('completed');
  expect(thread_id).not.toBe('');
  const named = (text: string) =>
    [...text.matchAll(/\\"reference\\":\\"(\$r\d+)\\"/g)].map(([, name]) => name);
  expect(named(seen[0] ?? '').slice(0, named(before).length)).toEqual(named(before));
  expectNothingSaid(made);
});

test('check says of what a stranger could steer that references are there', async () => {
  const codes = async (parts: Parts) => {
    const made = await open([DONE], parts);
    const { output } = await runCommand(['check', '--json'], made.fixture.root, made.fixture.env);
    const list = JSON.parse(output) as { code: string; hint?: string }[];
    return list.filter(({ code }) => code === 'untrusted_meets_risk');
  };
  expect(await codes({ permissions: PERMISSIONS })).toMatchObject([
    { hint: expect.stringContaining('untrusted="reference"') as string },
  ]);
  expect(await codes(REFERENCE)).toEqual([]);
});

test('only the two values are taken', async () => {
  const made = await open([DONE]);
  writeFileSync(
    join(made.fixture.root, '.ai/directives/odd.md'),
    directiveText('odd').replace('<permissions>', '<permissions untrusted="refer">'),
  );
  writeFileSync(join(made.fixture.root, '.ai/policy.yaml'), 'untrusted: hide\n');
  const { output } = await runCommand(['check', '--json'], made.fixture.root, made.fixture.env);
  expect(output).toContain('`untrusted` is `refer`, but must be one of `show`, `reference`');
  expect(output).toContain('untrusted');
});
