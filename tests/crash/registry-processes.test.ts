// Several real processes on one registry: fair, exact, and whatever is killed loses nothing that it
// had acknowledged.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Json, systemClock } from '../../src/base/index.ts';
import { openStore, type Store } from '../../src/store/store.ts';
import { readTranscript } from '../../src/store/transcript/read.ts';
import { createTranscript } from '../../src/store/transcript/transcript.ts';
import { aThread, makePlace, must, type TestPlace } from '../support/registry.ts';
import { runs, timeoutMs } from '../support/soak.ts';

const WRITER = new URL('../support/registry-writer.ts', import.meta.url).pathname;

let place: TestPlace;
let store: Store;
let children: ChildProcess[];
beforeEach(() => {
  place = makePlace();
  store = must(openStore({ file: place.file, clock: systemClock }));
  children = [];
});
afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  store.close();
  place.remove();
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
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })[
    Symbol.asyncIterator
  ]();
  const exit = once(child, 'exit') as Promise<[number | null]>;
  return {
    child,
    line: async () => (await lines.next()).value,
    go: () => void child.stdin?.write('go\n'),
    done: async () => (await exit)[0],
  };
}

const start = (...args: string[]): Writer =>
  follow(
    spawn(
      process.execPath,
      ['--no-warnings', WRITER, args[0] ?? '', place.file, ...args.slice(1)],
      {
        stdio: ['pipe', 'pipe', 'inherit'],
      },
    ),
  );

async function together(writers: readonly Writer[]): Promise<void> {
  for (const writer of writers) expect(await writer.line()).toBe('ready');
  for (const writer of writers) writer.go();
}

test('two busy writers both get on: neither starves', async () => {
  must(store.createThread(aThread('a')));
  must(store.createThread(aThread('b')));
  const writers = [start('append', 'a', '1500'), start('append', 'b', '1500')];
  await together(writers);
  for (const writer of writers) expect(await writer.done()).toBe(0);
  const order: string[] = [];
  for await (const item of store.watch({ position: 0 }, new AbortController().signal)) {
    if (item.kind === 'event') order.push(item.thread);
    if (order.length === 3000) break;
  }
  const first = order.at(-1) === 'a' ? 'b' : 'a';
  const behind = order.slice(0, order.lastIndexOf(first)).filter((thread) => thread !== first);
  expect(behind.length).toBeGreaterThan(150);
});

test('three that append to one thread make one sequence without gap or fork', async () => {
  must(store.createThread(aThread('a')));
  const writers = [1, 2, 3].map(() => start('share', 'a', '100'));
  await together(writers);
  for (const writer of writers) expect(await writer.done()).toBe(0);
  const seqs = must(store.read('a')).map((event) => event.seq);
  expect(seqs).toEqual(Array.from({ length: 300 }, (_, index) => index + 1));
});

test('three that take from one limit take exactly what there is', async () => {
  must(store.createThread(aThread('a', { budget: { tokens: 250n } })));
  const writers = ['x', 'y', 'z'].map((name) => start('take', 'a', '150', name));
  await together(writers);
  let granted = 0;
  for (const writer of writers) granted += Number(await writer.line());
  expect(granted).toBe(250);
  const { used, reserved } = must(store.budget('a'));
  expect(used.tokens + reserved.tokens).toBe(250n);
});

