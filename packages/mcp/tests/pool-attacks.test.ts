// Tests servers that misbehave. After each attempt the pool must answer the next caller.
import { execFile } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  fail,
  type Json,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
  plainText,
  systemClock,
} from '@kernmantle/core/base';
import { describe as describeMarks, descriptorOfFault, EMPTY } from '@kernmantle/core/flow';
import { programWords } from '@kernmantle/test-support/built';
import { makeProject, type TestProject } from '@kernmantle/test-support/processes';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import type { Verifier } from '../../core/src/kernel/primitive.ts';
import type { McpPool, ServerAnswer, StdioEndpoint } from '../src/client/pool.ts';
import type { McpPoolPorts } from '../src/client/ports.ts';
import { callWith, nodeServer, poolOf } from './support/pool.ts';

let project: TestProject;
const open: McpPool[] = [];

beforeAll(() => {
  project = makeProject({ 'data/a.txt': 'alpha' });
  copyFileSync('packages/mcp/tests/support/rogue-server.mjs', join(project.root, 'rogue.mjs'));
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((pool) => pool.close()));
});
afterAll(() => project.remove());

function rogue(
  kind = 'plain',
  more: Partial<StdioEndpoint> = {},
  ports: Partial<McpPoolPorts> = {},
) {
  const { pool, labels } = poolOf(project, ports);
  open.push(pool);
  const endpoint = nodeServer('rogue.mjs', [kind], more);
  return {
    pool,
    labels,
    endpoint,
    list: (fresh = false) => pool.list(endpoint, { ...callWith(), fresh }),
    call: (name: string, given: JsonObject = {}, more: Parameters<typeof callWith>[0] = {}) =>
      pool.call(endpoint, { name, arguments: given }, callWith(more)),
  };
}

const said = (answer: Outcome<ServerAnswer>): string => {
  if (!answer.ok) return `${answer.error.code}: ${answer.error.detail.message}`;
  const [first] = answer.output.result['content'] as { text: string }[];
  return first?.text ?? '';
};

/** Processes on this system that were started with this argument. */
function processesWith(argument: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      return words.includes(argument);
    } catch {
      return false;
    }
  });
}

test('many who ask at once are answered by one process', async () => {
  const { call } = rogue();
  const answers = await Promise.all(Array.from({ length: 100 }, () => call('who')));
  expect(new Set(answers.map(said)).size).toBe(1);
  expect(said(answers[0] as Outcome<ServerAnswer>)).toMatch(/^[a-z0-9]+$/);
});

test('an answer that is too long fails its call alone', async () => {
  const { call } = rogue();
  const who = said(await call('who'));
  const [big, slow] = await Promise.all([
    call('big', { bytes: 5 * 1024 * 1024 }),
    call('slow', { ms: 500 }),
  ]);
  expect(big).toMatchObject({ ok: false, error: { code: 'response_too_large' } });
  expect(said(slow)).toBe('slow');
  expect(said(await call('big', { bytes: 3 * 1024 * 1024 }))).toHaveLength(3 * 1024 * 1024);
  expect(said(await call('who'))).toBe(who);
});

test('no number, text or data of a server’s error stands for an answer that was too long or missing', async () => {
  const { call } = rogue();
  const message = 'an answer is longer than 1 bytes';
  for (const code of [-32_099, -32_098, -32_097, -32_001, 404]) {
    const data = { missing: 'too_large', sent: false, retryable: true, failure: { ok: false } };
    expect(await call('fail_as', { code, message, data })).toEqual({
      ok: false,
      error: {
        code: 'tool_failed',
        detail: { message: `the server refused: ${message}`, rpc_code: code, data },
      },
    });
  }
});

test('an answer without end is cut off, and the next caller gets another process', async () => {
  const { call } = rogue('plain', {}, { limits: { maxBytes: 256 * 1024 } });
  const endless = await call('endless');
  expect(endless).toMatchObject({ ok: false, error: { code: 'mcp_connection_failed' } });
  await expect.poll(async () => said(await call('echo', { value: 'on' }))).toBe('on');
});

