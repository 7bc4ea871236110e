// Tests a complete run: an external client starts a signed directive, follows it, sends a message,
// reads the transcript and gets the result. Clients of both lines use real pipes, with a scripted
// model.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { plainText } from '@kernmantle/core/base';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { READ, read } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test, vi } from 'vitest';
import {
  connect,
  connectOld,
  type Outside,
  onThread,
  type Served,
  serve,
  startDirective,
} from './support/threads.ts';

// Each test starts several real processes.
vi.setConfig({ testTimeout: timeoutMs(90_000) });

/** A gate that the test opens by hand. It stays open after the test. */
function gate() {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  onTestFinished(() => open());
  return { open: () => open(), opened };
}

/** Starts a thread that reads twice and then waits for the gate. */
async function lookedAt() {
  const { open, opened } = gate();
  const served = await serve(
    { look: { permissions: READ, limits: '<turns>9</turns>' } },
    async ({ assistant_messages }) => {
      if (assistant_messages <= 2) return read('notes/a.txt');
      await opened;
      return { text: 'all read' };
    },
  );
  return { served, open };
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Polls until the condition is true. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + timeoutMs(20_000); Date.now() < end; await sleep(20)) {
    if (await holds()) return;
  }
  throw new Error('it never came to that');
}

const CLIENTS: [string, (served: Served) => Promise<Outside>][] = [
  ['2.x, protocol 2026-07-28', (served) => connect(served)],
  ['2.x, protocol 2025-11-25', (served) => connect(served, 'legacy')],
  ['1.x', connectOld],
];

test.each(CLIENTS)('a full run with a client of %s', async (_line, open) => {
  const { served, open: letGo } = await lookedAt();
  const client = await open(served);
  const told: { progress: number; message?: string | undefined }[] = [];
  const words = () => told.map(({ message }) => message).join('\n');
  const started = await client.call(startDirective('look', { wait_ms: timeoutMs(4000) }), {
    onprogress: (one) => void told.push(one),
  });
  expect(started).toMatchObject({ ok: true, output: { status: 'running', directive: 'look' } });
  const { handle = '' } = started.output;
  expect(handle).toMatch(/^look_\d{8}_\d{6}_\w{4}\.[\w-]{32}$/);
  expect(started.output.thread_id).toBe(handle);
  expect(started.output.next).toContain(handle);
  // Progress increases with every turn and step.
  for (const [at, { progress }] of told.entries()) {
    expect(progress).toBeGreaterThan(told[at - 1]?.progress ?? -1);
  }
  for (const turn of [1, 2, 3]) expect(words()).toContain(`turn ${turn} of 9`);
  expect(words()).toContain('fs/read_file');
  expect(words()).toMatch(/0\.00\d+ of 1\.00 USD/);

  const said = await client.call(onThread(handle, 'inject', { message: 'be brief' }));
  expect(said).toMatchObject({ ok: true, output: { signal: 'message' } });
  const status = await client.call(onThread(handle, 'status'));
  expect(status).toMatchObject({ ok: true, output: { status: 'running', thread_id: handle } });
  letGo();
  const result = await client.call(onThread(handle, 'wait'));
  expect(result).toMatchObject({
    ok: true,
    output: { status: 'completed', thread_id: handle, text: 'all read' },
  });
  const transcript = await client.call({
    item_type: 'tool',
    item_id: 'threads/read_transcript',
    parameters: { thread_id: handle, last_n: 100 },
  });
  expect(JSON.stringify(transcript.output)).toContain('be brief');
  expect(JSON.stringify(transcript.output)).toContain('all read');
});

test('a directive that ends in time is answered with its result, and what it says is told to go on', async () => {
  const served = await serve({ look: { permissions: READ } }, ({ assistant_messages }) =>
    assistant_messages === 1 ? read('notes/a.txt') : { text: 'all read' },
  );
  const client = await connect(served);
  const ready = await client.call({ item_type: 'directive', item_id: 'look' });
  const said = plainText(ready.output.spawn_instructions);
  const parameters = JSON.parse(/\{.*\}/.exec(said)?.[0] ?? '') as Record<string, string>;
  const told: string[] = [];
  const result = await client.call(
    { item_type: 'tool', item_id: 'threads/thread_directive', parameters },
    { onprogress: ({ message = '' }) => void told.push(message) },
  );
  expect(result).toMatchObject({ ok: true, output: { status: 'completed', text: 'all read' } });
  expect(result.output).not.toHaveProperty('next');
  for (const turn of [1, 2]) expect(told.join('\n')).toMatch(new RegExp(`turn ${turn}\\b`));
});

