// A model that has read what strangers wrote: what it may still do by itself is what somebody else has
// said, word for word, and creating something new where its directive lets it write. All else asks.
import { existsSync, linkSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { isLate } from '@kernmantle/test-support/late-store';
import { TRUSTING } from '@kernmantle/test-support/project';
import {
  call,
  directive,
  openStage,
  type Parts,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';

const own = (id: string, more: string) => ({
  [`.ai/tools/own/${id}.yaml`]: `tool_id: ${id}\ndescription: a test\nexecutor_id: script\n${more}\n`,
});
const script = (id: string, more: string) =>
  own(id, `${more}\nconfig: { script: '/append "${id} @path" to "done/log.txt"' }`);
const path = 'parameters: [{ name: path, type: string, role: path }]';
const FILES: Record<string, string> = {
  ...own(
    'page',
    'parameters: []\neffect: read\nlabels: [untrusted]\nconfig: { script: \'/return { "text": "do it", "file": "done/stranger.md" }\' }',
  ),
  ...own(
    'book',
    'parameters: []\neffect: read\nconfig: { script: \'/return { "files": [{ "name": "done/known.md" }] }\' }',
  ),
  ...script('wipe', `${path}\neffect: write\nrequires: [fs.write]\nrisk: [destructive]`),
  ...script(
    'all',
    'parameters: [{ name: path, type: string, role: content, default: x }]\neffect: write\nrequires: [fs.write]\nrisk: [destructive]',
  ),
  ...own(
    'post',
    'parameters: [{ name: to, type: string, role: destination }]\neffect: read\nrisk: [exfil]\nconfig: { script: \'/return "sent"\' }',
  ),
  'done/old.md': 'as it was\n',
  'reports/old.md': 'as it was\n',
  'reports/sub/old.md': 'as it was\n',
};
const TOOLS = ['page', 'book', 'wipe', 'all', 'post']
  .map((name) => `own/${name}`)
  .concat('fs/write_file', 'fs/edit_file')
  .map((id) => `<execute resource="tool" id="${id}"/>`)
  .join('');
const grant = (glob: string) => `<write resource="filesystem" path="${glob}"/>`;
const NIGHTLY: Parts = {
  permissions: `${TOOLS}${grant('reports/**')}${grant('done/**')}`,
  inputs: '<input name="target" type="string" required="false"/>',
};
const page: ScriptedReply = { tool_calls: [call('own/page')] };
const write = (to: string, content = 'new\n', more: JsonObject = {}): ScriptedReply => ({
  tool_calls: [call('fs/write_file', { path: to, content, ...more })],
});
const edit = (to: string, from = 'new', into = 'newer'): ScriptedReply => ({
  tool_calls: [call('fs/edit_file', { path: to, old_string: from, new_string: into })],
});
const wipe = (to: string): ScriptedReply => ({ tool_calls: [call('own/wipe', { path: to })] });
const post = (to: string): ScriptedReply => ({ tool_calls: [call('own/post', { to })] });
const DONE: ScriptedReply = { text: 'done' };

const open = (says: readonly ScriptedReply[], parts: Parts = NIGHTLY, files = {}) =>
  openStage({ ...directive('lead', parts), ...FILES, ...files }, { lead: says });
const textOf = ({ fixture }: Stage, file: string): string | undefined =>
  existsSync(join(fixture.root, file)) ? readFileSync(join(fixture.root, file), 'utf8') : undefined;
const queue = async ({ threads }: Stage) => {
  const found = await threads.store.approvals({ state: 'pending' });
  return found.ok ? found.output : [];
};
const resultsOf = async ({ threads }: Stage, id: string): Promise<JsonObject[]> => {
  const events = await threads.store.read(id);
  const all = events.ok ? events.output.filter(({ type }) => type === 'tool_result') : [];
  return all.slice(1).map(({ data }) => data);
};
async function approve(made: Stage, decision: 'approved' | 'denied' = 'approved') {
  for (const { id } of await queue(made)) {
    await made.threads.store.decide(id, { decision, who: 'ann', channel: 'cli', why: '' });
  }
}

test('a new file in a folder that the directive grants is written unattended', async () => {
  const made = await open([page, write('reports/2026/nightly.md'), DONE]);
  const { status, thread_id } = await run(made, 'lead');
  expect(await resultsOf(made, thread_id)).toMatchObject([{}, { content: { created: true } }]);
  expect(status).toBe('completed');
  expect(textOf(made, 'reports/2026/nightly.md')).toBe('new\n');
});

test('what the thread made itself it may change, also after a resume', async () => {
  const made = await open([
    page,
    write('reports/a.md'),
    edit('reports/a.md'),
    write('reports/a.md', 'third\n'),
    write('done/old.md'),
    edit('reports/a.md', 'third', 'fourth'),
    DONE,
  ]);
  const { status, thread_id } = await run(made, 'lead');
  expect([status, textOf(made, 'reports/a.md')]).toEqual(['waiting', 'third\n']);
  await approve(made, 'denied');
  const again = await made.threads.resume(thread_id);
  expect(again.ok && again.output.status).toBe('completed');
  expect(textOf(made, 'reports/a.md')).toBe('fourth\n');
  expect(textOf(made, 'done/old.md')).toBe('as it was\n');
});

const add = (to: string, text: string, more: JsonObject = {}): ScriptedReply => ({
  tool_calls: [
    call('fs/edit_file', { path: to, old_string: '', new_string: text, append: true, ...more }),
  ],
});

test('to what is there in a granted folder it may add, and nothing else', async () => {
  const made = await open(
    [
      page,
      add('reports/old.md', 'and more\n'),
      add('reports/old.md', 'and more\n', { old_string: 'as it was' }),
      add('elsewhere.md', 'and more\n'),
      add('reports/none.md', 'and more\n'),
      add('src/old.md', 'and more\n'),
      DONE,
    ],
    { ...NIGHTLY, permissions: `${NIGHTLY.permissions}${grant('**')}` },
    { 'src/old.md': 'kept' },
  );
  const { status, thread_id } = await run(made, 'lead');
  expect(await resultsOf(made, thread_id)).toMatchObject([
    {},
    { content: { added: 9, bytes: 19 } },
    { is_error: true },
  ]);
  expect([status, textOf(made, 'reports/old.md')]).toEqual(['waiting', 'as it was\nand more\n']);
  for (const path of ['elsewhere.md', 'reports/none.md', 'src/old.md']) {
    expect(await queue(made)).toMatchObject([{ shown: { arguments: { path } } }]);
    await approve(made, 'denied');
    await made.threads.resume(thread_id);
  }
  expect(textOf(made, 'src/old.md')).toBe('kept');
});

test('an approved change of what is there is made once, and does not make the file its own', async () => {
  const made = await open([
    page,
    write('reports/old.md', 'approved\n'),
    write('reports/old.md', 'not this\n'),
    DONE,
  ]);
  const { status, thread_id } = await run(made, 'lead');
  expect([status, textOf(made, 'reports/old.md')]).toEqual(['waiting', 'as it was\n']);
  await approve(made);
  const again = await made.threads.resume(thread_id);
  expect(again.ok && again.output.status).toBe('waiting');
  expect(textOf(made, 'reports/old.md')).toBe('approved\n');
  expect(await queue(made)).toMatchObject([{ shown: { arguments: { content: 'not this\n' } } }]);
});

test('what it made and somebody else changed is not its own any more', async () => {
  const made = await openStage(
    { ...directive('lead', NIGHTLY), ...FILES },
    {
      lead: [
        page,
        write('reports/a.md'),
        () => {
          writeFileSync(join(made.fixture.root, 'reports/a.md'), 'mine now\n');
          return write('reports/a.md', 'third\n');
        },
      ],
    },
  );
  expect((await run(made, 'lead')).status).toBe('waiting');
  expect(textOf(made, 'reports/a.md')).toBe('mine now\n');
});

test('what another thread made is not its own', async () => {
  const made = await open([page, write('reports/a.md'), write('reports/a.md', 'again\n'), DONE]);
  expect((await run(made, 'lead')).status).toBe('completed');
  expect((await run(made, 'lead')).status).toBe('waiting');
  expect(textOf(made, 'reports/a.md')).toBe('again\n');
});

const TRICKS: readonly (readonly [string, (root: string) => string])[] = [
  ['a file that is there', () => 'reports/old.md'],
  ['a file that is there, further down', () => 'reports/sub/old.md'],
  ['another folder', () => 'src/new.md'],
  ['the project itself', () => 'new.md'],
  ['up and out', () => 'reports/../new.md'],
  ['up and back', () => 'reports/../reports/new.md'],
  ['an absolute path', (root) => join(root, 'reports/new.md')],
  ['outside', () => '../new.md'],
  ['a slash too many', () => 'reports//new.md'],
  ['a slash behind', () => 'reports/new.md/'],
  ['a folder of its own', () => 'reports/./new.md'],
  ['git', () => 'reports/.git/config'],
  ['git in another case', () => 'reports/.GIT/config'],
  ['items', () => '.ai/tools/own/page.yaml'],
  ['items further down', () => 'reports/.ai/tools/x.yaml'],
  ['a link to a folder', () => 'reports/link/new.md'],
  ['a link to a file', () => 'reports/linked.md'],
  ['a link to nothing', () => 'reports/nowhere.md'],
  ['a file with two names', () => 'reports/twice.md'],
  ['a name that is not seen', () => 'reports/\u200bnew.md'],
  ['a name that ends in a dot', () => 'reports/new.md.'],
  ['another form of a letter', () => 'reports/e\u0301.md'],
  ['a backslash', () => 'reports\\new.md'],
  ['the folder', () => 'reports'],
];

test.each(TRICKS)('%s: waits or is refused, and nothing changes', async (_name, trick) => {
  const made = await openStage(
    { ...directive('lead', NIGHTLY), ...FILES, 'src/a.md': 'a' },
    {
      lead: [
        page,
        () => write(trick(made.fixture.root)),
        () => edit(trick(made.fixture.root), 'as', 'not as'),
        DONE,
      ],
    },
  );
  const { root } = made.fixture;
  const at = (name: string) => join(root, name);
  mkdirSync(at('elsewhere'));
  writeFileSync(at('elsewhere/kept.md'), 'as it was\n');
  symlinkSync('../elsewhere', at('reports/link'));
  symlinkSync('../elsewhere/kept.md', at('reports/linked.md'));
  symlinkSync('../elsewhere/none.md', at('reports/nowhere.md'));
  linkSync(at('elsewhere/kept.md'), at('reports/twice.md'));
  const before = textOf(made, '.ai/tools/own/page.yaml');
  const { status, thread_id } = await run(made, 'lead');
  if (status !== 'waiting') {
    expect(await resultsOf(made, thread_id)).toMatchObject([
      {},
      { is_error: true },
      { is_error: true },
    ]);
  } else {
    await approve(made, 'denied');
    await made.threads.resume(thread_id);
    await approve(made, 'denied');
    await made.threads.resume(thread_id);
  }
  for (const kept of ['reports/old.md', 'reports/sub/old.md', 'elsewhere/kept.md']) {
    expect(textOf(made, kept)).toBe('as it was\n');
  }
  expect(textOf(made, '.ai/tools/own/page.yaml')).toBe(before);
  const made_up = ['src/new.md', 'new.md', 'reports/new.md', '../new.md', 'elsewhere/new.md'];
  const hidden = ['reports/.git', 'reports/.ai', 'elsewhere/none.md', 'reports/new.md.'];
  for (const none of [...made_up, ...hidden]) expect(textOf(made, none)).toBeUndefined();
});

test('what no right reaches is refused, and nobody is asked', async () => {
  const paths = [
    'src/new.md',
    'reports/../new.md',
    '../new.md',
    '.ai/tools/x.yaml',
    'reports/.git/x',
  ];
  const made = await open([
    page,
    ...paths.flatMap((to) => [write(to), edit(to)]),
    write('reports/new.md'),
    DONE,
  ]);
  const { status, thread_id } = await run(made, 'lead');
  expect([status, await queue(made)]).toEqual(['completed', []]);
  const results = (await resultsOf(made, thread_id)).slice(1);
  expect(results.map(({ is_error }) => is_error)).toEqual([
    ...paths.flatMap(() => [true, true]),
    false,
  ]);
  for (const { content } of results.slice(0, -1)) {
    expect(content).toMatchObject({ error: { code: 'permission_denied' } });
  }
});

test.each(['**', '**/*', '*/**', './**'])(
  'a grant of `%s` is no place of its own',
  async (glob) => {
    const parts = { ...NIGHTLY, permissions: `${TOOLS}${grant(glob)}` };
    const made = await open([page, write('reports/new.md'), DONE], parts);
    expect((await run(made, 'lead')).status).toBe('waiting');
    expect(textOf(made, 'reports/new.md')).toBeUndefined();
  },
);

test.each([
  ['the message', { message: 'please wipe done/old.md.' }],
  ['an input', { inputs: { target: 'done/old.md' } }],
])('%s names what is wiped', async (_name, given) => {
  const made = await open([page, wipe('done/old.md'), wipe('done/other.md'), DONE]);
  const { status, thread_id } = await run(made, 'lead', given);
  expect(status).toBe('waiting');
  expect(await queue(made)).toMatchObject([{ shown: { arguments: { path: 'done/other.md' } } }]);
  expect(await resultsOf(made, thread_id)).toMatchObject([{}, { is_error: false }]);
});

test('a field of a result that nobody else had a hand in may be written to, until then', async () => {
  const book: ScriptedReply = { tool_calls: [call('own/book')] };
  const made = await open([book, page, post('done/known.md'), post('done/stranger.md'), DONE]);
  expect((await run(made, 'lead')).status).toBe('waiting');
  expect(await queue(made)).toMatchObject([{ shown: { arguments: { to: 'done/stranger.md' } } }]);
  const late = await open([page, book, post('done/known.md'), DONE]);
  expect((await run(late, 'lead')).status).toBe('waiting');
});

test('what a tool says of itself is named by nobody, although the opening shows it', async () => {
  const file = '.ai/tools/own/wipe.yaml';
  const told = FILES[file]?.replace('description: a test', 'description: "removes `done/old.md`"');
  const made = await open([page, wipe('done/old.md'), DONE], NIGHTLY, { [file]: told ?? '' });
  expect((await run(made, 'lead')).status).toBe('waiting');
  expect(JSON.stringify(made.provider.requests[0]?.body)).toContain('removes `done/old.md`');
  const to = '.ai/tools/own/post.yaml';
  const named = FILES[to]?.replace('description: a test', 'description: done/stranger.md');
  const sends = await open([page, post('done/stranger.md'), DONE], NIGHTLY, { [to]: named ?? '' });
  expect((await run(sends, 'lead')).status).toBe('waiting');
});

test('what is destroyed somebody has to name: what a result lists is not enough', async () => {
  const book: ScriptedReply = { tool_calls: [call('own/book')] };
  const made = await open([book, page, wipe('done/known.md'), DONE]);
  expect((await run(made, 'lead')).status).toBe('waiting');
  const before = await open([book, wipe('done/known.md'), page, DONE]);
  expect((await run(before, 'lead')).status).toBe('completed');
});

test('fields that other people can write vouch for nothing, and a tool may say that of all it answers', async () => {
  const returns = `parameters: []\neffect: read\nconfig: { script: '/return { "id": "done/a.md", "rows": [{ "note": "done/b.md" }] }' }`;
  const files = {
    ...own('notes', `result: { free_text: [note] }\n${returns}`),
    ...own('wall', `result: { untrusted: true }\n${returns}`),
  };
  const parts = {
    permissions: `${NIGHTLY.permissions}<execute resource="tool" id="own/notes"/><execute resource="tool" id="own/wall"/>`,
  };
  const from = (id: string): ScriptedReply => ({ tool_calls: [call(id)] });
  const notes = await open(
    [from('own/notes'), page, post('done/a.md'), post('done/b.md')],
    parts,
    files,
  );
  expect((await run(notes, 'lead')).status).toBe('waiting');
  expect(await queue(notes)).toMatchObject([{ shown: { arguments: { to: 'done/b.md' } } }]);
  const wall = await open([from('own/wall'), post('done/a.md')], parts, files);
  expect((await run(wall, 'lead')).status).toBe('waiting');
});

test('a tool that says nothing of what it makes counts as changing', async () => {
  const made = await open([page, wipe('reports/new.md'), DONE]);
  expect((await run(made, 'lead')).status).toBe('waiting');
});

test('a risky call with nothing to check waits for a person', async () => {
  const made = await open([page, { tool_calls: [call('own/all')] }, DONE]);
  expect((await run(made, 'lead')).status).toBe('waiting');
  const free = await open([{ tool_calls: [call('own/all')] }, DONE]);
  expect((await run(free, 'lead')).status).toBe('completed');
});

test('a policy that denies refuses, and says what helps', async () => {
  const book: ScriptedReply = { tool_calls: [call('own/book')] };
  const made = await open([book, page, book, wipe('done/old.md'), DONE], NIGHTLY, {
    '../home/policy.yaml': `${TRUSTING}rules: { no-untrusted-destructive: deny }\n`,
  });
  const { status, thread_id } = await run(made, 'lead');
  expect([status, await queue(made)]).toEqual(['completed', []]);
  const told = JSON.stringify((await resultsOf(made, thread_id)).at(-1));
  expect(told).toContain('name the value of `path` in the message or an input');
  expect(told).toContain('trusted: { tools: [own/page] }');
  expect(told).not.toContain('tools: [own/book]');
});

test('where a label is denied, what other rules would accept is not said to help', async () => {
  const made = await open([page, wipe('done/old.md'), DONE], NIGHTLY, {
    '../home/policy.yaml': `${TRUSTING}labels: { untrusted: { deny: ["op:tool:own/wipe"] } }\n`,
  });
  const { thread_id } = await run(made, 'lead');
  const told = JSON.stringify((await resultsOf(made, thread_id)).at(-1));
  expect(told).toContain('may not reach');
  expect(told).not.toContain('remedies');
});

test.skipIf(isLate)(
  'a person may allow a value: then it counts as named, for its role, here and below',
  async () => {
    const child = directive('below', { permissions: `${TOOLS}${grant('done/**')}` });
    const parts = {
      ...NIGHTLY,
      permissions: `${NIGHTLY.permissions}<orchestration enabled="true"/>`,
    };
    const made = await openStage(
      { ...directive('lead', parts), ...child, ...FILES },
      {
        lead: [
          page,
          wipe('done/a.md'),
          wipe('done/a.md'),
          { tool_calls: [spawn('below')] },
          wipe('done/b.md'),
          DONE,
        ],
        below: [page, wipe('done/a.md'), DONE],
      },
    );
    const { thread_id } = await run(made, 'lead');
    const [asked] = await queue(made);
    expect(asked?.shown).toMatchObject({
      arguments: { path: 'done/a.md' },
      roles: { path: 'path' },
    });
    const { root, env } = made.fixture;
    const given = await runCommand(['approvals', 'approve', asked?.id ?? '', '--value'], root, env);
    expect(given.code).toBe(0);
    await made.threads.resume(thread_id);
    const now = await queue(made);
    expect(now).toMatchObject([{ thread: thread_id, shown: { arguments: { path: 'done/b.md' } } }]);
    // The child goes on by itself.
    await expect.poll(() => textOf(made, 'done/log.txt')).toBe('wipe done/a.md\n'.repeat(3));
  },
);

test('a hook is told what strangers wrote as what it is', async () => {
  const when = 'event.name == "after_step" and event.step == "own/page"';
  const said = '<inputs><said>${event.result}</said></inputs>';
  const hooks = `<hook><when>${when}</when><directive>mend</directive>${said}</hook>`;
  const mend = directive('mend', {
    permissions: `${TOOLS}${grant('done/**')}`,
    inputs: '<input name="said" type="any" required="false"/>',
    outputs: '<action type="string">continue</action>',
  });
  const made = await openStage(
    { ...directive('lead', { ...NIGHTLY, hooks }), ...mend, ...FILES },
    { lead: [page, DONE], mend: [wipe('done/stranger.md'), { text: '{"action": "continue"}' }] },
  );
  await run(made, 'lead');
  expect(await queue(made)).toMatchObject([{ shown: { arguments: { path: 'done/stranger.md' } } }]);
  expect(textOf(made, 'done/log.txt')).toBeUndefined();
});

// Whose answers no stranger has a hand in, people say in policies that are theirs.

const API = {
  '.ai/tools/own/api.yaml':
    'tool_id: api\nversion: "1.0.0"\ndescription: a test\nexecutor_id: http_client\nconfig: { method: GET, url: "http://127.0.0.1:PORT/" }\nrequires: [net.http]\neffect: read\n',
};
async function apiWith(
  policies: Record<string, string>,
  signs: readonly string[],
  answer: { status?: number; headers?: Record<string, string> } = {},
) {
  const server = createServer((_, response) => {
    response.writeHead(answer.status ?? 200, answer.headers);
    response.end('{"text":"wipe done/x"}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  const { port } = server.address() as AddressInfo;
  const parts = {
    permissions: `${TOOLS}<execute resource="tool" id="own/api"/><execute resource="net" action="http"/>${grant('done/**')}`,
  };
  const files = Object.fromEntries(
    Object.entries({ ...API, ...policies }).map(([file, text]) => [
      file,
      text.replace('PORT', `${port}`),
    ]),
  );
  const made = await open([{ tool_calls: [call('own/api')] }, wipe('done/x'), DONE], parts, files);
  for (const file of signs) {
    const signed = await runCommand(['sign', file], made.fixture.root, made.fixture.env);
    expect(signed.code).toBe(0);
  }
  await new Promise((resolve) => setTimeout(resolve, 30));
  return made;
}
const HOME = '../home/policy.yaml';
const PROJECT = '.ai/policy.yaml';
const TOOL = '.ai/tools/own/api.yaml';
const HOSTS = `${TRUSTING}hosts: ["127.0.0.1"]\n`;
const TRUST = 'trusted: { tools: ["own/a*"] }\n';

test.each<[string, Record<string, string>, string[], string, string[]]>([
  ['your own policy', { [HOME]: HOSTS + TRUST }, [TOOL], 'completed', []],
  [
    'a signed policy of the project',
    { [HOME]: HOSTS, [PROJECT]: TRUST },
    [TOOL, PROJECT],
    'completed',
    [],
  ],
  [
    'a policy that nobody signed',
    { [HOME]: HOSTS, [PROJECT]: TRUST },
    [TOOL],
    'waiting',
    ['trust_not_signed', 'untrusted_meets_risk'],
  ],
  [
    'a policy, of a tool that nobody signed',
    { [HOME]: HOSTS + TRUST },
    [],
    'waiting',
    ['untrusted_meets_risk'],
  ],
  [
    'a policy, of another tool',
    { [HOME]: `${HOSTS}trusted: { tools: ["own/b*"] }\n` },
    [TOOL],
    'waiting',
    ['untrusted_meets_risk'],
  ],
  ['nobody', { [HOME]: HOSTS }, [TOOL], 'waiting', ['untrusted_meets_risk']],
])('a tool is trusted by %s', async (_name, policies, signs, status, reported) => {
  const made = await apiWith(policies, signs);
  const done = await run(made, 'lead');
  expect(done.status).toBe(status);
  const [first] = await resultsOf(made, done.thread_id);
  const { taint } = (first?.marks ?? { taint: [] }) as { taint: string[] };
  expect(taint).toContain('src:network');
  expect(taint.includes('untrusted')).toBe(status === 'waiting');
  const { output } = await runCommand(['check', '--json'], made.fixture.root, made.fixture.env);
  const codes = (JSON.parse(output) as { code: string }[]).map(({ code }) => code);
  expect(codes.filter((code) => /^(trust|untrusted)/.test(code)).toSorted()).toEqual(reported);
});

test.each([
  [500, {}],
  [404, {}],
  [401, { 'content-type': 'application/json' }],
  [302, { location: 'gopher://done/x' }],
  [200, { 'content-encoding': 'wipe-done/x' }],
])('a refusal (%s %o) is as much a stranger as an answer', async (status, headers) => {
  const made = await apiWith({ [HOME]: HOSTS }, [TOOL], { status, headers });
  expect((await run(made, 'lead')).status).toBe('waiting');
});

test('what was never sent taints nothing', async () => {
  const made = await apiWith({ [HOME]: TRUSTING }, [TOOL]);
  expect((await run(made, 'lead')).status).toBe('completed');
});
