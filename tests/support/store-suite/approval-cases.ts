// Case 38 of the port: approval requests and the number of their uses.
import { expect, test } from 'vitest';
import type { Decision, NewApproval } from '../../../packages/core/src/store/port.ts';
import { type InStage, staged } from './journal-cases.ts';
import { bear, begin, codeOf, must, type OpenStage } from './stage.ts';

const ask = (id: string, more: Partial<NewApproval> = {}): NewApproval => ({
  id,
  kind: 'capability',
  binding: { capability: 'fs.write', scope: { path: 'a' } },
  shown: { text: 'may I' },
  ...more,
});
const yes: Decision = { decision: 'approved', who: 'me', channel: 'cli', why: 'fine' };
const { binding } = ask('');

function inThreads(inStage: InStage): void {
  test(
    'a thread asks once for one thing, a person decides once, and the thread is told',
    inStage(async ({ store, another }) => {
      const writer = await begin(store, 't');
      const first = await writer.must({ ask: [ask('ap_1')] });
      expect(first.approvals).toMatchObject([
        { id: 'ap_1', thread: 't', state: 'pending', uses: 1 },
      ]);
      // The order of the keys of a binding does not matter.
      const same = { scope: { path: 'a' }, capability: 'fs.write' };
      const again = await writer.must({ ask: [ask('ap_2', { binding: same })] });
      expect(again.approvals).toEqual(first.approvals);
      expect(codeOf(await writer.commit({ ask: [ask('ap_1', { binding: { x: 1 } })] }))).toBe(
        'invalid_input',
      );
      const other = await another();
      const both = await Promise.all([store.decide('ap_1', yes), other.decide('ap_1', yes)]);
      expect(both.map(codeOf).sort()).toEqual(['conflict', 'ok']);
      const { signals } = await writer.must();
      expect(signals).toMatchObject([
        { kind: 'approval', payload: { approval: 'ap_1' }, by: 'me' },
      ]);
      expect(must(await store.approvals({ id: 'ap_1' }))).toMatchObject([
        { state: 'approved', who: 'me' },
      ]);
      expect(codeOf(await store.decide('ap_none', yes))).toBe('not_found');
      // The request is decided, so the thread can create it again.
      const anew = await writer.must({ ask: [ask('ap_3')] });
      expect(anew.approvals).toMatchObject([{ id: 'ap_3' }]);
    }),
  );

  test(
    'the text of a pending request is replaced for everybody; the text of a decided one stays',
    inStage(async ({ store, another }) => {
      const writer = await begin(store, 't');
      await writer.must({ ask: [ask('ap_1'), ask('ap_2', { binding: { other: true } })] });
      const restate = (on: typeof store, id: string, text: string) =>
        on.restate({ id, thread: 't', shown: { text } });
      const changed = must(await restate(store, 'ap_1', 'may I, now'));
      expect(changed).toMatchObject({ id: 'ap_1', state: 'pending', binding, uses: 1 });
      const other = await another();
      const texts = async () =>
        must(await other.approvals({ thread: 't' })).map(({ shown }) => shown);
      expect(await texts()).toEqual([{ text: 'may I, now' }, { text: 'may I' }]);
      must(await other.decide('ap_1', yes));
      const decided = must(await restate(store, 'ap_1', 'something else'));
      expect(decided).toMatchObject({ state: 'approved', shown: { text: 'may I, now' } });
      const both = await Promise.all([restate(store, 'ap_2', 'x'), restate(other, 'ap_2', 'x')]);
      expect(both.map(codeOf)).toEqual(['ok', 'ok']);
      expect(await texts()).toEqual([{ text: 'may I, now' }, { text: 'x' }]);
      expect(codeOf(await restate(store, 'ap_none', 'x'))).toBe('not_found');
    }),
  );

  test(
    'an answer is taken back once it is given, by any process, and the call that it was for keeps its approval',
    inStage(async ({ store, another }) => {
      const writer = await begin(store, 't');
      await writer.must({ ask: [ask('ap_1')] });
      expect(codeOf(await store.withdraw('ap_1'))).toBe('conflict');
      expect(codeOf(await store.withdraw('ap_none'))).toBe('not_found');
      must(await store.decide('ap_1', { ...yes, answer: { value: true } }));
      const other = await another();
      expect(must(await other.withdraw('ap_1'))).not.toHaveProperty('answer');
      const [row] = must(await store.approvals({ id: 'ap_1' }));
      expect(row).toMatchObject({ state: 'approved', uses: 1 });
      expect(row).not.toHaveProperty('answer');
    }),
  );

  test(
    'a hook asks for a thread above it, for no other; that one is told and may use it',
    inStage(async ({ store }) => {
      const root = await begin(store, 'root');
      const hook = await bear(store, root, 'hook');
      await begin(store, 'stranger');
      const forOther = { ask: [ask('ap_0', { thread: 'stranger' })] };
      expect(codeOf(await hook.commit(forOther))).toBe('invalid_input');
      const { approvals } = await hook.must({ ask: [ask('ap_1', { thread: 'root' })] });
      expect(approvals).toMatchObject([{ id: 'ap_1', thread: 'root', state: 'pending' }]);
      const again = await hook.must({ ask: [ask('ap_2', { thread: 'root' })] });
      expect(again.approvals).toEqual(approvals);
      expect(must(await store.approvals({ thread: 'hook' }))).toEqual([]);
      must(await store.decide('ap_1', yes));
      expect((await root.must()).signals).toMatchObject([{ payload: { approval: 'ap_1' } }]);
      expect((await hook.must()).signals).toEqual([]);
      await root.must({ use: [{ approval: 'ap_1', binding }] });
    }),
  );

  test(
    'uses never pass what was given, also by those below, and only what was taken goes back',
    inStage(async ({ store }) => {
      const parent = await begin(store, 'parent');
      const child = await bear(store, parent, 'child');
      const stranger = await begin(store, 'stranger');
      await parent.must({ ask: [ask('ap_1')] });
      const use = { approval: 'ap_1', binding };
      expect(codeOf(await parent.commit({ use: [use] }))).toBe('approval_pending');
      must(await store.decide('ap_1', { ...yes, uses: 2 }));
      expect(codeOf(await stranger.commit({ use: [use] }))).toBe('permission_denied');
      const wrong = { approval: 'ap_1', binding: { capability: 'fs.read' } };
      expect(codeOf(await parent.commit({ use: [wrong] }))).toBe('permission_denied');
      expect(codeOf(await parent.commit({ use: [use, use, use] }))).toBe('approval_used');
      const tries = await Promise.all([
        parent.commit({ use: [use] }),
        child.commit({ use: [use, use] }),
        child.commit({ use: [use] }),
      ]);
      // One of the child's commits is a conflict or is refused, depending on the order.
      expect(tries.filter(({ ok }) => ok).length).toBeGreaterThan(0);
      expect(must(await store.approvals({ id: 'ap_1' }))[0]?.uses).toBeGreaterThanOrEqual(0);
      const fresh = await begin(store, 'fresh');
      await fresh.must({ ask: [ask('ap_2')] });
      must(await store.decide('ap_2', yes));
      const own = { approval: 'ap_2', binding };
      const back = { ...own, back: true as const };
      expect(codeOf(await fresh.commit({ use: [back] }))).toBe('invalid_input');
      await fresh.must({ use: [own] });
      expect(codeOf(await fresh.commit({ use: [own] }))).toBe('approval_used');
      await fresh.must({ use: [back] });
      expect(codeOf(await fresh.commit({ use: [back] }))).toBe('invalid_input');
      await fresh.must({ use: [own, back, own] });
      expect(must(await store.approvals({ id: 'ap_2' }))).toMatchObject([
        { state: 'used', uses: 0 },
      ]);
    }),
  );
}