test('a server that dies in the middle of a call is told of, with its last words and no secrets', async () => {
  const { call } = rogue('plain', { env: { TOKEN: 'token-123456' } });
  const died = await call('die', { words: 'out of token-123456' });
  expect(died).toMatchObject({
    ok: false,
    error: {
      code: 'mcp_connection_failed',
      detail: { sent: true, retryable: false, endpoint: process.execPath },
    },
  });
  expect(said(died)).toContain('exited with code 7');
  expect(said(died)).toContain('out of ');
  expect(JSON.stringify(died)).not.toContain('token-123456');
  const next = await call('echo', { value: 'x' });
  expect(next).toMatchObject({
    ok: false,
    error: { detail: { retryable: true, retry_after_ms: expect.any(Number) } },
  });
  await expect.poll(async () => said(await call('echo', { value: 'back' }))).toBe('back');
});

test('a server that fails again and again is tried later and later', async () => {
  let now = 0;
  const clock = { ...systemClock, monotonic: () => now };
  const { call } = rogue('dies', {}, { clock });
  const pauses: number[] = [];
  for (let tries = 0; tries < 4; tries++) {
    const failed = await call('echo');
    expect(failed).toMatchObject({ ok: false, error: { code: 'mcp_connection_failed' } });
    expect(said(failed)).toContain('cannot find my configuration');
    const refused = await call('echo');
    const pause = refused.ok ? 0 : Number(refused.error.detail['retry_after_ms']);
    pauses.push(pause);
    now += pause;
  }
  expect(pauses).toEqual([250, 500, 1000, 2000]);
});

test('what never answers is given up in time, told so, and replaced', async () => {
  const { call } = rogue();
  const who = said(await call('who'));
  const stalled = await call('stall', {}, { timeoutMs: 50 });
  expect(stalled).toMatchObject({ ok: false, error: { code: 'timeout', detail: { sent: true } } });
  expect(said(await call('who'))).not.toBe(who);
  const hung = call('hang', {}, { timeoutMs: 50 });
  expect(await hung).toMatchObject({ ok: false, error: { code: 'timeout' } });
  expect(said(await call('echo', { value: 'again' }))).toBe('again');
});

test('a server that says nothing at all is no server', async () => {
  const { call } = rogue('mute', {}, { limits: { connectMs: 600 } });
  const answer = await call('echo');
  expect(answer).toMatchObject({ ok: false, error: { code: 'mcp_connection_failed' } });
  expect(said(answer)).toContain('no answer within');
});

test('who gives up while it starts does not take it away from the others', async () => {
  const { call } = rogue();
  const stop = new AbortController();
  const first = call('who', {}, { signal: stop.signal });
  const second = call('who');
  stop.abort();
  expect(await first).toMatchObject({
    ok: false,
    error: { code: 'cancelled', detail: { sent: false } },
  });
  expect((await second).ok).toBe(true);
});

test('a call that is cancelled is cancelled at the server too', async () => {
  const { call } = rogue();
  await call('who');
  const stop = new AbortController();
  const stalled = call('stall', {}, { signal: stop.signal });
  await call('who');
  stop.abort();
  expect(await stalled).toMatchObject({ ok: false, error: { code: 'cancelled' } });
  const seen = JSON.parse(said(await call('seen'))) as { cancelled: unknown[] };
  expect(seen.cancelled).toHaveLength(1);
});

test('a flood of notifications neither blocks nor reaches anybody', async () => {
  const { call } = rogue();
  await call('who');
  const told: Json[] = [];
  const before = process.memoryUsage().heapUsed;
  const flooded = await call(
    'flood',
    { count: 100_000 },
    { onProgress: (progress) => told.push(progress) },
  );
  expect(said(flooded)).toBe('flooded');
  expect(told.length).toBeLessThanOrEqual(20_000);
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * 1024 * 1024);
});

