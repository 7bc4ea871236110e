// `km acp`: an editor speaks with the process through the official client of the Agent Client Protocol. The model is a
// scripted provider, the process and its pipes are real.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { acpClient, acpProject, pick } from '@kernmantle/test-support/acp-client';
import { runCommand } from '@kernmantle/test-support/command-line';
import { TRUSTING } from '@kernmantle/test-support/project';
import { call, directiveText } from '@kernmantle/test-support/thread-project';
import { expect, test, vi } from 'vitest';

const KM = join(import.meta.dirname, '../../../../bin/km.js');

const write = (path: string, content = 'x\n') => ({
  tool_calls: [call('fs/write_file', { path, content })],
});
const textOf = (root: string, path: string) => readFileSync(join(root, path), 'utf8');

test('a session is one thread: the prompts follow each other, and a tool call is shown', async () => {
  const { fixture } = await acpProject(
    [
      { thinking: 'I look first.', tool_calls: [call('fs/read_file', { path: 'a.txt' })] },
      { text: 'It says hello.' },
      { text: 'You are welcome.' },
    ],
    { 'a.txt': 'hello\n' },
  );
  const editor = await acpClient(fixture);
  const id = await editor.start(fixture.root);
  expect(existsSync(join(fixture.root, '.ai/threads'))).toBe(false);
  expect(await editor.prompt(id, 'what is in a.txt?')).toBe('end_turn');
  expect(await editor.prompt(id, 'thank you')).toBe('end_turn');
  expect(editor.text()).toBe('It says hello.You are welcome.');
  const kinds = editor.updates.map(({ sessionUpdate }) => sessionUpdate);
  expect(kinds).toContain('agent_thought_chunk');
  expect(editor.updates.find(({ sessionUpdate }) => sessionUpdate === 'tool_call')).toMatchObject({
    title: 'fs/read_file path=a.txt',
    kind: 'other',
    status: 'in_progress',
    rawInput: { path: 'a.txt' },
    locations: [{ path: join(fixture.root, 'a.txt') }],
  });
  const done = editor.updates.find(({ sessionUpdate }) => sessionUpdate === 'tool_call_update');
  expect(done).toMatchObject({ status: 'completed' });
  expect(JSON.stringify(done)).toContain('hello');
  const usage = editor.updates.findLast(({ sessionUpdate }) => sessionUpdate === 'usage_update');
  expect(usage).toMatchObject({ cost: { currency: 'USD' } });
  expect(editor.faults).toEqual([]);
  expect(await editor.end()).toBe(0);
  const shown = await runCommand(['threads', 'ls'], fixture.root, fixture.env);
  expect(shown.output).toContain(id);
});

test('a write is done after the person has allowed it, and not after a refusal', async () => {
  const { fixture } = await acpProject([
    write('a.txt', 'one\n'),
    { text: 'written' },
    write('b.txt', 'two\n'),
    { text: 'not written' },
  ]);
  const answers = ['once', 'deny'];
  const editor = await acpClient(fixture, () => pick(answers.shift() ?? ''));
  const id = await editor.start(fixture.root);
  expect(await editor.prompt(id, 'write a')).toBe('end_turn');
  expect(textOf(fixture.root, 'a.txt')).toBe('one\n');
  expect(await editor.prompt(id, 'write b')).toBe('end_turn');
  expect(existsSync(join(fixture.root, 'b.txt'))).toBe(false);
  expect(editor.asked).toMatchObject([
    {
      sessionId: id,
      toolCall: { kind: 'edit', status: 'pending', rawInput: { path: 'a.txt', content: 'one\n' } },
      options: [{ kind: 'allow_once' }, { kind: 'allow_always' }, { kind: 'reject_once' }],
    },
    { toolCall: { rawInput: { path: 'b.txt' } } },
  ]);
  const ids = editor.asked.map(({ toolCall }) => toolCall.toolCallId);
  const last = (call: string | undefined) =>
    editor.updates.findLast((one) => 'toolCallId' in one && one.toolCallId === call);
  expect(last(ids[0])).toMatchObject({
    status: 'completed',
    content: [{ type: 'diff', path: join(fixture.root, 'a.txt'), newText: 'one\n' }],
  });
  expect(last(ids[1])).toMatchObject({ status: 'failed' });
  expect(editor.faults).toEqual([]);
});

/** The limit of the test itself ends a wait that never succeeds. */
const SOON = { timeout: 2 ** 30, interval: 20 };
const ENDLESS = { text: 'and so on '.repeat(2000), pace_ms: 20 };

