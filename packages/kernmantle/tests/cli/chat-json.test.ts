// `km chat --json`: a program sends JSON lines and reads events, approval requests and a result after each round. The
// model is a scripted provider, the process and its pipes are real.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { getOwn, type Json, type JsonObject, plainText } from '@kernmantle/core/base';
import { type ScriptedReply, startScriptedProvider } from '@kernmantle/core/llm';
import { runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture, TRUSTING } from '@kernmantle/test-support/project';
import { call } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';

const KM = join(import.meta.dirname, '../../../../bin/km.js');

type Script = Parameters<typeof startScriptedProvider>[0];

async function open(script: Script, files: Record<string, string> = {}): Promise<Fixture> {
  const provider = await startScriptedProvider(script);
  if (!provider.ok) throw new Error(provider.error.detail.message);
  const fixture = makeFixture({ '../home/policy.yaml': TRUSTING, ...files });
  Object.assign(fixture.env, { ANTHROPIC_BASE_URL: provider.output.url, ANTHROPIC_API_KEY: 'key' });
  onTestFinished(async () => {
    await provider.output.close();
    fixture.remove();
  });
  return fixture;
}

/** Starts `km chat --json`. `next` returns the next line of a type, and drops the lines before it. */
function talk({ root, env }: Fixture, ...words: string[]) {
  const args = [KM, 'chat', '--json', ...words];
  const child = spawn(process.execPath, args, { cwd: root, env });
  onTestFinished(() => void child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const events: JsonObject[] = [];
  return {
    child,
    events,
    ended: async () => (await ended)[0] as number,
    send: (line: Json | string) =>
      void child.stdin.write(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`),
    async next(type: string): Promise<JsonObject> {
      for (;;) {
        const { value, done } = await lines.next();
        if (done) throw new Error(`the chat ended before \`${type}\``);
        const event = JSON.parse(value) as JsonObject;
        events.push(event);
        if (event.type === type) return event;
      }
    },
  };
}
const say = (text: string) => ({ type: 'message', text });
const write = (path: string): ScriptedReply => ({
  tool_calls: [call('fs/write_file', { path, content: 'x\n' })],
});
const statusOf = (result: JsonObject) => getOwn(result.output, 'status');
const BAD = { error: { code: 'invalid_input' } };

test('100 rounds go through one thread, and each has one result', async () => {
  const fixture = await open(({ body }) => ({
    text: `you: ${/line (\d+)\b(?!.*line \d)/s.exec(JSON.stringify(body))?.[1]}`,
  }));
  const chat = talk(fixture);
  const threads = new Set<Json | undefined>();
  for (let round = 1; round <= 100; round++) {
    chat.send(say(`line ${round}`));
    const { output } = await chat.next('result');
    expect(output).toMatchObject({ status: 'completed', text: `you: ${round}` });
    threads.add(getOwn(output, 'thread_id'));
  }
  chat.send({ type: 'end' });
  expect([await chat.ended(), threads.size]).toEqual([0, 1]);
});

test('a bad line is answered with an error, and the conversation goes on', async () => {
  const chat = talk(await open([{ text: 'still here' }]));
  for (const line of [
    'nonsense',
    '[1]',
    'null',
    '"x"',
    '{}',
    '{"type":"go"}',
    '{"type":"message"}',
  ]) {
    chat.send(line);
    expect(await chat.next('error')).toMatchObject(BAD);
  }
  chat.send({ type: 'message', text: 'x'.repeat(1_000_001) });
  expect(await chat.next('error')).toMatchObject(BAD);
  chat.send({ type: 'message', text: 1, more: true });
  expect(await chat.next('error')).toMatchObject(BAD);
  chat.send({ type: 'decision', approval: 'ap_none', decision: 'once', digest: 'x' });
  expect(await chat.next('error')).toMatchObject({ error: { code: 'not_found' } });
  chat.send(say('hello'));
  expect(await chat.next('result')).toMatchObject({ output: { text: 'still here' } });
  chat.child.stdin.end();
  expect(await chat.ended()).toBe(0);
});

