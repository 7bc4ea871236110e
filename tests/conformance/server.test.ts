// The official conformance suite against our server, as `npm run conformance` does it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readExpected, regressions } from '../../scripts/conformance/expected.ts';
import { type Subject, startSubject } from '../../scripts/conformance/subject.ts';
import { REVISIONS, runServerScenarios } from '../../scripts/conformance/suite.ts';

// `native`: a project whose items are the fixtures; `plain`: the four tools.
describe.each(['native', 'plain'] as const)('%s', (leg) => {
  let subject: Subject;
  beforeAll(async () => {
    subject = await startSubject(leg);
  });
  afterAll(() => subject.stop());

  test.for(REVISIONS)('%s', async (revision) => {
    const found = await runServerScenarios(subject.url, revision);
    const results = found.map((scenario) => ({ ...scenario, leg }));
    expect(regressions(readExpected(), results)).toEqual([]);
  });
});
