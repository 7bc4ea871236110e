// A person who is asked about a write over a file sees what would change, and approves exactly that: a file
// that changed before the answer is asked about again, one that changed after it is not written.
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { scripted } from '@kernmantle/test-support/script-project';
import {
  call,
  directive,
  openStage,
  run,
  type Stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, type JsonObject } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';
import { decideApproval } from '../../src/runtime/index.ts';

const PERMISSIONS =
  '<read resource="filesystem" path="out/**"/><write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/*"/><execute resource="tool" id="own/*"/>';
const OWN = `
tool_id: save
description: writes
parameters:
  - { name: path, type: string, required: true, description: where }
  - { name: content, type: string, required: true, description: what }
executor_id: fs/write_file
`;
const open = (tool: string, parameters: JsonObject, more: readonly ScriptedReply[] = []) =>
  openStage(
    {
      ...directive('lead', { permissions: PERMISSIONS, deviation: 'ask_first="true"' }),
      '.ai/tools/own/save.yaml': OWN,
      'out/a.md': 'one\ntwo\nthree\n',
    },
    { lead: [{ tool_calls: [call(tool, parameters)] }, ...more, { text: 'done' }] },
  );
const fileOf = ({ fixture }: Stage) => join(fixture.root, 'out/a.md');
const textOf = (made: Stage) => readFileSync(fileOf(made), 'utf8');
async function pending({ threads }: Stage) {
  const found = await threads.store.approvals({ state: 'pending' });
  const [row] = found.ok ? found.output : [];
  if (!row) throw new Error('nothing is asked');
  return row;
}
const approve = ({ threads }: Stage, id: string) =>
  decideApproval(threads.store, id, {
    decision: 'approved',
    why: '',
    by: { who: 'ann', channel: 'cli' },
  });
async function goOn({ threads }: Stage, id: string) {
  const done = await threads.resume(id);
  if (!done.ok) throw new Error(done.error.detail.message);
  return done.output;
}
async function lastResult({ threads }: Stage, id: string) {
  const events = await threads.store.read(id, { types: ['tool_result'] });
  return events.ok ? events.output.at(-1)?.data : undefined;
}
async function isReplayed({ threads }: Stage, id: string) {
  const report = await threads.replay(id);
  expect(report.ok && report.output.difference).toBeUndefined();
  expectSame(report);
}

const WRITES: readonly (readonly [string, JsonObject, string, string, string])[] = [
  [
    'fs/write_file',
    { path: 'out/a.md', content: 'one\n2\nthree\nfour\n' },
    'Overwrite out/a.md (2 lines added, 1 removed)?',
    '@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four',
    'one\n2\nthree\nfour\n',
  ],
  [
    'fs/write_file',
    { path: './out/a.md', content: 'one\n' },
    'Overwrite out/a.md (2 lines removed)?',
    '@@ -1,3 +1,1 @@\n one\n-two\n-three',
    'one\n',
  ],
  [
    'fs/edit_file',
    { path: 'out/a.md', old_string: 'two', new_string: 'zwei' },
    'Edit out/a.md (1 line added, 1 removed)?',
    '@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three',
    'one\nzwei\nthree\n',
  ],
  [
    'fs/edit_file',
    { path: 'out/a.md', old_string: '', new_string: 'four\n', append: true },
    'Add to out/a.md (1 line added)?',
    '@@ -1,3 +1,4 @@\n one\n two\n three\n+four',
    'one\ntwo\nthree\nfour\n',
  ],
  [
    'own/save',
    { path: 'out/a.md', content: 'one\ntwo\nthree\nfour\n' },
    'Overwrite out/a.md (1 line added)?',
    '@@ -1,3 +1,4 @@\n one\n two\n three\n+four',
    'one\ntwo\nthree\nfour\n',
  ],
];

test.each(WRITES)(
  '%s asks with what would change: %j',
  async (tool, given, question, diff, text) => {
    const made = await open(tool, given);
    const { thread_id: id } = await run(made, 'lead');
    const { id: approval, shown } = await pending(made);
    expect(shown.question).toBe(question);
    expect(shown.because).toContain('allow it?');
    expect(getOwn(shown.file, 'diff')).toBe(diff);
    expect((await approve(made, approval)).ok).toBe(true);
    expect((await goOn(made, id)).status).toBe('completed');
    expect(textOf(made)).toBe(text);
    await isReplayed(made, id);
  },
);

test.each(WRITES)('%s does not write over what nobody saw: %j', async (tool, given) => {
  const made = await open(tool, given);
  const { thread_id: id } = await run(made, 'lead');
  const { id: approval } = await pending(made);
  expect((await approve(made, approval)).ok).toBe(true);
  writeFileSync(fileOf(made), 'one\ntwo\nsomebody else\n');
  expect((await goOn(made, id)).status).toBe('completed');
  expect(textOf(made)).toBe('one\ntwo\nsomebody else\n');
  expect(await lastResult(made, id)).toMatchObject({
    is_error: true,
    content: { error: { code: 'conflict' } },
  });
  await isReplayed(made, id);
});

