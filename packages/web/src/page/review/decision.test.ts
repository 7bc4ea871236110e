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
  expect(blockersOf(decided, draft, FREE)).toEqual(['The request is already denied.']);
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
  const right = review({ approval: { ...review().approval, kind: 'capability' } });
  const draft = { ...firstDraft(right), word: 'scope' as const, uses: '3', minutes: '15' };
  expect(requestOf(right, draft)).toMatchObject({ uses: 3, for_seconds: 900 });
  expect(commandOf(right, draft)).toBe('km approvals approve ap_1 --uses 3 --for 15m');
  for (const uses of ['', '0', '-1', '1.5', '1e3', '٣']) {
    expect(blockersOf(right, { ...draft, uses }, FREE)).toHaveLength(1);
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

test('the scope that is proposed is around the value: its folder, its host, its domain', () => {
  const of = (role: string, text: string) =>
    firstDraft(
      review({
        arguments: [{ name: 'to', text, bytes: 1, is_cut: false, labels: [], origin: '', role }],
      }),
    ).glob;
  expect(of('path', 'reports/2026/may.md')).toBe('reports/2026/*');
  expect(of('destination', 'https://api.example.com/v1')).toBe('api.example.com');
  expect(of('destination', 'ann@example.com')).toBe('*@example.com');
  expect(of('content', 'x')).toBe('');
});

test('a call is approved for a scope only when it is said which', () => {
  const scoped = review({ choices: ['once', 'value', 'scope', 'deny'] });
  const draft = { ...firstDraft(scoped), word: 'scope' as const };
  expect(blockersOf(scoped, draft, FREE)).toEqual(['Enter paths or addresses.']);
  const said = { ...draft, glob: 'reports/**', uses: '2' };
  expect(blockersOf(scoped, said, FREE)).toEqual([]);
  expect(requestOf(scoped, said)).toMatchObject({ decision: 'scope', glob: 'reports/**', uses: 2 });
  expect(commandOf(scoped, said)).toContain("--scope 'reports/**' --uses 2");
});