test.each([
  ['garbage', 'after garbage'],
  ['wrong_id', 'right'],
])('%s between the answers is passed over', async (name, answer) => {
  const { call } = rogue();
  expect(said(await call(name))).toBe(answer);
  expect(said(await call('echo', { value: 'next' }))).toBe('next');
});

test('an answer nested too deeply fails at once', async () => {
  const { call } = rogue();
  expect(await call('deep')).toMatchObject({ ok: false, error: { code: 'tool_failed' } });
  expect(said(await call('echo', { value: 'next' }))).toBe('next');
});

test('an answer that is not valid fails at once', async () => {
  const { call } = rogue();
  expect(said(await call('misspell'))).toContain('no valid answer');
  expect(said(await call('echo', { value: 'next' }))).toBe('next');
});

test('a refusal of the server is an outcome, without secrets', async () => {
  const { call } = rogue();
  const refused = await call('refuse', {}, { secrets: ['token-123456'] });
  expect(refused).toMatchObject({ ok: false, error: { code: 'tool_failed' } });
  expect(said(refused)).toContain('refused on purpose');
  expect(JSON.stringify(refused)).not.toContain('token-123456');
});

test('a server that asks us is told no, but for a ping', async () => {
  const { call } = rogue();
  const answers = JSON.parse(said(await call('ask'))) as JsonObject[];
  expect(answers).toHaveLength(4);
  for (const answer of answers) {
    const isPing = answer['id'] === 'ask-ping';
    expect(answer).toMatchObject(isPing ? { result: {} } : { error: { code: -32_601 } });
  }
});

test.each(['pages', 'same-page', 'many', 'unnamed', 'twice'])(
  'a list of tools that is %s is refused',
  async (kind) => {
    const { list } = rogue(kind);
    expect(await list()).toMatchObject({
      ok: false,
      error: {
        code: 'tool_failed',
        detail: { message: expect.stringContaining('the list of tools') },
      },
    });
  },
);

test('a list is read again when it has changed, once in a second at most, and when it is old', async () => {
  let now = 0;
  const clock = { ...systemClock, monotonic: () => now };
  const { list, call } = rogue('plain', {}, { clock });
  const lists = async () => (JSON.parse(said(await call('seen'))) as { lists: number }).lists;
  await list();
  await list();
  expect(await lists()).toBe(1);
  await call('storm');
  now += 1000;
  await list();
  expect(await lists()).toBe(2);
  const timers = vi.spyOn(globalThis, 'setTimeout');
  onTestFinished(() => timers.mockRestore());
  for (let at = 0; at < 3; at++) {
    await call('storm', { count: 10 });
    // The list waits for the rest of the second.
    now += 983;
    await list();
    expect(await lists()).toBe(3 + at);
  }
  expect(timers.mock.calls.filter(([, ms]) => ms === 17)).toHaveLength(3);
  await list();
  expect(await lists()).toBe(5);
  now += 61_000;
  await list();
  expect(await lists()).toBe(6);
  await list(true);
  expect(await lists()).toBe(7);
});

test('a server that ends when it is asked for the newer revision is greeted in the older one', async () => {
  const { call } = rogue('dies-on-probe');
  expect(said(await call('echo', { value: 'old' }))).toBe('old');
});

test('nothing is left of a server and what it started, however it clings', async () => {
  const { pool, call } = rogue();
  const seconds = 90_000 + Math.floor(Math.random() * 9999);
  expect(said(await call('grandchild', { seconds }))).toBe('started');
  expect(processesWith(String(seconds))).not.toEqual([]);
  await pool.close();
  expect(processesWith(String(seconds))).toEqual([]);
});

test('a program that forgets to close ends, and its servers with it', async () => {
  const mark = `mark-${Math.random()}`;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    programWords('forgetful', project.base, mark),
    { timeout: timeoutMs(15_000) },
  );
  expect(stdout.trim()).toBe('asked');
  await expect.poll(() => processesWith(mark)).toEqual([]);
});

