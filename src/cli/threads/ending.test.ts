import { expect, test } from 'vitest';
import { exitCodeOfThread } from './ending.ts';

test.each([
  ['completed', undefined, 0],
  ['failed', undefined, 1],
  ['failed', 'loop_detected', 1],
  ['failed', 'provider_error', 6],
  ['failed', 'rate_limit', 6],
  ['failed', 'permission_denied', 1],
  ['limit', 'turns_exceeded', 5],
  ['denied', 'permission_denied', 4],
  ['needs_input', 'stuck', 7],
  ['paused', undefined, 7],
  ['interrupted', undefined, 130],
  ['aborted', undefined, 1],
  ['terminated', undefined, 1],
  ['killed', undefined, 1],
] as const)('a thread that ended %s (%s) exits with %i', (status, code, exit) => {
  expect(exitCodeOfThread({ status, ...(code === undefined ? {} : { code }) })).toBe(exit);
});
