// Several real processes on one registry, each with many threads whose commits share transactions:
// fair, exact, and whatever is killed loses nothing that it had acknowledged.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { programWords } from '@kernmantle/test-support/built';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import { aThread, begin, must, writerOf } from '@kernmantle/test-support/store-suite/stage';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { systemClock } from '../../src/base/index.ts';
import type { Store } from '../../src/store/port.ts';
import { openSqliteStore } from '../../src/store/sqlite/store.ts';

let dir: string;
let file: string;
let store: Store;
let children: ChildProcess[];
const open = async (): Promise<Store> => must(await openSqliteStore({ file, clock: systemClock }));
beforeEach(async () => {
  dir = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-store-')));
  file = join(dir, 'registry.db');
  store = await open();
  children = [];
});
afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  await store.close();
  rmSync(dir, { recursive: true, force: true });
});

interface Writer {
  child: ChildProcess;
  /** The next line it says; undefined at the end. */
  line(): Promise<string | undefined>;
  go(): void;
  done(): Promise<number | null>;
}

function follow(child: ChildProcess): Writer {
  children.push(child);
  const { stdout } = child;
  if (!stdout) throw new Error('the process says nothing');
  const lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return {
    child,
    line: async () => (await lines.next()).value,
    go: () => void child.stdin?.write('go\n'),
    done: () => exit,
  };
}

const start = (mode: string, ...args: string[]): Writer =>
  follow(
    spawn(process.execPath, programWords('store-writer', mode, file, ...args), {
      stdio: ['pipe', 'pipe', 'inherit'],
    }),
  );

async function together(writers: readonly Writer[]): Promise<void> {
  for (const writer of writers) expect(await writer.line()).toBe('ready');
  for (const writer of writers) writer.go();
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

async function expectGapless(thread: string): Promise<number> {
  const { seq } = must(await store.thread(thread));
  const events = must(await store.read(thread));
  expect(events.map((event) => event.seq)).toEqual(upTo(seq));
  return seq;
}

test('two processes with twenty busy threads each both get on, and nothing has a gap', async () => {
  const writers = ['a', 'b'].map((name) => start('saturate', name, '20', '1500'));
  await together(writers);
  const figures: number[] = [];
  for (const writer of writers) {
    figures.push(Number(await writer.line()));
    expect(await writer.done()).toBe(0);
  }
  const [first = 0, second = 0] = figures;
  expect(Math.min(first, second)).toBeGreaterThan(Math.max(first, second) / 10);
  let written = 0;
  for (const name of ['a', 'b']) {
    for (let index = 0; index < 20; index++) {
      const own = (await expectGapless(`${name}${index}`)) - 1;
      // The lock is held for one group only: a thread that waits for all others would have one commit.
      expect(own).toBeGreaterThan(2);
      written += own;
    }
  }
  expect(written).toBe(2 * (first + second));
});

test('three that write one thread make one sequence without gap or fork', async () => {
  must(await store.createThread(aThread('a')));
  const writers = [1, 2, 3].map(() => start('share', 'a', '40'));
  await together(writers);
  for (const writer of writers) expect(await writer.done()).toBe(0);
  expect(await expectGapless('a')).toBe(121);
});

test('three that take from the limit of their parent take exactly what there is', async () => {
  const parent = await begin(store, 'parent', { budget: { tokens: 100n } });
  const names = ['x', 'y', 'z'];
  await parent.must({ children: names.map((name) => aThread(name)) });
  const writers = names.map((name) => start('take', 'parent', name, '60'));
  await together(writers);
  let granted = 0;
  for (const writer of writers) granted += Number(await writer.line());
  expect(granted).toBe(100);
  const [state] = must(await store.budgets(['parent']));
  expect((state?.used.tokens ?? 0n) + (state?.reserved.tokens ?? 0n)).toBe(100n);
});

test(
  'a process killed in any group loses nothing that it had acknowledged',
  async () => {
    const names = upTo(8).map((index) => `t${index}`);
    const budget = { tokens: 10n ** 9n };
    for (const id of names) must(await store.createThread(aThread(id, { budget })));
    for (let round = 0; round < runs(8, 60); round++) {
      const writer = start('work', ...names);
      const acknowledged = new Map<string, number>();
      for (let count = 0; count < 1 + ((round * 37) % 120); count++) {
        const [thread = '', seq = '0'] = (await writer.line())?.split(' ') ?? [];
        acknowledged.set(thread, Number(seq));
      }
      writer.child.kill('SIGKILL');
      await writer.done();
      for (const id of names) {
        const seq = await expectGapless(id);
        expect(seq).toBeGreaterThanOrEqual(acknowledged.get(id) ?? 0);
        // Two events a commit, after the one of the birth.
        expect(seq % 2).toBe(1);
        const [state] = must(await store.budgets([id]));
        expect([0n, 5n]).toContain(state?.reserved.tokens);
      }
    }
  },
  timeoutMs(300_000),
);

test('a process frozen past its lease writes nothing when it goes on', async () => {
  must(await store.createThread(aThread('a', { start: { queue: {} } })));
  const writer = start('freeze', 'a');
  expect(await writer.line()).toBe('held');
  writer.child.kill('SIGSTOP');
  let interrupted: string[] = [];
  while (interrupted.length === 0) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    ({ interrupted } = must(await store.sweep()));
  }
  expect(interrupted).toEqual(['a']);
  const held = must(await store.claim('a', { owner: 'other', ttlMs: 60_000 }));
  writer.child.kill('SIGCONT');
  writer.go();
  expect([await writer.line(), await writer.line()]).toEqual(['stale_epoch', '0']);
  expect(await writer.done()).toBe(0);
  await writerOf(store, held).must();
  await expectGapless('a');
});