test.each(WRITES)(
  '%s: a file that changed before the answer is asked about again: %j',
  async (tool, given) => {
    const made = await open(tool, given);
    const { thread_id: id } = await run(made, 'lead');
    const first = await pending(made);
    writeFileSync(fileOf(made), 'zero\none\ntwo\nthree\n');
    expect(await approve(made, first.id)).toMatchObject({
      error: { code: 'conflict', detail: { message: expect.stringContaining('out/a.md') } },
    });
    expect((await goOn(made, id)).status).toBe('waiting');
    const again = await pending(made);
    expect(again.id).toBe(first.id);
    expect(getOwn(again.shown.file, 'holds')).not.toBe(getOwn(first.shown.file, 'holds'));
    expect((await approve(made, again.id)).ok).toBe(true);
    expect((await goOn(made, id)).status).toBe('completed');
    expect(await lastResult(made, id)).toMatchObject({ is_error: false });
    await isReplayed(made, id);
  },
);

test('a file that is made after the question is not written over', async () => {
  const made = await open('fs/write_file', { path: 'out/b.md', content: 'x\n' });
  const { thread_id: id } = await run(made, 'lead');
  const { id: approval, shown } = await pending(made);
  expect(shown.question).toBe('Create out/b.md (1 line)?');
  expect((await approve(made, approval)).ok).toBe(true);
  writeFileSync(join(made.fixture.root, 'out/b.md'), 'theirs\n');
  await goOn(made, id);
  expect(readFileSync(join(made.fixture.root, 'out/b.md'), 'utf8')).toBe('theirs\n');
  expect(await lastResult(made, id)).toMatchObject({ content: { error: { code: 'conflict' } } });
});

test('a file that is too large to compare is shown by its lines', async () => {
  const made = await open('fs/write_file', { path: 'out/a.md', content: 'x\n' });
  writeFileSync(fileOf(made), 'y'.repeat(99).concat('\n').repeat(90_000));
  await run(made, 'lead');
  const { shown } = await pending(made);
  expect(shown.question).toBe('Overwrite out/a.md (90000 lines to 1 line)?');
  expect(shown.file).not.toHaveProperty('diff');
});

const SENTENCES: readonly (readonly [string, JsonObject, string])[] = [
  [
    'http/request',
    { method: 'POST', url: 'https://api.example.org/v1/x?y=1' },
    'Send an HTTP POST to api.example.org?',
  ],
  ['shell/bash', { command: 'npm test' }, 'Run `npm test` in a shell?'],
  ['shell/bash', { command: 'a\u001b[2J`b`\nc' }, 'Run `a [2J´b´ c` in a shell?'],
];
const NET = '<execute resource="net" action="http" host="api.example.org"/>';
test.each(SENTENCES)('%s %j asks: %s', async (tool, given, question) => {
  const made = await openStage(
    directive('lead', {
      permissions: `<execute resource="shell"/>${NET}<execute resource="tool" id="${tool}"/>`,
      deviation: 'ask_first="true"',
    }),
    { lead: [{ tool_calls: [call(tool, given)] }, { text: 'done' }] },
  );
  await run(made, 'lead');
  expect((await pending(made)).shown.question).toBe(question);
});

// Statements of scripts that write ask as tools do.

const openScript = (statement: string, guard = 'op:output op:append op:tool') =>
  openStage(
    {
      '.ai/directives/lead.md': scripted(
        'lead',
        [
          ...guard.split(' ').map((on) => `guard before ${on} = when [ * => ask "may it?" ]`),
          statement,
        ].join('\n'),
        { permissions: PERMISSIONS },
      ),
      'out/a.md': 'one\ntwo\nthree\n',
      'out/a.jsonl': '{"n":1}\n',
    },
    {},
  );

const STATEMENTS: readonly (readonly [string, string, string, string, string])[] = [
  [
    'output "one" to "out/a.md"',
    'out/a.md',
    'Overwrite out/a.md (1 line added, 3 removed)?',
    '@@ -1,3 +1,1 @@\n-one\n-two\n-three\n+one\n\\ No newline at end of file',
    'one',
  ],
  [
    'append "four" to "out/a.md"',
    'out/a.md',
    'Add to out/a.md (1 line added)?',
    '@@ -1,3 +1,4 @@\n one\n two\n three\n+four',
    'one\ntwo\nthree\nfour\n',
  ],
  [
    'var @row = { n: 2 }\nappend @row to "out/a.jsonl"',
    'out/a.jsonl',
    'Add to out/a.jsonl (1 line added)?',
    '@@ -1,1 +1,2 @@\n {"n":1}\n+{"n":2}',
    '{"n":1}\n{"n":2}\n',
  ],
  [
    'var @text = `one\n`\nvar @done = @tool("fs/write_file", { path: "out/a.md", content: @text })',
    'out/a.md',
    'Overwrite out/a.md (2 lines removed)?',
    '@@ -1,3 +1,1 @@\n one\n-two\n-three',
    'one\n',
  ],
];

