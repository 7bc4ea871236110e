// Cases 33-37 of the port: signals to a thread, none of which is ever lost.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { NewSignal, SignalNote, Store } from '../../../packages/core/src/store/port.ts';
import { runs } from '../soak.ts';
import { type InStage, staged } from './journal-cases.ts';
import { aThread, bear, begin, codeOf, must, type OpenStage, owner, writerOf } from './stage.ts';

const said = (thread: string, key: string, kind = 'message'): NewSignal => ({
  thread,
  kind,
  payload: { text: key },
  key,
  by: 'me',
});

const numbers = (signals: readonly { number: number }[]): number[] =>
  signals.map(({ number }) => number);

function telling(inStage: InStage): void {
  test(
    'signals are numbered without gaps, the same key once, in their order',
    inStage(async ({ store, another }) => {
      const writer = await begin(store, 't');
      await begin(store, 'u');
      const other = await another();
      const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
      const answers = await Promise.all(
        keys.map((key, index) => (index % 2 === 0 ? store : other).signal(said('t', key))),
      );
      expect(answers.map((answer) => must(answer).number).sort((a, b) => a - b)).toEqual(
        keys.map((_, index) => index + 1),
      );
      const again = await Promise.all(keys.map((key) => store.signal(said('t', key, 'other'))));
      expect(again).toEqual(answers);
      expect(must(await store.signal(said('u', 'k0'))).number).toBe(1);
      const all = must(await store.signals('t'));
      expect(numbers(all)).toEqual(keys.map((_, index) => index + 1));
      expect(all[0]).toMatchObject({ kind: 'message', by: 'me', payload: { text: all[0]?.key } });
      expect(numbers(must(await store.signals('t', 18)))).toEqual([19, 20]);
      const large = { ...said('t', 'large'), payload: 'x'.repeat(2_000_000) };
      expect(codeOf(await store.signal(large))).toBe('invalid_input');
      await writer.must({ status: 'killed', release: true });
      expect(codeOf(await store.signal(said('t', 'late')))).toBe('thread_ended');
      expect(must(await store.signal(said('t', 'k3')))).toEqual(must(answers[3] as never));
      expect(codeOf(await store.signal(said('nobody', 'k')))).toBe('not_found');
    }),
  );

  test(
    'signals come with the next answer, and once; a claim begins after what was heard',
    inStage(async ({ store, another }) => {
      const writer = await begin(store, 't');
      const other = await another();
      must(await other.signal(said('t', 'a')));
      must(await store.signal(said('t', 'b')));
      expect((await writer.must()).signals).toMatchObject([{ key: 'a' }, { key: 'b', number: 2 }]);
      expect((await writer.must({ acknowledged: 1 })).signals).toEqual([]);
      must(await other.signal(said('t', 'c')));
      const [renewed] = must(await store.renew([writer], 1000));
      expect(numbers(renewed?.signals ?? [])).toEqual([3]);
      expect((await writer.must()).signals).toEqual([]);
      must(await store.release(writer));
      const held = must(await other.claim('t', owner('there')));
      expect(held.acknowledged).toBe(1);
      expect(numbers((await writerOf(other, held).must()).signals)).toEqual([2, 3]);
    }),
  );

  test(
    'what others write between two commits of a thread is known to the second',
    inStage(async ({ store, another }) => {
      const [writer, speaker] = [await begin(store, 't'), await begin(store, 'u')];
      const other = await another();
      await writer.must();
      must(await other.signal(said('t', 'a')));
      expect((await writer.must()).signals).toMatchObject([{ key: 'a' }]);
      await speaker.must({ tell: [said('t', 'b')] });
      expect((await writer.must()).signals).toMatchObject([{ key: 'b' }]);
      must(await other.claim('t', owner('there'), { force: true }));
      expect(codeOf(await writer.commit())).toBe('stale_epoch');
    }),
  );

  test(
    'a quiet commit is refused with what was not heard, and goes when it was',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't');
      must(await store.signal(said('t', 'a')));
      const quiet = { expect: { seq: 0, epoch: 0, quiet: true as const } };
      const park = { ...quiet, status: 'waiting' as const, release: true as const };
      const refused = await writer.commit(park);
      expect(refused).toMatchObject({
        error: {
          code: 'signalled',
          detail: { signals: [{ number: 1, key: 'a', payload: { text: 'a' } }] },
        },
      });
      expect(must(await store.thread('t')).status).toBe('running');
      expect((await writer.must({ acknowledged: 1 })).signals).toEqual([]);
      await writer.must(park);
      expect(must(await store.thread('t')).owner).toBe(undefined);
    }),
  );

  test(
    'a word that counts no more is told with every answer below it',
    inStage(async ({ store, another }) => {
      const root = await begin(store, 'root');
      const mid = await bear(store, root, 'mid');
      const leaf = await bear(store, mid, 'leaf');
      expect((await leaf.must()).revoked).toBe(undefined);
      const other = await another();
      must(await other.signal(said('root', 'k', 'kill')));
      expect((await leaf.must()).revoked).toBe('root');
      await mid.must({ status: 'terminated', release: true });
      expect((await leaf.must()).revoked).toBe('mid');
      expect(must(await other.thread('leaf')).revoked).toBe('mid');
      const [done, next] = [await begin(store, 'done'), 'next'];
      const child = await bear(store, done, next);
      await done.must({ status: 'completed', release: true });
      expect((await child.must()).revoked).toBe(undefined);
    }),
  );
}

