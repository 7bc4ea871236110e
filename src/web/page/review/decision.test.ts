import { expect, test } from 'vitest';
import type { ApprovalReview } from '../../model/api.ts';
import { blockersOf, commandOf, firstDraft, isFolded, requestOf } from './decision.ts';

const review = (rest: Partial<ApprovalReview> = {}): ApprovalReview => ({
  approval: {
    id: 'ap_1',
    kind: 'call',
    state: 'pending',
    title: 'git/push',
    shown: {},
    uses: 1,
    asked: 0,
    expires: 1000,
    digest: 'd1',
    mark: '7F3A-91C2',
  },
  arguments: [],
  gates: [],
  rights: [],
  meters: [],
  choices: ['once', 'value', 'deny'],
  ...rest,
});
const FREE = { closed: 0, mayApprove: true, isLive: true, now: 0 };

test('the first choice is the narrowest that gives something', () => {
  expect(firstDraft(review()).word).toBe('once');
  expect(firstDraft(review({ choices: ['answer', 'deny'] })).word).toBe('answer');
});

test('nothing can be approved while an argument is folded, but it can be denied', () => {
  const draft = firstDraft(review());
  expect(blockersOf(review(), draft, FREE)).toEqual([]);
  expect(blockersOf(review(), draft, { ...FREE, closed: 2 })).toEqual([
    'Open the 2 folded arguments first.',
  ]);
  expect(blockersOf(review(), { ...draft, word: 'deny' }, { ...FREE, closed: 2 })).toEqual([]);
});

test('role, connection, expiry and state are in the way of every decision', () => {
  const draft = { ...firstDraft(review()), word: 'deny' as const };
  const around = [{ mayApprove: false }, { isLive: false }, { now: 1000 }];
  for (const part of around) {
    expect(blockersOf(review(), draft, { ...FREE, ...part })).toHaveLength(1);
  }
  const decided = review({ approval: { ...review().approval, state: 'denied' } });
  expect(blockersOf(decided, draft, FREE)).toEqual(['It is denied already.']);
});

test('what goes beyond the directive needs two confirmations', () => {
  const wide = review({ grant: { name: 'fs.write', line: '', beyond: true }, choices: ['scope'] });
  const draft = firstDraft(wide);
  const tries = [
    { isBeyond: false, isSure: false },
    { isBeyond: true, isSure: false },
    { isBeyond: false, isSure: true },
  ];
  for (const part of tries) expect(blockersOf(wide, { ...draft, ...part }, FREE)).toHaveLength(1);
  const sure = { ...draft, isBeyond: true, isSure: true };
  expect(blockersOf(wide, sure, FREE)).toEqual([]);
  expect(requestOf(wide, sure)).toEqual({ decision: 'scope', digest: 'd1', uses: 1, beyond: true });
  expect(requestOf(wide, { ...sure, word: 'deny' })).toEqual({ decision: 'deny', digest: 'd1' });
});

test('a scope has whole numbers', () => {
  const draft = { ...firstDraft(review()), word: 'scope' as const, uses: '3', minutes: '15' };
  expect(requestOf(review(), draft)).toMatchObject({ uses: 3, for_seconds: 900 });
  expect(commandOf(review(), draft)).toBe('km approvals approve ap_1 --uses 3 --for 15m');
  for (const uses of ['', '0', '-1', '1.5', '1e3', '٣']) {
    expect(blockersOf(review(), { ...draft, uses }, FREE)).toHaveLength(1);
  }
});

test('the command quotes what a person wrote', () => {
  const draft = { ...firstDraft(review()), why: "it's fine; rm -rf $HOME\n" };
  expect(commandOf(review(), draft)).toBe(
    "km approvals approve ap_1 --why 'it'\\''s fine; rm -rf $HOME'",
  );
});

test('long, many-lined and cut arguments are folded', () => {
  const argument = { name: 'a', bytes: 1, is_cut: false, labels: [], origin: '', text: 'short' };
  expect(isFolded(argument)).toBe(false);
  expect(isFolded({ ...argument, is_cut: true })).toBe(true);
  expect(isFolded({ ...argument, text: 'x'.repeat(401) })).toBe(true);
  expect(isFolded({ ...argument, text: '\n'.repeat(8) })).toBe(true);
});