test.each(STATEMENTS)(
  '%s asks with what would change',
  async (given, path, question, diff, text) => {
    const made = await openScript(given);
    const file = join(made.fixture.root, path);
    const { thread_id: id, ...rest } = await run(made, 'lead');
    expect(rest).toMatchObject({ status: 'waiting' });
    const { id: approval, shown } = await pending(made);
    expect(shown.question).toBe(question);
    expect(getOwn(shown.file, 'diff')).toBe(diff);
    expect((await approve(made, approval)).ok).toBe(true);
    expect((await goOn(made, id)).status).toBe('completed');
    expect(readFileSync(file, 'utf8')).toBe(text);
    await isReplayed(made, id);
  },
);

test.each(STATEMENTS)('%s does not write over what nobody saw', async (given, path) => {
  const made = await openScript(given);
  const file = join(made.fixture.root, path);
  const { thread_id: id } = await run(made, 'lead');
  const { id: approval } = await pending(made);
  expect((await approve(made, approval)).ok).toBe(true);
  writeFileSync(file, '{"by":"somebody else"}\n');
  expect(await goOn(made, id)).toMatchObject({ status: 'failed', code: 'conflict' });
  expect(readFileSync(file, 'utf8')).toBe('{"by":"somebody else"}\n');
  await isReplayed(made, id);
});

test.each(STATEMENTS)('%s: a file that changed is asked about again', async (given, path) => {
  const made = await openScript(given);
  const file = join(made.fixture.root, path);
  const { thread_id: id } = await run(made, 'lead');
  const first = await pending(made);
  writeFileSync(file, '{"n":0}\n');
  expect(await approve(made, first.id)).toMatchObject({ error: { code: 'conflict' } });
  expect((await goOn(made, id)).status).toBe('waiting');
  const again = await pending(made);
  expect(again.id).toBe(first.id);
  expect(getOwn(again.shown.file, 'holds')).not.toBe(getOwn(first.shown.file, 'holds'));
  expect((await approve(made, again.id)).ok).toBe(true);
  expect((await goOn(made, id)).status).toBe('completed');
  await isReplayed(made, id);
});

test.each(['output', 'append'])(
  '%s: a file that is made after the question stays',
  async (word) => {
    const made = await openScript(`${word} "x" to "out/b.md"`);
    const file = join(made.fixture.root, 'out/b.md');
    const { thread_id: id } = await run(made, 'lead');
    const { id: approval, shown } = await pending(made);
    expect(shown.question).toBe('Create out/b.md (1 line)?');
    expect((await approve(made, approval)).ok).toBe(true);
    writeFileSync(file, 'theirs\n');
    expect(await goOn(made, id)).toMatchObject({ status: 'failed', code: 'conflict' });
    expect(readFileSync(file, 'utf8')).toBe('theirs\n');
  },
);

test('a write that a guard after it holds back is held to what was approved', async () => {
  const statement =
    'guard after op:exe = when [ * => allow ]\nexe @put() = [\n  output "x" to "out/a.md"\n  => "done"\n]\nshow @put()';
  const made = await openScript(statement, 'op:output');
  const { thread_id: id } = await run(made, 'lead');
  const { id: approval } = await pending(made);
  expect((await approve(made, approval)).ok).toBe(true);
  writeFileSync(fileOf(made), 'theirs\n');
  expect(await goOn(made, id)).toMatchObject({ status: 'failed', code: 'conflict' });
  expect(textOf(made)).toBe('theirs\n');
});

test('a secret that a statement writes is not in the question', async () => {
  const made = await openScript(
    'var secret @key = "k-123456"\noutput @key to "out/a.md"',
    'op:output',
  );
  const { status } = await run(made, 'lead');
  const found = await made.threads.store.approvals({});
  expect(status).not.toBe('completed');
  expect(JSON.stringify(found)).not.toContain('k-123456');
});

// Nobody is asked about what is refused whatever they answer.