test('a cancelled prompt ends, and the session goes on', async () => {
  const { fixture } = await acpProject([ENDLESS, { text: 'here again' }]);
  const editor = await acpClient(fixture);
  const id = await editor.start(fixture.root);
  const stopped = editor.prompt(id, 'count');
  await vi.waitUntil(() => editor.text() !== '', SOON);
  await expect(editor.prompt(id, 'second')).rejects.toMatchObject({ code: -32_600 });
  await editor.agent.notify('session/cancel', { sessionId: id });
  expect(await stopped).toBe('cancelled');
  expect(await editor.prompt(id, 'are you there?')).toBe('end_turn');
  expect(editor.text().endsWith('here again')).toBe(true);
  expect(editor.faults).toEqual([]);
});

test('a cancel during a permission request ends the request and leaves it pending', async () => {
  const { fixture } = await acpProject([write('a.txt'), { text: 'done' }]);
  const never = Promise.withResolvers<never>();
  const editor = await acpClient(fixture, () => never.promise);
  const id = await editor.start(fixture.root);
  const stopped = editor.prompt(id, 'write a');
  await vi.waitUntil(() => editor.asked.length > 0, SOON);
  await editor.agent.notify('session/cancel', { sessionId: id });
  expect(await stopped).toBe('cancelled');
  const listed = await runCommand(['approvals', 'ls'], fixture.root, fixture.env);
  expect(listed.output).toContain('Create a.txt');
  expect(existsSync(join(fixture.root, 'a.txt'))).toBe(false);
  expect(editor.faults).toEqual([]);
});

test('after kill -9 of the process the request is pending, and loading the session asks again', async () => {
  const { fixture } = await acpProject([
    { text: 'I write it.', ...write('a.txt') },
    { text: 'written' },
  ]);
  const never = Promise.withResolvers<never>();
  const first = await acpClient(fixture, () => never.promise);
  const id = await first.start(fixture.root);
  const lost = first.prompt(id, 'write a').catch(() => 'lost');
  await vi.waitUntil(() => first.asked.length > 0, SOON);
  first.child.kill('SIGKILL');
  expect(await lost).toBe('lost');
  const listed = await runCommand(['approvals', 'ls'], fixture.root, fixture.env);
  expect(listed.output).toContain('Create a.txt');

  const second = await acpClient(fixture, () => pick('once'));
  await second.agent.request('session/load', { sessionId: id, cwd: fixture.root, mcpServers: [] });
  expect(second.updates).toContainEqual({
    sessionUpdate: 'user_message_chunk',
    content: { type: 'text', text: 'write a' },
  });
  expect(second.text()).toBe('I write it.');
  const written = () =>
    existsSync(join(fixture.root, 'a.txt')) && second.text().includes('written');
  await vi.waitUntil(written, SOON);
  expect(second.asked).toHaveLength(1);
  expect(second.faults).toEqual([]);
  const { sessions } = await second.agent.request('session/list', { cwd: fixture.root });
  expect(sessions).toMatchObject([{ sessionId: id, cwd: fixture.root, title: 'write a' }]);
  await second.agent.request('session/close', { sessionId: id });
  await expect(second.prompt(id, 'more')).rejects.toMatchObject({ code: -32_002 });
  const third = await acpClient(fixture);
  await third.agent.request('session/resume', { sessionId: id, cwd: fixture.root });
  expect(third.text()).toBe('');
});

test('an unknown option denies, and a policy keeps requests for other channels', async () => {
  const { fixture } = await acpProject([
    write('a.txt'),
    { text: 'no' },
    write('b.txt'),
    { text: 'x' },
  ]);
  const editor = await acpClient(fixture, () => pick('allow_everything'));
  const id = await editor.start(fixture.root);
  expect(await editor.prompt(id, 'write a')).toBe('end_turn');
  expect(existsSync(join(fixture.root, 'a.txt'))).toBe(false);
  fixture.write('../home/policy.yaml', `${TRUSTING}acp: { may_approve: false }\n`);
  const strict = await acpClient(fixture, () => pick('once'));
  const other = await strict.start(fixture.root);
  expect(await strict.prompt(other, 'write b')).toBe('end_turn');
  expect([strict.asked.length, existsSync(join(fixture.root, 'b.txt'))]).toEqual([0, false]);
  expect(strict.text()).toMatch(/km approvals show ap_/);
});

