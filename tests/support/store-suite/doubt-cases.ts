// Cases 9-13 of the port: lost answers, and data that other processes use.
import { expect, test } from 'vitest';
import { staged } from './journal-cases.ts';
import { aThread, begin, codeOf, event, must, type OpenStage, owner, TTL } from './stage.ts';

const texts = (events: readonly { data: object }[]): unknown[] =>
  events.map(({ data }) => ('text' in data ? data.text : undefined)).filter(Boolean);

const turns = (count: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, count));

export function doubtCases(open: OpenStage): void {
  const inStage = staged(open);

  test(
    'a commit whose answer is lost is answered as written, once',
    inStage(async ({ store, faults }) => {
      const writer = await begin(store, 't', { budget: { tokens: 10n } });
      faults.loseAnswer();
      const done = await writer.must({
        events: [event('one')],
        reserve: [{ key: 'k', amounts: { tokens: 4n } }],
        children: [aThread('child')],
        ask: [{ id: 'ap_1', kind: 'question', binding: { q: 1 }, shown: {} }],
      });
      expect(done).toMatchObject({
        seq: 2,
        reserved: ['k'],
        children: [{ thread: 'child', epoch: 1 }],
        approvals: [{ id: 'ap_1', state: 'pending' }],
      });
      await writer.must({ events: [event('two')] });
      expect(texts(must(await store.read('t')))).toEqual(['one', 'two']);
      expect(must(await store.budgets(['t']))).toMatchObject([{ reserved: { tokens: 4n } }]);
    }),
  );

  test(
    'a commit that is lost on its way is sent again, once',
    inStage(async ({ store, faults }) => {
      const writer = await begin(store, 't', { budget: { tokens: 10n } });
      faults.loseRequest();
      await writer.must({ events: [event('one')], charge: { tokens: 6n } });
      expect(texts(must(await store.read('t')))).toEqual(['one']);
      expect(must(await store.budgets(['t']))).toMatchObject([{ used: { tokens: 6n } }]);
    }),
  );

  test(
    'a commit that is lost while somebody else takes the thread is stale',
    inStage(async ({ store, faults, another }) => {
      const writer = await begin(store, 't');
      const other = await another();
      faults.meanwhile(async () => {
        must(await other.claim('t', owner('there'), { force: true }));
      });
      faults.loseRequest();
      expect(codeOf(await writer.commit({ events: [event('late')] }))).toBe('stale_epoch');
      expect(texts(must(await store.read('t')))).toEqual([]);
    }),
  );

  test(
    'when nobody can be asked until the lease ends, nobody knows',
    inStage(async ({ store, faults, clock, another }) => {
      const writer = await begin(store, 't');
      const other = await another();
      faults.disconnect();
      const asked = writer.commit({ events: [event('lost')] });
      await turns(20);
      clock.pass(TTL);
      expect(codeOf(await asked)).toBe('store_unknown');
      faults.reconnect();
      // A process that resumes the thread reads the committed events, once the store has written them.
      await expect.poll(async () => texts(must(await other.read('t')))).toEqual(['lost']);
    }),
  );

  test(
    'a birth, a signal and a decision whose answers are lost are made once',
    inStage(async ({ store, faults }) => {
      for (const lose of [faults.loseAnswer, faults.loseRequest]) {
        const id = lose === faults.loseAnswer ? 'a' : 'b';
        lose();
        const held = must(await store.createThread(aThread(id)));
        expect(held).toMatchObject({ thread: id, epoch: 1, row: { seq: 1 } });
        lose();
        const signal = { thread: id, kind: 'message', payload: 1, key: 'k', by: 'me' };
        expect(must(await store.signal(signal))).toEqual({ number: 1 });
        const ask = [{ id: `ap_${id}`, kind: 'question', binding: { id }, shown: {} }] as const;
        must(await store.commit(id, { expect: { seq: 1, epoch: 1 }, events: [event()], ask }));
        lose();
        const decision = { decision: 'approved', who: 'me', channel: 'cli', why: 'so' } as const;
        expect(must(await store.decide(`ap_${id}`, decision)).state).toBe('approved');
        expect(must(await store.signals(id)).map(({ kind }) => kind)).toEqual([
          'message',
          'approval',
        ]);
        expect(must(await store.read(id))).toHaveLength(2);
      }
    }),
  );

  test(
    'a claim whose answer is lost is simply made again',
    inStage(async ({ store, faults }) => {
      must(await store.createThread(aThread('t', { start: { queue: {} } })));
      faults.loseAnswer();
      const held = must(await store.claim('t', owner()));
      expect(must(await store.thread('t')).epoch).toBe(held.epoch);
    }),
  );

  test(
    'who meets others is patient, and then says so and has written nothing',
    inStage(async ({ store, faults, clock }) => {
      const writer = await begin(store, 't');
      faults.busy(true);
      const late = writer.commit({ events: [event('late')] });
      await turns(15);
      faults.busy(false);
      expect(codeOf(await late)).toBe('ok');
      faults.busy(true);
      const never = writer.commit({ events: [event('never')] });
      await turns(15);
      clock.pass(10_001);
      expect(codeOf(await never)).toBe('store_busy');
      faults.busy(false);
      await writer.must({ events: [event('again')] });
      expect(texts(must(await store.read('t')))).toEqual(['late', 'again']);
    }),
  );
}
