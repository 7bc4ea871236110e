// `npm run conformance`: runs the official MCP conformance suite against the server and the client of this repository.
// It fails if a check fails that docs/conformance.md lists as passing. `--leg native|plain|client` runs a part of it,
// `--json` prints data, and `--write` writes the list again from the current results.
import { parseArgs } from 'node:util';
import { CLIENT_DRIVER, clientScenarios } from './conformance/client.ts';
import {
  LEGS,
  type Leg,
  type Result,
  readExpected,
  regressions,
  updated,
  writeExpected,
} from './conformance/expected.ts';
import { NEEDS_NO_FIXTURE, startSubject } from './conformance/subject.ts';
import {
  REVISIONS,
  runClientScenario,
  runServerScenarios,
  type Scenario,
  suiteVersion,
} from './conformance/suite.ts';

async function runLeg(leg: Leg): Promise<Scenario[]> {
  const results: Scenario[] = [];
  if (leg === 'client') {
    for (const [name, revision] of clientScenarios()) {
      results.push(await runClientScenario(CLIENT_DRIVER, name, revision));
    }
    return results;
  }
  const subject = await startSubject(leg);
  try {
    for (const revision of REVISIONS) {
      const found = await runServerScenarios(subject.url, revision);
      results.push(...found.filter(({ name }) => leg === 'native' || NEEDS_NO_FIXTURE.has(name)));
    }
  } finally {
    await subject.stop();
  }
  return results;
}

function table(results: readonly Result[]): string {
  const width = Math.max(...results.map(({ name }) => name.length));
  const lines = results.map(({ leg, revision, name, passed, problems }) => {
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
if (legs.length === 0) throw new Error(`there are the legs ${LEGS.join(', ')}`);
const results: Result[] = [];
for (const leg of legs) {
  results.push(...(await runLeg(leg)).map((scenario) => ({ ...scenario, leg })));
}
if (values.write) writeExpected(updated(readExpected(), results));
const worse = regressions(readExpected(), results);
process.stdout.write(
  values.json
    ? `${JSON.stringify({ suite: suiteVersion(), results, regressions: worse }, null, 2)}\n`
    : `${[table(results), ...worse.map((line) => `should pass: ${line}`)].join('\n')}\n`,
);
process.exitCode = worse.length > 0 ? 1 : 0;
