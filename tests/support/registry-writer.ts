// A process of its own for tests: opens a registry and does as its arguments say. Every answer is one
// line, written at once, so that whoever reads it knows what was acknowledged before a kill.
import { rmSync, writeFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Outcome, systemClock } from '../../src/base/index.ts';
import { createRedactor } from '../../src/base/redact.ts';
import { openStore, type Store } from '../../src/store/store.ts';
import { createTranscript } from '../../src/store/transcript/transcript.ts';
import { aThread, codeOf, must } from './registry.ts';

const say = (text: string | number): void => void writeSync(1, `${text}\n`);
const note = (text: string) => ({ type: 'note', data: { text } });

/** Waits for a line on standard input. */
const told = (): Promise<unknown> => new Promise((resolve) => process.stdin.once('data', resolve));

const MODES: Record<string, (store: Store, file: string, rest: string[]) => Promise<void> | void> =
  {
    /** Appends to its own thread, one event at a time. */
    async append(store, _, [thread = '', count = '0']) {
      say('ready');
      await told();
      for (let seq = 0; seq < Number(count); seq++) must(store.append(thread, seq, 0, [note('x')]));
    },
    /** Appends to a thread that others append to as well. */
    async share(store, _, [thread = '', count = '0']) {
      say('ready');
      await told();
      for (let done = 0; done < Number(count); ) {
        const { seq } = must(store.thread(thread));
        if (store.append(thread, seq, 0, [note('x')]).ok) done += 1;
      }
    },
    /** Takes one after the other from a limit that others take from as well. */
    async take(store, _, [thread = '', count = '0', name = '']) {
      say('ready');
      await told();
      let granted = 0;
      for (let index = 0; index < Number(count); index++) {
        const key = `${name}${index}`;
        if (!store.reserve([thread], { tokens: 1n }, key).ok) continue;
        granted += 1;
        if (index % 2 === 0) must(store.settle(key, { tokens: 1n }));
      }
      say(granted);
    },
    /** Works on until it is killed: reserves, appends and settles in one commit, acknowledges. */
    work(store, file, [thread = '']) {
      const lease = must(store.claim(thread, String(process.pid), 60_000, { force: true }));
      const { json: redact } = createRedactor([]);
      const transcript = must(createTranscript({ dir: dirname(file), thread, redact }));
      for (const { key } of must(store.openReservations(thread))) must(store.cancel(key));
      let { seq } = lease;
      for (;;) {
        const key = `${thread}:${lease.epoch}:${seq}`;
        must(store.reserve([thread], { tokens: 5n }, key));
        const events = [note(`e${seq + 1}`), note('x'.repeat((seq * 37) % 3000))];
        const settle = [{ key, actual: { tokens: 2n } }];
        seq = must(store.append(thread, seq, lease.epoch, events, { settle })).seq;
        must(transcript.append([{ ts: 0, seq, turn: 0, type: 'tool_call', data: {} }]));
        say(seq);
      }
    },
    /** Holds a lease, is frozen, and says what it may do when it goes on. */
    async freeze(store, _, [thread = '']) {
      const lease = must(store.claim(thread, 'frozen', 300));
      must(store.append(thread, 0, lease.epoch, [], { status: 'running' }));
      say('held');
      await told();
      say(`${store.isHeld(thread, lease.epoch)}`);
      say(codeOf(store.append(thread, 0, lease.epoch, [note('late')])));
    },
    /** Appends until there is no room, makes room, and goes on. */
    fill(store, file, [thread = '', filler = '']) {
      // A small disk that exists for this process only has no thread yet.
      if (!store.thread(thread).ok) must(store.createThread(aThread(thread)));
      const free = join(dirname(file), 'filler');
      if (filler !== '') writeFileSync(free, Buffer.alloc(Number(filler)));
      let [seq, refused]: [number, Outcome<unknown> | undefined] = [0, undefined];
      while (!refused) {
        const appended = store.append(thread, seq, 0, [note('x'.repeat(2000)), note('last')]);
        if (appended.ok) seq = appended.output.seq;
        else refused = appended;
      }
      say(codeOf(refused));
      say(codeOf(store.reserve([thread], { tokens: 1n }, 'k')));
      say(seq);
      rmSync(free, { force: true });
      say(codeOf(store.append(thread, seq, 0, [note('more')])));
    },
  };

const [mode = '', file = '', ...rest] = process.argv.slice(2);
const store = must(openStore({ file, clock: systemClock }));
await MODES[mode]?.(store, file, rest);
store.close();
process.stdin.destroy();
