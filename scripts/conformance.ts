// `npm run conformance`: the official MCP conformance suite against our server and our client; fails when
// something that docs/conformance.md lists as passing does not. `--leg native|plain|client` runs a part
// of it, `--json` prints data, `--write` makes the list anew from what passes.
import { parseArgs } from 'node:util';
import {
  type Expected,
  LEGS,
  type Leg,
  type Result,
  readExpected,
  regressions,
  updated,
  writeExpected,
} from './conformance/expected.ts';
import { startSubject } from './conformance/subject.ts';
import {
  REVISIONS,
  type Revision,
  requirementsOf,
  runClientScenario,
  runServerScenarios,
  type Scenario,
  suiteVersion,
} from './conformance/suite.ts';

// Started in the root of the repository; the suite splits it at spaces.
const DRIVER = 'node --no-warnings tests/conformance/client-driver.ts';

async function runLeg(leg: Leg): Promise<Scenario[]> {
  const results: Scenario[] = [];
  if (leg === 'client') {
    for (const [name, revision] of clientScenarios()) {
      results.push(await runClientScenario(DRIVER, name, revision));
    }
    return results;
  }
  const subject = await startSubject(leg);
  try {
    for (const revision of REVISIONS) {
      results.push(...(await runServerScenarios(subject.url, revision)));
    }
  } finally {
    await subject.stop();
  }
  return results;
}

/** Those about OAuth are left out: logging in is the SDK's, and needs a person. */
function clientScenarios(): [string, Revision][] {
  return REVISIONS.flatMap((revision) =>
    requirementsOf(revision)
      .client.filter((name) => !name.startsWith('auth/'))
      .map((name): [string, Revision] => [name, revision]),
  );
}

/** What needs a fixture says nothing about a server without any. */
const isShown = ({ leg, revision, name, problems }: Result, expected: Expected): boolean =>
  leg !== 'plain' || problems.length === 0 || name in expected.plain[revision];

function table(results: readonly Result[], expected: Expected): string {
  const shown = results.filter((result) => isShown(result, expected));
  const width = Math.max(...shown.map(({ name }) => name.length));
  const lines = shown.map(({ leg, revision, name, passed, problems }) => {
    const verdict = problems.length === 0 ? `${passed}`.padStart(3) : problems.join('; ');
    return `${leg.padEnd(6)} ${revision} ${name.padEnd(width)} ${verdict}`.slice(0, 400);
  });
  return [`@modelcontextprotocol/conformance ${suiteVersion()}`, ...lines].join('\n');
}

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    leg: { type: 'string', multiple: true },
    write: { type: 'boolean', default: false },
  },
});
const legs = LEGS.filter((leg) => values.leg?.includes(leg) ?? true);
const results: Result[] = [];
for (const leg of legs) {
  results.push(...(await runLeg(leg)).map((scenario) => ({ ...scenario, leg })));
}
if (values.write) writeExpected(updated(readExpected(), results));
const expected = readExpected();
const worse = regressions(expected, results);
process.stdout.write(
  values.json
    ? `${JSON.stringify({ suite: suiteVersion(), results, regressions: worse }, null, 2)}\n`
    : `${[table(results, expected), ...worse.map((line) => `should pass: ${line}`)].join('\n')}\n`,
);
process.exitCode = worse.length > 0 || legs.length === 0 ? 1 : 0;