test('what a killed process held is free at once, before its lease ends', async () => {
  must(await store.createThread(aThread('a', { start: { queue: {} } })));
  const writer = start('work', 'a');
  expect(await writer.line()).toMatch(/^a /);
  expect(await store.claim('a', { owner: 'other', ttlMs: 1000 })).toMatchObject({
    error: { code: 'lease_held' },
  });
  writer.child.kill('SIGKILL');
  await writer.done();
  must(await store.claim('a', { owner: 'other', ttlMs: 1000 }));
});

/** What a writer said after it ran out of room: refused, and nothing of it half-done. */
async function checkFull(writer: Writer, codes: readonly string[]): Promise<number> {
  expect(codes).toContain(await writer.line());
  const seq = Number(await writer.line());
  expect(seq).toBeGreaterThan(1);
  expect(seq % 2).toBe(1);
  return seq;
}

test.runIf(process.platform !== 'win32')(
  'where files may not grow, a commit is refused whole (needs ulimit)',
  async () => {
    must(await store.createThread(aThread('a')));
    await store.close();
    // The signal for a file that is too large is ignored, so that the write reports an error.
    const script = 'trap "" XFSZ; ulimit -f 600; exec "$0" "$@"';
    const args = [
      '-c',
      script,
      process.execPath,
      ...programWords('store-writer', 'fill', file, 'a'),
    ];
    const writer = follow(spawn('sh', args, { stdio: ['pipe', 'pipe', 'inherit'] }));
    const full = await checkFull(writer, ['store_failed', 'disk_full']);
    // One small event may still have found room.
    const isMore = (await writer.line()) === 'ok';
    await writer.done();
    store = await open();
    expect(await expectGapless('a')).toBe(full + (isMore ? 1 : 0));
    const held = must(await store.claim('a', { owner: 'me', ttlMs: 1000 }, { force: true }));
    await writerOf(store, held).must();
  },
);

const inNamespace = (script: string) => ['-Urm', 'sh', '-c', script];
const mount = 'mount -t tmpfs -o size=3m none "$0" 2>/dev/null';
const canMount =
  process.platform === 'linux' &&
  spawnSync('unshare', [...inNamespace(mount), '/mnt'], { stdio: 'ignore' }).status === 0;
test.runIf(canMount)(
  'on a full disk a commit is refused whole, and goes on when there is room (needs unshare and mount)',
  async () => {
    const script = `${mount} && exec "$@" fill "$0/registry.db" a 1000000`;
    const args = [...inNamespace(script), dir, process.execPath, ...programWords('store-writer')];
    const writer = follow(spawn('unshare', args, { stdio: ['pipe', 'pipe', 'inherit'] }));
    await checkFull(writer, ['disk_full']);
    expect(await writer.line()).toBe('ok');
    expect(await writer.done()).toBe(0);
  },
);
