import { afterEach, beforeEach, expect, test } from 'vitest';
import { aThread, codeOf, makeStore, must, type TestStore } from '../../tests/support/registry.ts';
import type { ApprovalRequest } from './approvals.ts';

let place: TestStore;
beforeEach(() => {
  place = makeStore();
  must(place.store.createThread(aThread('a')));
});
afterEach(() => place.remove());

const call = { tool: 'fs/write_file', arguments: 'sha256:1', token: 't1' };
const request: ApprovalRequest = {
  thread: 'a',
  kind: 'call',
  binding: call,
  shown: { tool: 'fs/write_file' },
};
const yes = { decision: 'approved', who: 'ann', channel: 'cli', why: 'looks fine' } as const;

test('a question is asked once, decided once, and the thread is told', () => {
  const { store, clock } = place;
  const asked = must(store.approvals.ask(request));
  expect(asked).toMatchObject({ ...request, state: 'pending', uses: 1, asked: clock.wall });
  expect(must(store.approvals.ask({ ...request, binding: { ...call } })).id).toBe(asked.id);
  clock.pass(10);
  const decided = must(place.another().approvals.decide(asked.id, yes));
  expect(decided).toMatchObject({
    state: 'approved',
    who: 'ann',
    channel: 'cli',
    why: 'looks fine',
  });
  expect(must(store.signals('a'))).toMatchObject([
    { kind: 'approval', payload: { approval: asked.id }, by: 'ann' },
  ]);
  expect(codeOf(store.approvals.decide(asked.id, { ...yes, decision: 'denied' }))).toBe('conflict');
  expect(must(store.approvals.find('a', call))?.id).toBe(asked.id);
  expect(must(store.approvals.find('a', { ...call, token: 't2' }))).toBeUndefined();
});

test('an approval is used for exactly that, as often as was said', () => {
  const { store } = place;
  const { id } = must(store.approvals.ask(request));
  expect(codeOf(store.approvals.use(id, call))).toBe('approval_pending');
  must(store.approvals.decide(id, { ...yes, uses: 2 }));
  expect(codeOf(store.approvals.use(id, { ...call, arguments: 'sha256:2' }))).toBe(
    'permission_denied',
  );
  expect(must(store.approvals.use(id, call))).toMatchObject({ state: 'approved', uses: 1 });
  expect(must(place.another().approvals.use(id, call))).toMatchObject({ state: 'used', uses: 0 });
  expect(codeOf(store.approvals.use(id, call))).toBe('approval_used');
  // Asking again is a new question.
  expect(must(store.approvals.ask(request)).id).not.toBe(id);
});

test('pending, denied and expired are different answers', () => {
  const { store, clock } = place;
  const { id: denied } = must(store.approvals.ask(request));
  must(store.approvals.decide(denied, { ...yes, decision: 'denied' }));
  expect(codeOf(store.approvals.use(denied, call))).toBe('approval_denied');
  const { id: late } = must(store.approvals.ask({ ...request, expires: clock.wall + 100 }));
  const { id: short } = must(store.approvals.ask({ ...request, binding: { limit: 'turns' } }));
  must(store.approvals.decide(short, { ...yes, expires: clock.wall + 100 }));
  clock.pass(100);
  expect(codeOf(store.approvals.decide(late, yes))).toBe('conflict');
  expect(codeOf(store.approvals.use(late, call))).toBe('approval_expired');
  expect(codeOf(store.approvals.use(short, { limit: 'turns' }))).toBe('approval_expired');
  const states = must(store.approvals.list()).map((approval) => approval.state);
  expect(states.sort()).toEqual(['denied', 'expired', 'expired']);
  expect(must(store.approvals.list({ state: 'denied' })).map((item) => item.id)).toEqual([denied]);
  expect(must(store.approvals.list({ thread: 'none' }))).toEqual([]);
});

test('a question is answered in words', () => {
  const { store } = place;
  const question = { ...request, kind: 'question', binding: { text: 'which?' } } as const;
  const { id } = must(store.approvals.ask(question));
  must(store.approvals.decide(id, { ...yes, answer: 'the second' }));
  expect(must(store.approvals.get(id)).answer).toBe('the second');
});

test('an answer to a thread that has ended is kept, and nobody is told', () => {
  const { store } = place;
  const { id } = must(store.approvals.ask(request));
  must(store.append('a', 0, 0, [], { status: 'terminated' }));
  expect(codeOf(store.approvals.decide(id, yes))).toBe('ok');
  expect(codeOf(store.approvals.get('none'))).toBe('not_found');
  expect(codeOf(store.approvals.ask({ ...request, thread: 'none' }))).toBe('not_found');
});