const REFUSED: readonly (readonly [string, JsonObject, string])[] = [
  ['fs/write_file', { path: 'other/a.md', content: 'x' }, 'fs.write'],
  ['fs/write_file', { path: 'out/../other/a.md', content: 'x' }, 'fs.write'],
  ['fs/write_file', { path: '../a.md', content: 'x' }, 'leads out of the project'],
  ['fs/write_file', { path: 'out/.git/config', content: 'x' }, 'belongs to git'],
  ['fs/edit_file', { path: 'other/a.md', old_string: 'a', new_string: 'b' }, 'fs.write'],
  ['own/save', { path: 'other/a.md', content: 'x' }, 'fs.write'],
];
const asksOf = async ({ threads }: Stage) => {
  const found = await threads.store.approvals({});
  return found.ok ? found.output.length : -1;
};
test.each(REFUSED)('%s %j is refused, and nobody is asked', async (tool, given, why) => {
  const made = await open(tool, given);
  const { thread_id: id, status } = await run(made, 'lead');
  expect(status).toBe('completed');
  expect(await asksOf(made)).toBe(0);
  const result = await lastResult(made, id);
  expect(result).toMatchObject({ content: { error: { code: 'permission_denied' } } });
  expect(JSON.stringify(result)).toContain(why);
  await isReplayed(made, id);
});

/** A model that makes one call; every call is asked about first. */
async function openAsking(tool: string, given: JsonObject, permissions: string) {
  const made = await openStage(
    {
      ...directive('lead', { permissions, deviation: 'ask_first="true"' }),
      '.ai/tools/own/start.yaml': `tool_id: start\n${PROGRAM}requires: [process.spawn]\n`,
      '.ai/tools/own/fetch.yaml': `tool_id: fetch\n${PROGRAM}requires: [process.spawn, net.http]\n`,
      'bin/a': '#!/bin/sh\n',
    },
    { lead: [{ tool_calls: [call(tool, given)] }, { text: 'done' }] },
  );
  chmodSync(join(made.fixture.root, 'bin/a'), 0o755);
  return made;
}
const PROGRAM =
  'tool_type: shell\ndescription: starts\nexecutor_id: subprocess\neffect: write\nconfig: { command: ./bin/a }\n';
const PROCESS = '<execute resource="tool" id="own/*"/><execute resource="process" action="spawn"/>';
const STARTS = `${PROCESS}<execute resource="filesystem" path="bin/a"/>`;
const request = (url: string): JsonObject => ({ method: 'POST', url });
const ANY_HOST =
  '<execute resource="net" action="http" host="*"/><execute resource="tool" id="http/*"/>';
const ONE_HOST = ANY_HOST.replace('*', 'api.example.org');

test.each([
  ['http/request', request('https://other.example.org'), ONE_HOST, { missing: 'net.http' }],
  ['own/start', {}, PROCESS, { missing: 'fs.exec' }],
  ['own/fetch', {}, `${STARTS}${ONE_HOST}`, { missing: 'net.http' }],
  ['http/request', request('http://127.0.0.1:9/a'), ANY_HOST, { rule: 'hosts', kind: 'loopback' }],
  ['http/request', request('http://[::1]:9/'), ANY_HOST, { rule: 'hosts' }],
  ['http/request', request('http://[::ffff:10.0.0.1]/'), ANY_HOST, { rule: 'hosts' }],
  ['http/request', request('http://0x7f.1/'), ANY_HOST, { rule: 'hosts' }],
  ['http/request', request('http://169.254.169.254/latest'), ANY_HOST, { rule: 'hosts' }],
  ['http/request', request('http://localhost:9/'), ANY_HOST, { rule: 'hosts' }],
  ['http/request', request('http://a.LOCALHOST.:9/'), ANY_HOST, { rule: 'hosts' }],
])('%s %j that is refused anyway asks nobody', async (tool, given, permissions, detail) => {
  const made = await openAsking(tool, given, permissions);
  const { thread_id: id } = await run(made, 'lead');
  expect(await asksOf(made)).toBe(0);
  expect(await lastResult(made, id)).toMatchObject({
    content: { error: { code: 'permission_denied', detail } },
  });
  await isReplayed(made, id);
});

test.each([
  ['http/request', request('https://192.0.3.1/'), ANY_HOST],
  ['own/start', {}, STARTS],
])('%s %j that a right covers is asked about', async (tool, given, permissions) => {
  const made = await openAsking(tool, given, permissions);
  await run(made, 'lead');
  expect(await asksOf(made)).toBe(1);
});

test.each(['output "x" to "other/a.md"', 'append "x" to ".git/a"', 'output "x" to "../a.md"'])(
  'a statement without a right to write is refused, and nobody is asked: %s',
  async (statement) => {
    const made = await openScript(statement);
    const { thread_id: id, ...rest } = await run(made, 'lead');
    expect(rest).toMatchObject({ code: 'permission_denied' });
    expect(await asksOf(made)).toBe(0);
    await isReplayed(made, id);
  },
);