test('what is idle is closed, and opened again when it is needed', async () => {
  const mark = `mark-${Math.random()}`;
  const own = { args: ['rogue.mjs', 'plain', mark] };
  const { call } = rogue('plain', own, { limits: { idleMs: 20 } });
  const who = said(await call('who'));
  await expect.poll(() => processesWith(mark)).toEqual([]);
  // A connection in use is not idle.
  expect(said(await call('slow', { ms: 50 }))).toBe('slow');
  expect(said(await call('who'))).not.toBe(who);
});

test('a process has of the environment what it was given, and of the project what was granted', async () => {
  const { call } = rogue('plain', {
    env: { OWN: 'mine' },
    grants: { read: ['rogue.mjs'], write: [], network: false },
  });
  const env = JSON.parse(said(await call('env'))) as Record<string, string>;
  expect(env).toMatchObject({ OWN: 'mine', USER: 'sandbox' });
  expect(env['CANARY']).toBeUndefined();
  expect(said(await call('read', { path: 'data/a.txt' }))).toContain('ENOENT');
  expect(said(await call('write', { path: 'data/b.txt', value: 'x' }))).toMatch(
    /ENOENT|EROFS|EACCES/,
  );
});

/** Returns a verifier that refuses only this capability at these paths. */
const without = (capability: string, glob: string): Verifier =>
  Object.assign(
    (need: Parameters<Verifier>[0]) =>
      need.capability === capability && matchGlob(glob, need.scope?.path ?? '')
        ? fail('permission_denied', `\`${capability}\` is denied`, { missing: capability })
        : ok(null),
    { globs: () => [glob] },
  );

test('what a policy denies is taken out of what is granted, also of one that runs', async () => {
  let verify: Verifier = Object.assign(() => ok(null), { globs: () => [] });
  const { call } = rogue('plain', {}, { verify: () => verify });
  const who = said(await call('who'));
  expect(said(await call('read', { path: 'data/a.txt' }))).toBe('alpha');
  verify = without('fs.read', 'data/**');
  expect(said(await call('read', { path: 'data/a.txt' }))).toBe('ENOENT');
  expect(said(await call('who'))).not.toBe(who);
});

test('a policy that closes the network closes it to servers that were granted it', async () => {
  const grants = { read: ['**'], write: [], network: true };
  const { call } = rogue('plain', { grants }, { verify: () => without('net.http', '**') });
  expect(await call('who')).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
});

test('the places that are closed to everybody are not there, whatever is granted', async () => {
  project.write('.ai/threads/one/transcript.jsonl', 'transcript');
  project.write('.ai/tools/demo.yaml', 'tool');
  const { pool, call } = rogue('plain', {
    grants: { read: ['**'], write: ['**'], network: false },
  });
  expect(said(await call('read', { path: '.ai/threads/one/transcript.jsonl' }))).toBe('ENOENT');
  expect(said(await call('write', { path: '.ai/tools/demo.yaml', value: 'mine' }))).toBe('EROFS');
  await pool.close();
  expect(readFileSync(join(project.root, '.ai/tools/demo.yaml'), 'utf8')).toBe('tool');
});

test('what a server made that acts by its name is out of the project when it is closed', async () => {
  const told: string[] = [];
  const { pool, call } = rogue(
    'plain',
    { grants: { read: ['**'], write: ['out/**'], network: false } },
    { onSetAside: (paths) => told.push(...paths) },
  );
  expect(said(await call('trap'))).toBe('made');
  await pool.close();
  expect(told).toEqual(expect.arrayContaining(['out/.git', 'out/sub/.ai']));
  expect(existsSync(join(project.root, 'out/.git'))).toBe(false);
  expect(existsSync(join(project.root, 'out/sub/.ai'))).toBe(false);
});

