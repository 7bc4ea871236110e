// Reads and writes the list of passing checks (`packages/mcp/tests/conformance/expected.json`) and its page.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { REVISIONS, type Revision, ROOT, type Scenario } from './suite.ts';

/** `native`: the server with the suite's fixtures. `plain`: the server without fixtures. `client`: the client. */
export const LEGS = ['native', 'plain', 'client'] as const;
export type Leg = (typeof LEGS)[number];

export interface Result extends Scenario {
  readonly leg: Leg;
}

/** Number of successful checks of each passing scenario. */
type Passing = Readonly<Record<Revision, Readonly<Record<string, number>>>>;
export type Expected = Readonly<Record<Leg, Passing>>;

const DATA = join(ROOT, 'packages', 'mcp', 'tests', 'conformance', 'expected.json');
const PAGE = join(ROOT, 'docs', 'conformance.md');
const [BEGIN, END] = ['<!-- passing: begin -->', '<!-- passing: end -->'];

export const readExpected = (): Expected => JSON.parse(readFileSync(DATA, 'utf8')) as Expected;
export const readPage = (): string => readFileSync(PAGE, 'utf8');

/** Returns one line for each check that should pass and fails, for the legs and revisions that ran. */
export function regressions(expected: Expected, results: readonly Result[]): string[] {
  const run = new Set(results.map(({ leg, revision }) => `${leg} ${revision}`));
  return LEGS.flatMap((leg) =>
    REVISIONS.filter((revision) => run.has(`${leg} ${revision}`)).flatMap((revision) =>
      Object.entries(expected[leg][revision]).flatMap(([name, checks]) => {
        const found = results.find(
          (result) => result.leg === leg && result.revision === revision && result.name === name,
        );
        const where = `${leg} ${revision} ${name}`;
        if (!found) return [`${where}: it is not in this run`];
        if (found.problems.length > 0) return [`${where}: ${found.problems.join('; ')}`];
        const fewer = `${where}: ${found.passed} checks passed, ${checks} were expected`;
        return found.passed < checks ? [fewer] : [];
      }),
    ),
  );
}

/** Returns the list with the current results of the legs that ran. Other legs keep their results. */
export function updated(expected: Expected, results: readonly Result[]): Expected {
  const passingOf = (leg: Leg, revision: Revision): Record<string, number> =>
    Object.fromEntries(
      results
        .filter((result) => result.leg === leg && result.revision === revision)
        .filter(({ problems }) => problems.length === 0)
        .map(({ name, passed }) => [name, passed]),
    );
  const legOf = (leg: Leg): Passing =>
    results.some((result) => result.leg === leg)
      ? {
          '2025-11-25': passingOf(leg, '2025-11-25'),
          '2026-07-28': passingOf(leg, '2026-07-28'),
        }
      : expected[leg];
  return { native: legOf('native'), plain: legOf('plain'), client: legOf('client') };
}

/** Returns the tables of the page. */
export function render(expected: Expected): string {
  const [old, current] = REVISIONS;
  const table = (title: string, { [old]: first, [current]: second }: Passing): string => {
    const names = [...new Set([...Object.keys(first), ...Object.keys(second)])].toSorted();
    const count = (of: Readonly<Record<string, number>>) => Object.keys(of).length;
    return [
      `### ${title}`,
      '',
      `| Scenario | ${old} (${count(first)}) | ${current} (${count(second)}) |`,
      '| --- | ---: | ---: |',
      ...names.map((name) => `| \`${name}\` | ${first[name] ?? ''} | ${second[name] ?? ''} |`),
      '',
    ].join('\n');
  };
  return [
    BEGIN,
    '',
    table('Server, with the fixtures as items', expected.native),
    table('Server, as it is', expected.plain),
    table('Client', expected.client),
    END,
  ].join('\n');
}

export function writeExpected(expected: Expected): void {
  writeFileSync(DATA, `${JSON.stringify(expected, null, 2)}\n`);
  const page = readPage();
  const [before, after] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (before < 0 || after < before) throw new Error(`${PAGE} has no place for the list`);
  writeFileSync(PAGE, page.slice(0, before) + render(expected) + page.slice(after + END.length));
}
