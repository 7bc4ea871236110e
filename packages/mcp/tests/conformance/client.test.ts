// Runs some client scenarios of the official conformance suite with our pool. `npm run conformance`
// runs all of them.
import { expect, test } from 'vitest';
import { CLIENT_DRIVER, clientScenarios } from '../../../../scripts/conformance/client.ts';
import { readExpected } from '../../../../scripts/conformance/expected.ts';
import { REVISIONS, runClientScenario } from '../../../../scripts/conformance/suite.ts';

/** Scenarios: a broken connection, questions with state, arguments in headers. */
const TRIED = ['sse-retry', 'sep-2322-client-request-state', 'http-custom-headers'];

test('every scenario that is not about OAuth is expected to pass', () => {
  const { client } = readExpected();
  for (const revision of REVISIONS) {
    const scored = clientScenarios().filter(([, of]) => of === revision);
    expect(Object.keys(client[revision])).toEqual(scored.map(([name]) => name));
  }
});

const chosen = clientScenarios().filter(([name]) => TRIED.includes(name));

test.for(chosen)('%s, %s', async ([name, revision]) => {
  const { passed, problems } = await runClientScenario(CLIENT_DRIVER, name, revision);
  expect(problems).toEqual([]);
  expect(passed).toBe(readExpected().client[revision][name]);
});