function outside(inStage: InStage): void {
  test(
    'outside of threads it is asked, decided and used the same way',
    inStage(async ({ store, another }) => {
      const other = await another();
      const [one, two] = await Promise.all([store.ask(ask('ap_1')), other.ask(ask('ap_2'))]);
      expect(must(one)).toEqual(must(two));
      const { id } = must(one);
      expect(must(one).thread).toBe(undefined);
      expect(codeOf(await store.use(id, binding))).toBe('approval_pending');
      must(await store.decide(id, { ...yes, uses: 3 }));
      const uses = await Promise.all(
        Array.from({ length: 5 }, (_, index) => (index % 2 ? store : other).use(id, binding)),
      );
      expect(uses.map(codeOf).sort()).toEqual(['approval_used', 'approval_used', 'ok', 'ok', 'ok']);
      expect(codeOf(await store.use(id, {}))).toBe('permission_denied');
      expect(codeOf(await store.use('ap_none', {}))).toBe('not_found');
      const writer = await begin(store, 't');
      await writer.must({ ask: [ask('ap_t')] });
      must(await store.decide('ap_t', yes));
      // Only the thread's own commits use its approvals, and the other way round.
      expect(codeOf(await store.use('ap_t', binding))).toBe('permission_denied');
      expect(codeOf(await writer.commit({ use: [{ approval: id, binding }] }))).toBe(
        'permission_denied',
      );
    }),
  );

  test(
    'denied and expired are answers of their own, by the clock of the store',
    inStage(async ({ store, clock }) => {
      must(await store.ask(ask('ap_1', { expires: clock.now() + 100 })));
      must(await store.ask(ask('ap_2', { binding: { b: 2 } })));
      must(await store.decide('ap_2', { ...yes, decision: 'denied', why: 'no' }));
      expect(codeOf(await store.use('ap_2', { b: 2 }))).toBe('approval_denied');
      must(await store.ask(ask('ap_3', { binding: { b: 3 } })));
      must(await store.decide('ap_3', { ...yes, expires: clock.now() + 50, answer: 'words' }));
      must(await store.use('ap_3', { b: 3 }));
      clock.pass(100);
      expect(codeOf(await store.use('ap_3', { b: 3 }))).toBe('approval_expired');
      expect(codeOf(await store.decide('ap_1', yes))).toBe('conflict');
      clock.pass(1);
      // An expired request can be created again.
      expect(must(await store.ask(ask('ap_4'))).id).toBe('ap_4');
      const list = async (state: 'pending' | 'expired' | 'denied') =>
        must(await store.approvals({ state })).map(({ id }) => id);
      expect(await list('pending')).toEqual(['ap_4']);
      expect(await list('expired')).toEqual(['ap_1', 'ap_3']);
      expect(await list('denied')).toEqual(['ap_2']);
      expect(must(await store.approvals({ id: 'ap_3' }))[0]?.answer).toBe('words');
      expect(must(await store.approvals({ binding: { b: 2 } }))).toHaveLength(1);
      expect(must(await store.approvals({ limit: 2 }))).toHaveLength(2);
      expect(codeOf(await store.ask(ask('ap_5', { uses: 0 })))).toBe('invalid_input');
    }),
  );
}

export function approvalCases(open: OpenStage): void {
  const inStage = staged(open);
  inThreads(inStage);
  outside(inStage);
}
