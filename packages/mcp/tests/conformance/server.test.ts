// Runs the official conformance suite against our server, like `npm run conformance`.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readExpected, regressions } from '../../../../scripts/conformance/expected.ts';
import {
  NEEDS_NO_FIXTURE,
  type Subject,
  startSubject,
} from '../../../../scripts/conformance/subject.ts';
import {
  REVISIONS,
  requirementsOf,
  runServerScenarios,
} from '../../../../scripts/conformance/suite.ts';
import { probeSandbox } from '../../../core/src/kernel/sandbox/probe.ts';

test.for(REVISIONS)('every scored scenario of %s is expected to pass', (revision) => {
  const { native, plain } = readExpected();
  const scored = requirementsOf(revision).server;
  expect(Object.keys(native[revision]).toSorted()).toEqual(scored.toSorted());
  const bare = scored.filter((name) => NEEDS_NO_FIXTURE.has(name));
  expect(Object.keys(plain[revision]).toSorted()).toEqual(bare.toSorted());
});

// Some fixtures start a process.
const sandbox = await probeSandbox();

// `native` serves the fixtures as items, `plain` the four tools.
const legs = (['native', 'plain'] as const).filter(
  (leg) => leg === 'plain' || sandbox.kind !== 'none',
);
describe.each(legs)('%s', (leg) => {
  let subject: Subject;
  beforeAll(async () => {
    subject = await startSubject(leg);
  });
  afterAll(() => subject.stop());

  // The suite waits half a second per call, which can be too short for the first call on a busy
  // machine.
  test.for(REVISIONS)('%s', { retry: 1 }, async (revision) => {
    const found = await runServerScenarios(subject.url, revision);
    const results = found.map((scenario) => ({ ...scenario, leg }));
    expect(regressions(readExpected(), results)).toEqual([]);
  });
});
