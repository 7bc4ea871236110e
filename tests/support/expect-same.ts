// A replay must be the same. The message of a failed assertion holds the first event that differs.
import { expect } from 'vitest';
import { getOwn } from '../../src/base/index.ts';
import type { ReplayReport } from '../../src/harness/index.ts';

/** `replayed`: a report or an outcome. `more`: other fields that the report must have, such as its status. */
export function expectSame(
  replayed: object,
  more: Partial<ReplayReport> = {},
  why = 'the first difference',
): void {
  const report = getOwn(replayed, 'output') ?? replayed;
  const difference = getOwn(report, 'difference') ?? report;
  expect(report, `${why}: ${JSON.stringify(difference)}`).toMatchObject({ isSame: true, ...more });
}
