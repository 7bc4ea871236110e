import fc from 'fast-check';
import { expect, test } from 'vitest';
import { systemClock } from '../base/index.ts';
import { type Approval, openSqliteStore } from '../store/index.ts';
import { approvalDigest, endThread } from './thread-signals.ts';

const base: Approval = {
  id: 'ap_1',
  thread: 't1',
  kind: 'call',
  binding: { operation: 'tool a', arguments: 'x' },
  shown: { question: 'may it?', arguments: { path: 'a' } },
  state: 'pending',
  uses: 1,
  asked: 1,
  expires: 10,
};

test('the digest changes with everything that is shown, and with nothing else', () => {
  const { digest, mark } = approvalDigest(base, 3);
  expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(mark).toBe(`${digest.slice(0, 4)}-${digest.slice(4, 8)}`.toUpperCase());
  const { thread: _thread, ...outside } = base;
  const { expires: _expires, ...endless } = base;
  const others: [Approval, number][] = [
    [base, 4],
    [{ ...base, id: 'ap_2' }, 3],
    [{ ...base, thread: 't2' }, 3],
    [{ ...base, kind: 'question' }, 3],
    [{ ...base, binding: { ...base.binding, arguments: 'y' } }, 3],
    [{ ...base, shown: { ...base.shown, question: 'may it? ' } }, 3],
    [{ ...base, uses: 2 }, 3],
    [{ ...base, expires: 11 }, 3],
    [outside, 3],
    [endless, 3],
  ];
  const all = new Set([digest, ...others.map(([one, epoch]) => approvalDigest(one, epoch).digest)]);
  expect(all.size).toBe(others.length + 1);
  expect(approvalDigest({ ...base, state: 'denied', who: 'ann', why: 'no' }, 3).digest).toBe(
    digest,
  );
});

test('no two texts that are shown have one digest', () => {
  const of = (question: string): string =>
    approvalDigest({ ...base, shown: { question } }, 1).digest;
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (one, other) => {
      expect(of(one) === of(other)).toBe(one === other);
    }),
    { numRuns: 100 },
  );
});

test('an end reaches all that lives in a tree, however much of it has ended', async () => {
  const opened = await openSqliteStore({ file: ':memory:', clock: systemClock });
  if (!opened.ok) throw new Error(opened.error.code);
  const store = opened.output;
  const born = (id: string) => ({
    id,
    directive: 'd',
    version: '1.0.0',
    runner: 'r',
    project: 'p',
    limits: {},
    budget: {},
    inputs: {},
    events: [],
    start: { queue: {} },
  });
  const note = { type: 'note', data: {} };
  await store.createThread({ ...born('root'), start: { lease: { owner: 'o', ttlMs: 60_000 } } });
  const children = Array.from({ length: 520 }, (_, at) => born(`c${at}`));
  await store.commit('root', { expect: { seq: 1, epoch: 1 }, events: [note], children });
  await store.release({ thread: 'root', epoch: 1 });
  await endThread(store, 'root', 'kill', { who: 'ann', channel: 'cli' });
  const left = await store.query({ within: 'root', status: 'spawning' });
  expect(left).toMatchObject({ ok: true, output: { rows: [] } });
  await store.close();
});