test(
  'a writer killed at any moment loses nothing that it had acknowledged',
  async () => {
    must(store.createThread(aThread('a', { budget: { tokens: 10n ** 9n } })));
    const kills = runs(20, 60);
    for (let round = 0; round < kills; round++) {
      const writer = start('work', 'a');
      let acknowledged = 0;
      for (let count = 0; count < 1 + ((round * 7) % 23); count++) {
        acknowledged = Number(await writer.line());
      }
      writer.child.kill('SIGKILL');
      await writer.done();
      const { seq } = must(store.thread('a'));
      expect(seq).toBeGreaterThanOrEqual(acknowledged);
      expect(seq % 2).toBe(0);
      const { used, reserved } = must(store.budget('a'));
      expect(used.tokens).toBe(BigInt(seq));
      expect(reserved.tokens === 0n || reserved.tokens === 5n).toBe(true);
    }
    const events = must(store.read('a'));
    expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
    const redact = (value: Json) => value;
    must(createTranscript({ dir: `${place.dir}/threads`, thread: 'a', redact })).close();
    const read = must(readTranscript(`${place.dir}/threads`, 'a'));
    expect(read.problems).toEqual([]);
    expect(read.lines.length).toBeGreaterThan(kills);
  },
  timeoutMs(120_000),
);

test('a process frozen past its lease neither appends nor acts when it goes on', async () => {
  must(store.createThread(aThread('a')));
  const writer = start('freeze', 'a');
  expect(await writer.line()).toBe('held');
  writer.child.kill('SIGSTOP');
  let interrupted: string[] = [];
  while (interrupted.length === 0) {
    await new Promise((resolve) => setImmediate(resolve));
    interrupted = must(store.interruptExpired());
  }
  expect(interrupted).toEqual(['a']);
  const lease = must(store.claim('a', 'other', 1000));
  writer.child.kill('SIGCONT');
  writer.go();
  expect([await writer.line(), await writer.line()]).toEqual(['false', 'stale_epoch']);
  expect(await writer.done()).toBe(0);
  expect(must(store.thread('a'))).toMatchObject({ epoch: lease.epoch, seq: 0 });
});

/** What a writer said after it ran out of room: refused, and nothing of it half-done. */
async function checkFull(writer: Writer, codes: readonly string[]): Promise<void> {
  expect(codes).toContain(await writer.line());
  expect([...codes, 'ok']).toContain(await writer.line());
  const seq = Number(await writer.line());
  expect(seq).toBeGreaterThan(0);
  expect(seq % 2).toBe(0);
}

const hasUlimit = process.platform !== 'win32';
test.runIf(hasUlimit)(
  'where files may not grow, an append is refused whole (needs ulimit)',
  async () => {
    must(store.createThread(aThread('a')));
    store.close();
    // The signal for a file that is too large is ignored, so that the write reports an error.
    const script = 'trap "" XFSZ; ulimit -f 600; exec "$0" "$@"';
    const args = ['-c', script, process.execPath, '--no-warnings', WRITER, 'fill', place.file, 'a'];
    const writer = follow(spawn('sh', args, { stdio: ['pipe', 'pipe', 'inherit'] }));
    await checkFull(writer, ['store_failed', 'disk_full']);
    await writer.done();
    store = must(openStore({ file: place.file, clock: systemClock }));
    const events = must(store.read('a'));
    expect(events).toHaveLength(must(store.thread('a')).seq);
    expect(events.length % 2).toBe(0);
    expect(store.append('a', events.length, 0, [{ type: 'note', data: {} }]).ok).toBe(true);
  },
);

const inNamespace = (script: string) => ['-Urm', 'sh', '-c', script];
const mount = 'mount -t tmpfs -o size=3m none "$0" 2>/dev/null';
const canMount =
  process.platform === 'linux' &&
  spawnSync('unshare', [...inNamespace(mount), '/mnt'], { stdio: 'ignore' }).status === 0;
test.runIf(canMount)(
  'on a full disk an append is refused whole, and goes on when there is room (needs unshare and mount)',
  async () => {
    const script = `${mount} && exec "$1" --no-warnings "$2" fill "$0/registry.db" a 1000000`;
    const args = [...inNamespace(script), place.dir, process.execPath, WRITER];
    const writer = follow(spawn('unshare', args, { stdio: ['pipe', 'pipe', 'inherit'] }));
    await checkFull(writer, ['disk_full']);
    expect(await writer.line()).toBe('ok');
    expect(await writer.done()).toBe(0);
  },
);
