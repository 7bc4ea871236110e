import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import { isOwnerGone, nameOwner } from './lease-owner.ts';

type ProcessTable = NonNullable<Parameters<typeof nameOwner>[0]>;

const WORLD = `${'ab'.repeat(16)}.4026531836`;
const NAME = `host:42@${WORLD}.1000`;
const table = (look: ProcessTable['look'], world: string | undefined = WORLD): ProcessTable => ({
  look,
  world: () => world,
});

test('a process that is absent, dead, or another one under its pid is gone', () => {
  expect(
    isOwnerGone(
      NAME,
      table(() => 'absent'),
    ),
  ).toBe(true);
  expect(
    isOwnerGone(
      NAME,
      table(() => ({ started: '1000', isDead: true })),
    ),
  ).toBe(true);
  expect(
    isOwnerGone(
      NAME,
      table(() => ({ started: '1001', isDead: false })),
    ),
  ).toBe(true);
});

test('a process that is there, or of which nothing is known, is not gone', () => {
  expect(
    isOwnerGone(
      NAME,
      table(() => ({ started: '1000', isDead: false })),
    ),
  ).toBe(false);
  expect(
    isOwnerGone(
      NAME,
      table(() => undefined),
    ),
  ).toBe(false);
});

test('nothing is said about other machines, boots and namespaces, or names without proof', () => {
  const absent = () => 'absent' as const;
  expect(isOwnerGone(NAME, table(absent, `${'cd'.repeat(16)}.4026531836`))).toBe(false);
  expect(isOwnerGone(NAME, table(absent, `${'ab'.repeat(16)}.4026531837`))).toBe(false);
  expect(isOwnerGone(NAME, { look: absent, world: () => undefined })).toBe(false);
  for (const name of ['host:42', 'nobody', '', `host:x@${WORLD}.1`]) {
    expect(isOwnerGone(name, table(absent))).toBe(false);
  }
});

test('where processes cannot be told apart the name proves nothing', () => {
  const here = { started: '7', isDead: false };
  expect(nameOwner({ look: () => here, world: () => WORLD })).toMatch(/:\d+@.*\.7$/);
  expect(nameOwner({ look: () => undefined, world: () => WORLD })).toMatch(/:\d+$/);
  expect(nameOwner({ look: () => here, world: () => undefined })).toMatch(/:\d+$/);
});

const isLinux = process.platform === 'linux';
/** The name that a process would give itself. */
function nameOf(pid: number): string {
  const name = nameOwner(undefined, pid);
  if (!name.includes(`:${pid}@`)) throw new Error(`process ${pid} not found`);
  return name;
}

test.runIf(isLinux)('this process is not gone (only Linux can tell)', () => {
  expect(nameOwner()).toContain(`:${process.pid}@`);
  expect(isOwnerGone(nameOwner())).toBe(false);
});

test.runIf(isLinux)(
  'a frozen process is there until it is killed (only Linux can tell)',
  async () => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore' });
    await once(child, 'spawn');
    const name = nameOf(child.pid ?? 0);
    child.kill('SIGSTOP');
    await expect.poll(() => stateOf(child.pid ?? 0)).toBe('T');
    expect(isOwnerGone(name)).toBe(false);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(isOwnerGone(name)).toBe(true);
  },
);

test.runIf(isLinux)(
  'a dead process that nobody collected is gone (only Linux can tell)',
  async () => {
    // The shell becomes a program that never waits for its children.
    const parent = spawn('sh', ['-c', 'sleep 60 & echo $!; exec sleep 60'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [line] = (await once(createInterface({ input: parent.stdout }), 'line')) as [string];
    const pid = Number(line);
    const name = nameOf(pid);
    expect(isOwnerGone(name)).toBe(false);
    // As long as it is the shell it does collect them.
    const program = () => readFileSync(`/proc/${parent.pid}/comm`, 'utf8').trim();
    await expect.poll(program).toBe('sleep');
    process.kill(pid, 'SIGKILL');
    await expect.poll(() => stateOf(pid)).toBe('Z');
    expect(isOwnerGone(name)).toBe(true);
    parent.kill('SIGKILL');
    await once(parent, 'exit');
  },
);

function stateOf(pid: number): string {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return text.slice(text.lastIndexOf(')') + 2)[0] ?? '';
}
