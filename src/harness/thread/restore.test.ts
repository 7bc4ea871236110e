import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { StoredEvent } from '../../store/index.ts';
import { findSnapshot, standing } from './restore.ts';

const event = (seq: number, type: string, data: StoredEvent['data'] = {}): StoredEvent => ({
  thread: 't',
  seq,
  ts: seq,
  turn: 1,
  type,
  data,
});
const back = (seq: number, from: number) => event(seq, 'signal', { kind: 'resume', from });

test('what was gone back over no longer counts, what came before and after does', () => {
  const history = [
    event(1, 'user_message'),
    event(2, 'snapshot', { reason: 'here' }),
    event(3, 'assistant_message'),
    back(4, 2),
    event(5, 'assistant_message'),
  ];
  expect(standing(history).map(({ seq }) => seq)).toEqual([1, 2, 4, 5]);
});

test('a resume that goes on leaves everything as it is', () => {
  const history = [event(1, 'snapshot'), event(2, 'signal', { kind: 'resume', by: 'me' })];
  expect(standing(history)).toEqual(history);
});

test('only snapshots that still count can be gone back to', () => {
  const history = [
    event(1, 'snapshot', { reason: 'first' }),
    event(2, 'snapshot', { reason: 'second' }),
    back(3, 1),
  ];
  expect(findSnapshot('t', history, 'last')).toEqual({ ok: true, output: 1 });
  expect(findSnapshot('t', history, 2)).toMatchObject({
    error: { code: 'not_found', detail: { snapshots: [1] } },
  });
  expect(findSnapshot('t', [], 'last')).toMatchObject({ error: { code: 'not_found' } });
});

test('however often one goes back, events stay in order and going back keeps what it went to', () => {
  const steps = fc.array(fc.option(fc.nat(), { nil: undefined }), { maxLength: 40 });
  fc.assert(
    fc.property(steps, (list) => {
      const history: StoredEvent[] = [];
      for (const [index, wanted] of list.entries()) {
        const seq = index + 1;
        const kept = standing(history);
        const to = wanted === undefined ? undefined : kept[wanted % Math.max(1, kept.length)];
        history.push(to ? back(seq, to.seq) : event(seq, 'note'));
        const now = standing(history).map((one) => one.seq);
        expect(now).toEqual(now.toSorted((a, b) => a - b));
        expect(now.at(-1)).toBe(seq);
        if (to) expect(now.at(-2)).toBe(to.seq);
      }
    }),
  );
});
