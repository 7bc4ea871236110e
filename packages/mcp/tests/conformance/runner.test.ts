// Tests that the conformance runner counts only checks that really ran.
import { expect, test } from 'vitest';
import {
  readExpected,
  readPage,
  regressions,
  render,
} from '../../../../scripts/conformance/expected.ts';
import {
  judge,
  REVISIONS,
  runServerScenarios,
  suiteVersion,
} from '../../../../scripts/conformance/suite.ts';

const check = (id: string, status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO') => ({
  id,
  status,
});
const judged = (...checks: ReturnType<typeof check>[]) => judge('ping', '2025-11-25', checks);

test('what the wire schema says is not counted, unless it is bad', () => {
  expect(judged(check('wire-schema-valid', 'SUCCESS')).problems).toEqual([
    'none of its checks ran',
  ]);
  expect(judged(check('ping', 'SUCCESS'), check('wire-schema-valid', 'SUCCESS'))).toMatchObject({
    passed: 1,
    problems: [],
  });
  expect(
    judged(check('ping', 'SUCCESS'), check('wire-schema-valid', 'FAILURE')).problems,
  ).toHaveLength(1);
});

test('a warning, a skipped scenario and one that is missing do not pass', () => {
  expect(judged(check('a', 'SUCCESS'), check('b', 'WARNING')).problems).toHaveLength(1);
  expect(judged(check('a', 'SKIPPED'), check('b', 'INFO')).problems).toHaveLength(1);
  expect(judge('ping', '2025-11-25', undefined).problems).toHaveLength(1);
});

test('fewer checks than expected are a step back', () => {
  const expected = { '2025-11-25': { ping: 2 }, '2026-07-28': {} };
  const none = { '2025-11-25': {}, '2026-07-28': {} };
  const seen = { ...judged(check('a', 'SUCCESS')), leg: 'native' } as const;
  const all = { native: expected, plain: expected, client: none };
  expect(regressions(all, [seen])).toHaveLength(1);
  expect(regressions(all, [{ ...seen, passed: 2 }])).toEqual([]);
  expect(regressions(all, [{ ...seen, name: 'other' }])).toHaveLength(1);
});

test.for(REVISIONS)('where nothing listens, no scenario of %s passes', async (revision) => {
  const results = await runServerScenarios('http://127.0.0.1:1/mcp', revision);
  expect(results.length).toBeGreaterThanOrEqual(30);
  expect(results.filter(({ problems }) => problems.length === 0)).toEqual([]);
});

test('the page lists what is expected to pass, and with which suite', () => {
  expect(readPage()).toContain(render(readExpected()));
  expect(readPage()).toContain(`conformance\` ${suiteVersion()})`);
});
