import { expect, test } from 'vitest';
import { eventLine } from './event-facts.ts';

test('a tone says what a line means, whoever shows it', () => {
  const detail = { message: 'no' };
  expect(
    eventLine({ type: 'permission_denied', data: { code: 'permission_denied', detail } }),
  ).toEqual({ mark: '✗', tone: 'bad', text: 'denied: no' });
  expect(eventLine({ type: 'spawn', data: { thread_id: 'a' } as never })?.tone).toBe('run');
  expect(eventLine({ type: 'approval', data: { approval: 'ap_1' } as never })?.tone).toBe('you');
  const amounts = { limit: 'turns', current: 3, max: 3 };
  expect(eventLine({ type: 'limit', data: amounts as never })?.tone).toBe('limit');
});

test('an end has the tone of its status', () => {
  const toneOf = (status: string) =>
    eventLine({ type: 'thread_end', data: { status, reason: '' } as never })?.tone;
  expect(['completed', 'limit', 'terminated', 'failed', 'needs_input'].map(toneOf)).toEqual([
    'ok',
    'limit',
    'idle',
    'bad',
    'you',
  ]);
});
