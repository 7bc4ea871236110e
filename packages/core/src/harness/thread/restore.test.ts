import fc from 'fast-check';
import { expect, test } from 'vitest';
import { eventsInForce, type JournalEvent, type Recorded } from '../../journal/index.ts';
import { findSnapshot } from './restore.ts';

const at = (seq: number, event: JournalEvent): Recorded => ({
  thread: 't',
  seq,
  ts: seq,
  turn: 1,
  ...event,
});
const marks = { labels: [], taint: [], sources: [] };
const said = (seq: number) => at(seq, { type: 'user_message', data: { text: '', marks } });
const snapshot = (seq: number, reason = '') => at(seq, { type: 'snapshot', data: { reason } });
const back = (seq: number, from?: number) =>
  at(seq, {
    type: 'signal',
    data: { kind: 'resume', by: 'me', ...(from === undefined ? {} : { from }) },
  });

test('what was gone back over no longer counts, what came before and after does', () => {
  const history = [said(1), snapshot(2, 'here'), said(3), back(4, 2), said(5)];
  expect(eventsInForce(history).map(({ seq }) => seq)).toEqual([1, 2, 4, 5]);
});

test('a resume that goes on leaves everything as it is', () => {
  const history = [snapshot(1), back(2)];
  expect(eventsInForce(history)).toEqual(history);
});

test('only snapshots that still count can be gone back to', () => {
  const history = [snapshot(1, 'first'), snapshot(2, 'second'), back(3, 1)];
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
      const history: Recorded[] = [];
      for (const [index, wanted] of list.entries()) {
        const seq = index + 1;
        const kept = eventsInForce(history);
        const to = wanted === undefined ? undefined : kept[wanted % Math.max(1, kept.length)];
        history.push(to ? back(seq, to.seq) : said(seq));
        const now = eventsInForce(history).map((one) => one.seq);
        expect(now).toEqual(now.toSorted((a, b) => a - b));
        expect(now.at(-1)).toBe(seq);
        if (to) expect(now.at(-2)).toBe(to.seq);
      }
    }),
  );
});
