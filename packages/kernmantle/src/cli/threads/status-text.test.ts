import { durationText, masked, shorten } from '@kernmantle/core/base';
import { argumentsText } from '@kernmantle/core/journal';
import { expect, test } from 'vitest';
import { age, costText, count, fit, toldOf, unreadableOf } from './status-text.ts';

test('amounts are written as people write them', () => {
  expect([0, 999, 1000, 1234567].map(count)).toEqual(['0', '999', '1,000', '1,234,567']);
  expect([0.4, 12, 65, 7260].map(durationText)).toEqual(['0.4 s', '12 s', '1 m 05 s', '2 h 01 m']);
  expect([5000, 65_000, 7_200_000, 864_000_000].map(age)).toEqual(['5 s', '1 m', '2 h', '10 d']);
});

test('a cost says when part of it is an estimate', () => {
  const cost = { turns: 1, tool_calls: 0, tokens: 10, spend: '0.01', duration_seconds: 2 };
  expect(costText(cost)).toBe('1 turn, 0 tool calls, 10 tokens, 0.01 USD, 2.0 s');
  expect(costText({ ...cost, estimated: true }, 'EUR')).toContain('about 0.01 EUR');
});

test('arguments are shown as they would be typed, and short', () => {
  const given = { item_type: 'tool', parameters: { path: 'a b', limit: 3, list: ['x'] } };
  expect(argumentsText(given)).toBe('path=a b limit=3 list=["x"]');
  expect(argumentsText({ query: 'words' })).toBe('query=words');
  expect(argumentsText({ parameters: { content: 'z'.repeat(1000) } }).length).toBeLessThan(100);
  expect(argumentsText(undefined)).toBe('');
  expect(shorten('one\n two', 6)).toBe('one t…');
});

test('a text is cut by the cells it takes, not by its characters', () => {
  expect(fit('abcdef', 6)).toBe('abcdef');
  expect(fit('abcdef', 4)).toBe('abc…');
  expect(fit('abcdef', 4, 'end')).toBe('…def');
  expect(fit('日本語', 6)).toBe('日本語');
  expect(fit('日本語', 5)).toBe('日本…');
  expect(fit('e\u0301e\u0301e\u0301', 2)).toBe('e\u0301…');
  expect(fit('abc', 0)).toBe('');
});

test('a secret of the registry is never shown as its reference', () => {
  const text = 'key {secret 9epxAB-_12345678 1} and {secret 9epxAB-_12345678 12=}';
  expect(masked(text)).toBe('key [secret] and [secret]');
  const injected = { text, by: 'me', marks: { labels: [], taint: [], sources: [] } };
  const told = toldOf({ turn: 1, type: 'injected_message', data: injected });
  expect(told?.text).toBe('me: key [secret] and [secret]');
});

test('a call whose outcome is unknown is said once', () => {
  const fault = { code: 'outcome_unknown', detail: { message: 'look before you repeat it' } };
  const marks = { labels: [], taint: [], sources: [] };
  const content = { error: fault };
  expect(toldOf({ turn: 1, type: 'error', data: fault })?.text).toContain('look before');
  const result = { call_id: 'c', content, is_error: true, marks };
  expect(toldOf({ turn: 1, type: 'tool_result', data: result })).toBeUndefined();
});

test('a denial or a limit is said once', () => {
  const fault = (code: string, message = 'no') => ({ code, detail: { message } });
  const denied = fault('permission_denied');
  const marks = { labels: [], taint: [], sources: [] };
  expect(toldOf({ turn: 1, type: 'permission_denied', data: denied })?.text).toBe('denied: no');
  expect(toldOf({ turn: 1, type: 'error', data: denied })).toBeUndefined();
  expect(toldOf({ turn: 1, type: 'error', data: fault('turns_exceeded') })).toBeUndefined();
  const content = { error: denied };
  expect(
    toldOf({
      turn: 1,
      type: 'tool_result',
      data: { call_id: 'c', content, is_error: true, marks },
    }),
  ).toBeUndefined();
  expect(toldOf({ turn: 1, type: 'error', data: fault('timeout', 'late') })?.text).toBe(
    'timeout: late',
  );
});

test('an event that cannot be decoded has the message of its failure as text', () => {
  const failure = {
    ok: false,
    error: { code: 'x', detail: { message: 'cannot be read' } },
  } as const;
  expect(unreadableOf(failure)).toEqual({ mark: '✗', colour: 'red', text: 'cannot be read' });
});