test('wrong input is answered with an error, and the process goes on', async () => {
  const { fixture } = await acpProject([{ text: 'still here' }], { 'page.html': '<p>' });
  const editor = await acpClient(fixture);
  const id = await editor.start(fixture.root);
  const refused = async (method: string, params: object, code: number) =>
    await expect(editor.agent.request(method, params)).rejects.toMatchObject({ code });
  await refused('session/fork', { sessionId: id }, -32_601);
  await refused('session/new', { cwd: 'here', mcpServers: [] }, -32_602);
  await refused('session/new', {}, -32_602);
  const load = { sessionId: 'none_20300131_000000_aaaa', cwd: fixture.root, mcpServers: [] };
  await refused('session/load', load, -32_002);
  await refused('session/load', { ...load, sessionId: '../../etc' }, -32_002);
  const audio = { type: 'audio', data: '', mimeType: 'audio/wav' };
  const image = { type: 'image', data: 'bm8gaW1hZ2U=', mimeType: 'image/png' };
  const resource = { type: 'resource', resource: { uri: 'file:///a', text: 'x'.repeat(300_000) } };
  for (const prompt of [
    [],
    'text',
    [1],
    [audio],
    [image],
    [{ type: 'text', text: ' ' }],
    [resource],
  ]) {
    await refused('session/prompt', { sessionId: id, prompt }, -32_602);
  }
  await refused('session/prompt', { sessionId: 'other', prompt: [] }, -32_002);
  expect(await editor.prompt(id, 'hello')).toBe('end_turn');
  expect(editor.text()).toBe('still here');
  expect(editor.faults).toEqual([]);
});

test('broken lines are parse errors, and nothing works before `initialize`', async () => {
  const { fixture } = await acpProject([]);
  const input = [
    'nonsense',
    `"${'x'.repeat(8 * 1024 * 1024)}"`,
    '[]',
    '{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}',
    '{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}',
    '{"jsonrpc":"2.0","id":{},"method":"initialize"}',
    '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none"}}',
    '{"jsonrpc":"2.0","id":3,"method":"initialize","params":[1]}',
    '{"jsonrpc":"2.0","id":99,"result":{}}',
    '{"jsonrpc":"2.0","id":4,"method":"initialize","params":{"protocolVersion":7}}',
  ].join('\n');
  const child = spawn(process.execPath, [KM, 'acp'], { cwd: fixture.root, env: fixture.env });
  child.stdin.end(`${input}\n`);
  const lines = (await text(child.stdout)).trim().split('\n');
  const byId = new Map(lines.map((line) => [JSON.parse(line).id, JSON.parse(line)]));
  const parse = lines.filter((line) => line.includes('-32700'));
  expect(parse).toHaveLength(2);
  expect(lines.filter((line) => JSON.parse(line).id === null)).toHaveLength(4);
  expect(byId.get(1)).toMatchObject({ error: { code: -32_600 } });
  expect(byId.get(2)).toMatchObject({ error: { code: -32_602 } });
  expect(byId.get(3)).toMatchObject({ error: { code: -32_602 } });
  expect(byId.get(4)).toMatchObject({ result: { protocolVersion: 1 } });
});

test('a session without a key is refused and names the variable', async () => {
  const { fixture } = await acpProject([]);
  Object.assign(fixture.env, { ANTHROPIC_API_KEY: undefined });
  const editor = await acpClient(fixture);
  const refused = editor.start(fixture.root);
  await expect(refused).rejects.toMatchObject({ code: -32_000 });
  await expect(refused).rejects.toThrow('ANTHROPIC_API_KEY');
});

test('the ends of a thread are stop reasons', async () => {
  const limited = directiveText('limited', { limits: '<turns>1</turns><tokens>100000</tokens>' });
  const { fixture } = await acpProject(
    [{ tool_calls: [call('fs/read_file', { path: 'a' })] }, { text: 'no', stop: 'refusal' }],
    { '.ai/directives/limited.md': limited },
  );
  const unsigned = await acpClient(fixture, undefined, ['--directive', 'limited']);
  await expect(unsigned.start(fixture.root)).rejects.toThrow('only signed directives');
  await runCommand(['sign', '.ai/directives/limited.md'], fixture.root, fixture.env);
  const editor = await acpClient(fixture, undefined, ['--directive', 'limited']);
  expect(await editor.prompt(await editor.start(fixture.root), 'go')).toBe('max_turn_requests');
  const second = await acpClient(fixture);
  expect(await second.prompt(await second.start(fixture.root), 'go')).toBe('refusal');
  expect([...editor.faults, ...second.faults]).toEqual([]);
});