test('a decision is for the displayed request, an old digest decides nothing', async () => {
  const fixture = await open([write('src/a.txt'), write('src/b.txt'), { text: 'done' }]);
  const chat = talk(fixture, '-m', 'write them');
  const request = await chat.next('request');
  expect(request).toMatchObject({ choices: ['once', 'value', 'scope', 'deny'] });
  expect(statusOf(await chat.next('result'))).toBe('waiting');
  const { approval = '', digest = '' } = request;
  const decision = { type: 'decision', approval, decision: 'scope', scope: 'src/**', digest };
  chat.send({ ...decision, digest: 'old' });
  expect(await chat.next('error')).toMatchObject({ error: { code: 'conflict' } });
  chat.send({ ...decision, scope: '**' });
  expect(await chat.next('error')).toMatchObject(BAD);
  const { scope: _, ...unscoped } = decision;
  chat.send(unscoped);
  expect(await chat.next('error')).toMatchObject(BAD);
  expect(existsSync(join(fixture.root, 'src/a.txt'))).toBe(false);
  chat.send(decision);
  expect(statusOf(await chat.next('result'))).toBe('completed');
  expect(readFileSync(join(fixture.root, 'src/b.txt'), 'utf8')).toBe('x\n');
  chat.send(decision);
  expect(await chat.next('error')).toMatchObject({ error: { code: 'conflict' } });
});

test('a denial is told to the model, and a line during the work reaches it before its next turn', async () => {
  const heard: string[] = [];
  const release = Promise.withResolvers<void>();
  const fixture = await open(async ({ body, assistant_messages: turn }) => {
    heard.push(JSON.stringify(body));
    if (turn === 1) return write('a.txt');
    if (turn === 2) await release.promise;
    return turn === 2 ? { tool_calls: [call('fs/list_dir', { path: '.' })] } : { text: 'ok' };
  });
  const chat = talk(fixture, '-m', 'go');
  const { approval = '', digest = '' } = await chat.next('request');
  await chat.next('result');
  chat.send({ type: 'decision', approval, decision: 'deny', why: 'not on a Monday', digest });
  await chat.next('turn_start');
  chat.send(say('look at b instead'));
  release.resolve();
  expect(statusOf(await chat.next('result'))).toBe('completed');
  expect(heard.at(1)).toContain('not on a Monday');
  expect(heard.at(-1)).toContain('look at b instead');
  expect(chat.events.filter(({ type }) => type === 'result')).toHaveLength(2);
});

const ENDLESS: ScriptedReply = { text: 'and so on '.repeat(2000), pace_ms: 20, repeat: true };

test('an interrupt calls off the reply, and the next line goes on', async () => {
  const fixture = await open(({ assistant_messages: turn, body }) =>
    JSON.stringify(body).includes('be short') ? { text: `short ${turn}` } : ENDLESS,
  );
  const chat = talk(fixture, '-m', 'tell me all');
  await chat.next('turn_start');
  chat.send({ type: 'interrupt' });
  expect(statusOf(await chat.next('result'))).toBe('interrupted');
  chat.send(say('be short'));
  expect(await chat.next('result')).toMatchObject({
    output: { status: 'completed', text: expect.stringMatching(/^short/) },
  });
});

test.each(['SIGTERM', 'SIGHUP'] as const)(
  'after %s the thread is interrupted, and `--resume last` goes on with it',
  async (signal) => {
    const fixture = await open(({ body }) =>
      JSON.stringify(body).includes('again') ? { text: 'here I am' } : ENDLESS,
    );
    const chat = talk(fixture, '-m', 'tell me all');
    const { thread } = await chat.next('turn_start');
    chat.child.kill(signal);
    expect(await chat.ended()).toBe(130);
    const row = await runCommand(
      ['threads', 'show', plainText(thread), '--json'],
      fixture.root,
      fixture.env,
    );
    expect(row.output).toContain('"interrupted"');
    const second = talk(fixture, '--resume', 'last', '-m', 'again');
    const { output } = await second.next('result');
    expect(output).toMatchObject({ thread_id: thread, text: 'here I am' });
  },
);

const SCRIPT =
  '<directive name="calc" version="1.0.0"><metadata><description>x</description><category>x</category><limits/><permissions/></metadata><process><script>/return { "a": 1 }</script></process></directive>';

test('what cannot be a chat is refused', async () => {
  const fixture = await open([write('a.txt')], { '.ai/directives/calc.md': SCRIPT });
  const km = (...words: string[]) => runCommand(['chat', ...words], fixture.root, fixture.env);
  expect(await km()).toMatchObject({
    code: 2,
    output: expect.stringContaining('needs a terminal'),
  });
  expect(await km('calc', '-m', 'x')).toMatchObject({
    code: 2,
    output: expect.stringContaining('is a script'),
  });
  expect(await km('--resume', 'last', '-m', 'x')).toMatchObject({ code: 1 });
  expect((await km('-m', 'hello')).code).toBe(7);
  const list = await runCommand(['threads', 'ls', '--json'], fixture.root, fixture.env);
  const id = /"id": ?"(assistant_[^"]+)"/.exec(list.output)?.[1] ?? '';
  await runCommand(['threads', 'kill', id], fixture.root, fixture.env);
  const killed = await km('--resume', id, '-m', 'x');
  expect([killed.code, killed.output]).toEqual([1, expect.stringContaining('[thread_ended]')]);
});