test('without a sandbox no server is started, unless a policy says so', async () => {
  const { portsOf } = await import('@kernmantle/test-support/processes');
  const none = { kind: 'none', reason: 'there is none' } as const;
  const closed = rogue(
    'plain',
    {},
    {
      process: async () => portsOf(project, none, { policySandbox: 'required' }),
    },
  );
  expect(await closed.call('echo')).toMatchObject({
    ok: false,
    error: { code: 'sandbox_missing' },
  });
  const lax = rogue('plain', {}, { process: async () => portsOf(project, none) });
  expect(said(await lax.call('echo', { value: 'free' }))).toBe('free');
});

test('a list that is kept carries what the server could see by now', async () => {
  const { labels, list } = rogue('plain', {
    grants: { read: ['**'], write: [], network: false },
  });
  const labelsOf = async () => {
    const listed = await list();
    return listed.ok ? [listed.output.tools.length, listed.output.marks?.labels] : listed;
  };
  const [count, before] = (await labelsOf()) as [number, string[]];
  expect(before).not.toContain('secret');
  const file = join(project.root, 'seen-later.txt');
  writeFileSync(file, 'x');
  try {
    labels.remember(file, 'hash', describeMarks({ labels: ['secret'] }));
    expect(await labelsOf()).toEqual([count, expect.arrayContaining(['secret'])]);
  } finally {
    rmSync(file);
  }
  // The process may have read the file.
  expect(await labelsOf()).toEqual([count, expect.arrayContaining(['secret'])]);
});

test('what went in with one call comes out marked with every other, and so do files', async () => {
  const { pool, labels, call, endpoint, list } = rogue('plain', {
    grants: { read: ['**'], write: ['out/**'], network: false },
  });
  const marked = (answer: Outcome<ServerAnswer>) =>
    (answer.ok ? answer.output.marks : descriptorOfFault(answer.error)).labels;
  await list();
  expect(marked(await call('echo', { value: 'plain' }))).not.toContain('secret');
  const given = describeMarks({ labels: ['secret'] });
  expect(marked(await call('echo', { value: 'hush' }, { given }))).toContain('secret');
  const later = await pool.call(endpoint, { name: 'seen', arguments: {} }, callWith());
  expect(marked(later)).toContain('secret');
  expect(marked(await call('refuse'))).toContain('secret');
  await call('write', { path: 'out/copy.txt' });
  const file = join(project.root, 'out/copy.txt');
  expect(labels.recall(file, 'any content')?.labels).toContain('secret');
  await pool.close();
  const { createHash } = await import('node:crypto');
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  expect(labels.recall(file, sha256)?.labels).toEqual(
    expect.arrayContaining(['secret', 'untrusted']),
  );
  const untouched = join(project.root, 'out/other.txt');
  expect(labels.recall(untouched, 'any content') ?? EMPTY).not.toMatchObject({
    labels: ['secret'],
  });
});

test.each([
  ['ends', 'process.exit(3);'],
  ['stays and does not answer', 'setInterval(() => {}, 1000);'],
])('the last lines of a program that %s are told, without its secrets', async (_name, last) => {
  const lines = Array.from({ length: 30 }, (_, at) => `line ${at} of ${at % 2 ? 'KEY' : '-'}`);
  const text = lines.map(
    (line) => `console.error(${JSON.stringify(line)}.replace('KEY', process.env.KEY));`,
  );
  const talking = makeProject({ 'talks.mjs': `${text.join('\n')}\n${last}\n` });
  const { pool } = poolOf(talking, { limits: { connectMs: 3000 } });
  const endpoint = nodeServer('talks.mjs', [], { env: { KEY: 'sup3r-s3cret' } });
  const asked = await pool.request(endpoint, { method: 'tools/list', params: {} }, callWith());
  await pool.close();
  talking.remove();
  expect(asked).toMatchObject({ ok: false, error: { code: 'mcp_connection_failed' } });
  const said = plainText(asked.ok ? '' : (asked.error.detail.said ?? ''));
  expect(said.split('\n')).toHaveLength(20);
  expect(said).toContain('line 28 of -');
  expect(said).toMatch(/line 29 of \[.*\]/);
  expect(said).not.toContain('line 9 ');
  expect(JSON.stringify(asked)).not.toContain('sup3r-s3cret');
});
