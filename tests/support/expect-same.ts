// Checks that a replay is the same. The message of a failed assertion contains the first event that differs.
import { getOwn } from '@kernmantle/core/base';
import type { ReplayReport } from '@kernmantle/core/harness';
import { expect } from 'vitest';

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