/** Parks the thread. If it has pending signals, handles them first and tries again. */
async function parkAfter(store: Store, thread: string, who: string): Promise<boolean> {
  const claimed = await store.claim(thread, owner(who));
  if (!claimed.ok) return false;
  const writer = writerOf(store, claimed.output);
  let heard = claimed.output.acknowledged;
  for (;;) {
    const quiet = { seq: 0, epoch: 0, quiet: true as const };
    const parked = await writer.commit({
      expect: quiet,
      acknowledged: heard,
      status: 'waiting',
      release: true,
    });
    if (parked.ok) return true;
    if (codeOf(parked) !== 'signalled') throw new Error(codeOf(parked));
    heard = must(await store.signals(thread)).at(-1)?.number ?? heard;
  }
}

const waits = fc.array(fc.nat({ max: 3 }), { minLength: 100, maxLength: 100 });

function crossings(inStage: InStage): void {
  test(
    'whoever parks is never both parked and unheard',
    inStage(async ({ store, another }) => {
      const other = await another();
      const writer = await begin(store, 't');
      await writer.must({ status: 'waiting', release: true });
      let crossed = 0;
      await fc.assert(
        fc.asyncProperty(waits, async (turnsBetween) => {
          for (const turns of turnsBetween) {
            const parking = parkAfter(store, 't', 'worker');
            for (let turn = 0; turn < turns; turn++) {
              await new Promise((resolve) => setImmediate(resolve));
            }
            const { number } = must(await other.signal(said('t', `k${crossed}`)));
            await parking;
            crossed += 1;
            const [taken] = must(await store.take(owner('taker'), { count: 1, projects: ['one'] }));
            // The signal was handled before the thread parked, or queued for its next owner.
            const held = must(await store.claim('t', owner('look'), { force: true }));
            expect(taken !== undefined || held.acknowledged >= number).toBe(true);
            must(await store.release(held));
            await parkAfter(store, 't', 'tidy');
          }
        }),
        { numRuns: runs(1, 30) },
      );
      expect(must(await store.signals('t', crossed - 1))).toMatchObject([{ number: crossed }]);
    }),
  );
}

function pushing(inStage: InStage): void {
  test(
    'whoever holds a thread is called for its signals, and nobody else',
    inStage(async ({ store, another }) => {
      const other = await another();
      await begin(store, 'mine');
      must(await other.createThread(aThread('theirs', { start: { lease: owner('there') } })));
      const notes: SignalNote[] = [];
      const off = store.onSignal((note) => notes.push(note));
      const heardOf = (count: number) =>
        expect.poll(() => notes.length, { interval: 1 }).toBeGreaterThanOrEqual(count);
      must(await store.signal(said('mine', 'here')));
      await heardOf(1);
      for (let index = 0; index < 5; index++) {
        must(await other.signal(said('theirs', `not ${index}`)));
        must(await other.signal(said('mine', `there ${index}`)));
        await heardOf(index + 2);
      }
      expect(notes.map(({ thread, number }) => [thread, number])).toEqual(
        [1, 2, 3, 4, 5, 6].map((number) => ['mine', number]),
      );
      off();
      const after = Promise.withResolvers<SignalNote>();
      const offLater = store.onSignal(after.resolve);
      must(await other.signal(said('mine', 'after')));
      expect(await after.promise).toMatchObject({ thread: 'mine', number: 7 });
      offLater();
      expect(notes).toHaveLength(6);
    }),
  );

  test(
    'the end of a child wakes its parked parent, and whoever has ended is left out',
    inStage(async ({ store }) => {
      const parent = await begin(store, 'parent');
      const [child, sibling] = [
        await bear(store, parent, 'child'),
        await bear(store, parent, 'sibling'),
      ];
      await parent.must({ status: 'waiting', release: true });
      const wanted = { count: 5, projects: ['one'] };
      expect(must(await store.take(owner(), wanted))).toEqual([]);
      const tell = [
        said('parent', 'child', 'child_end'),
        said('sibling', 'x'),
        said('nobody', 'x'),
      ];
      await sibling.must({ status: 'completed', release: true });
      await child.must({ status: 'completed', release: true, tell });
      const [woken] = must(await store.take(owner(), wanted));
      expect(woken).toMatchObject({
        thread: 'parent',
        acknowledged: 0,
        row: { status: 'waiting' },
      });
      expect(must(await store.signals('parent'))).toMatchObject([
        { kind: 'child_end', key: 'child' },
      ]);
      expect(must(await store.signals('sibling'))).toEqual([]);
    }),
  );
}

export function signalCases(open: OpenStage): void {
  const inStage = staged(open);
  telling(inStage);
  crossings(inStage);
  pushing(inStage);
}