test('a request that is cancelled ends the waiting, not the thread; silence is broken meanwhile', async () => {
  const { served, open } = await lookedAt();
  const client = await connect(served);
  const { handle = '' } = (await client.call(startDirective('look', { wait_ms: 0 }))).output;
  await until(async () => {
    const { cost } = (await client.call(onThread(handle, 'status'))).output;
    return JSON.stringify(cost).includes('"turns":2');
  });
  const giveUp = new AbortController();
  let heard = 0;
  const waiting = client.call(onThread(handle, 'wait', { wait_ms: 40_000 }), {
    signal: giveUp.signal,
    onprogress() {
      heard += 1;
      // The first message is the status, the second one is periodic.
      if (heard === 2) giveUp.abort();
    },
  });
  await expect(waiting).rejects.toThrow();
  expect(heard).toBe(2);
  const status = await client.call(onThread(handle, 'status'));
  expect(status).toMatchObject({ output: { status: 'running' } });
  open();
  expect(await client.call(onThread(handle, 'wait'))).toMatchObject({
    output: { status: 'completed' },
  });
});

test('pause, resume and cancel do what they say', async () => {
  const { served } = await lookedAt();
  const client = await connect(served);
  const { handle = '' } = (await client.call(startDirective('look', { wait_ms: 0 }))).output;
  expect(await client.call(onThread(handle, 'pause'))).toMatchObject({ ok: true });
  const paused = await client.call(onThread(handle, 'wait'));
  expect(paused).toMatchObject({ output: { status: 'paused' } });
  expect(paused.output.next).toContain('resume');
  expect(await client.call(onThread(handle, 'resume'))).toMatchObject({
    output: { status: 'running', thread_id: handle },
  });
  expect(await client.call(onThread(handle, 'cancel', { reason: 'enough' }))).toMatchObject({
    ok: true,
  });
  expect(await client.call(onThread(handle, 'wait'))).toMatchObject({
    output: { status: 'terminated' },
  });
});

test('a pause holds whatever is said meanwhile; who has ended is told of by its handle', async () => {
  const { served, open } = await lookedAt();
  const client = await connect(served);
  const { handle = '' } = (await client.call(startDirective('look', { wait_ms: 0 }))).output;
  await until(() => served.provider.requests.length >= 3);
  for (const [action, parameters] of [
    ['pause', {}],
    ['pause', {}],
    ['inject', { message: 'be brief' }],
  ] as const) {
    const told = await client.call(onThread(handle, action, parameters));
    expect(told).toMatchObject({ output: { status: 'running' } });
  }
  expect(await client.call(onThread(handle, 'resume'))).toMatchObject({
    error: { detail: { message: expect.stringContaining('wait for that') } },
  });
  open();
  expect(await client.call(onThread(handle, 'wait'))).toMatchObject({
    output: { status: 'paused' },
  });
  expect(served.provider.requests).toHaveLength(3);
  expect(await client.call(onThread(handle, 'resume'))).toMatchObject({ ok: true });
  expect(await client.call(onThread(handle, 'wait'))).toMatchObject({
    output: { status: 'completed' },
  });
  expect(JSON.stringify(served.provider.requests.at(-1)?.body)).toContain('be brief');
  for (const action of ['pause', 'cancel']) {
    const refused = await client.call(onThread(handle, action));
    expect(refused).toMatchObject({ error: { code: 'thread_ended', detail: { thread: handle } } });
  }
});

test('the server ends with its client and leaves a thread that can be resumed', async () => {
  const { served, open } = await lookedAt();
  const client = await connect(served);
  const pid = client.pid();
  const { handle = '' } = (await client.call(startDirective('look', { wait_ms: 500 }))).output;
  const [id = ''] = plainText(handle).split('.');
  await client.close();
  await until(() => !isAlive(pid));
  const runtime = await served.fixture.open();
  onTestFinished(() => runtime.close());
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const row = await threads.output.store.thread(id);
  expect(row.ok && row.output.status).toBe('interrupted');
  open();
  expect(await threads.output.resume(id)).toMatchObject({ output: { status: 'completed' } });
  // A new process has no handles.
  const next = await connect(served);
  expect(await next.call(onThread(handle, 'status'))).toMatchObject({
    ok: false,
    error: { code: 'permission_denied' },
  });
});

test('the server ends when whoever started it dies', async () => {
  const served = await serve({}, []);
  const { command, args, env } = served.command;
  // The program starts the server like a client, prints its id and does nothing else.
  const program = `const { spawn } = require('node:child_process');
    const server = spawn(${JSON.stringify(command)}, ${JSON.stringify(args)}, { stdio: ['pipe', 'pipe', 'pipe'] });
    server.stderr.once('data', () => console.log(server.pid));
    setInterval(() => {}, 1000);`;
  const parent: ChildProcess = spawn(command, ['-e', program], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [line] = (await once(parent.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  const pid = Number(line.toString());
  expect(isAlive(pid)).toBe(true);
  parent.kill('SIGKILL');
  await until(() => !isAlive(pid));
});
