// Opens a registry in a separate process and performs the work of its arguments, with many threads at once. It prints
// every answer as one line at once, so that a reader knows which commits were acknowledged before a kill.
import { rmSync, writeFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { systemClock } from '@kernmantle/core/base';
import { nameOwner } from '../../packages/core/src/store/leases/lease-owner.ts';
import type { Store } from '../../packages/core/src/store/port.ts';
import { openSqliteStore } from '../../packages/core/src/store/sqlite/store.ts';
import { aThread, codeOf, event, must, writerOf } from './store-suite/stage.ts';

const say = (text: string | number): void => void writeSync(1, `${text}\n`);
const owner = { owner: nameOwner(), ttlMs: 60_000 };

/** Waits for a line on standard input. */
const told = (): Promise<unknown> => new Promise((resolve) => process.stdin.once('data', resolve));

async function ready(): Promise<void> {
  say('ready');
  await told();
}

type Mode = (store: Store, file: string, rest: string[]) => Promise<void>;

const MODES: Record<string, Mode> = {
  /** Writes many threads for a while, each as fast as possible. */
  async saturate(store, _, [name = '', count = '0', ms = '0']) {
    const ids = Array.from({ length: Number(count) }, (_unused, index) => `${name}${index}`);
    const start = { lease: owner };
    const held = await Promise.all(ids.map((id) => store.createThread(aThread(id, { start }))));
    await ready();
    const end = performance.now() + Number(ms);
    let commits = 0;
    const work = held.map(async (one) => {
      const writer = writerOf(store, must(one));
      while (performance.now() < end) {
        await writer.must({ events: [event(name), event(name)] });
        commits += 1;
      }
    });
    await Promise.all(work);
    say(commits);
  },
  /** Writes a thread that other processes write as well. The owner of the lease writes. */
  async share(store, _, [thread = '', count = '0']) {
    await ready();
    for (let done = 0; done < Number(count); ) {
      const claimed = await store.claim(thread, owner, { force: true });
      if (claimed.ok && (await writerOf(store, claimed.output).commit()).ok) done += 1;
    }
  },
  /** Reserves from a limit that other processes use as well, again and again. */
  async take(store, _, [parent = '', name = '', count = '0']) {
    const claimed = must(await store.claim(name, owner, { force: true }));
    await ready();
    const writer = writerOf(store, claimed);
    let granted = 0;
    for (let index = 0; index < Number(count); index++) {
      const key = `${parent}.${name}.${index}`;
      const asked = await writer.commit({ reserve: [{ key, amounts: { tokens: 1n } }] });
      if (!asked.ok) continue;
      granted += 1;
      if (index % 2 === 0) await writer.must({ settle: [{ key, actual: { tokens: 1n } }] });
    }
    say(granted);
  },
  /** Writes many threads in groups until it is killed. Each thread acknowledges the signals in the file. */
  async work(store, _, threads) {
    const all = threads.map(async (thread) => {
      const held = must(await store.claim(thread, owner, { force: true }));
      const writer = writerOf(store, held);
      const left = held.open.map(({ key }) => ({ key, actual: {} }));
      await writer.must({ events: [event('back'), event('again')], settle: left });
      for (;;) {
        const key = `${thread}:${writer.epoch}:${writer.seq}`;
        const reserve = [{ key, amounts: { tokens: 5n } }];
        await writer.must({ events: [event('turn'), event('intent')], reserve });
        const settle = [{ key, actual: { tokens: 2n } }];
        const filler = event('x'.repeat((writer.seq * 37) % 3000));
        await writer.must({ events: [event('reply'), filler], settle });
        say(`${thread} ${writer.seq}`);
      }
    });
    await Promise.all(all);
  },
  /** Claims a lease, is frozen, and prints which calls are accepted afterwards. */
  async freeze(store, _, [thread = '']) {
    const held = must(await store.claim(thread, { ...owner, ttlMs: 300 }));
    const writer = writerOf(store, held);
    await writer.must({ status: 'running' });
    say('held');
    await told();
    say(codeOf(await writer.commit({ events: [event('late')] })));
    say(must(await store.renew([writer], 300)).length);
  },
  /** Writes until the disk is full, frees space, and continues. */
  async fill(store, file, [thread = '', filler = '']) {
    // On a new small disk, the thread does not exist yet.
    if (!(await store.thread(thread)).ok) must(await store.createThread(aThread(thread)));
    const free = join(dirname(file), 'filler');
    if (filler !== '') writeFileSync(free, Buffer.alloc(Number(filler)));
    const writer = writerOf(store, must(await store.claim(thread, owner, { force: true })));
    let refused: string | undefined;
    while (refused === undefined) {
      const done = await writer.commit({ events: [event('x'.repeat(2000)), event('last')] });
      if (!done.ok) refused = codeOf(done);
    }
    say(refused);
    say(writer.seq);
    rmSync(free, { force: true });
    say(codeOf(await writer.commit()));
  },
};

const [mode = '', file = '', ...rest] = process.argv.slice(2);
const store = must(await openSqliteStore({ file, clock: systemClock }));
await MODES[mode]?.(store, file, rest);
await store.close();
process.stdin.destroy();
