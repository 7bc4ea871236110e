// Order of test files by their durations, which `tests/durations.json` holds in milliseconds.
// `npm test -- --reporter=default --reporter=./tests/support/durations.ts` rewrites the rows of the
// files that it runs.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { BaseSequencer, type Reporter, type TestModule, type TestSpecification } from 'vitest/node';

const FILE = 'tests/durations.json';
const readDurations = (): Record<string, number> => JSON.parse(readFileSync(FILE, 'utf8'));

/** Writes the duration of each file, its imports included, and drops rows of deleted files. */
export default class DurationReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const durations = readDurations();
    for (const module of modules) {
      const { collectDuration, duration } = module.diagnostic();
      // Tenths of a second are exact enough, and the next run changes fewer rows.
      durations[module.relativeModuleId] = Math.round((collectDuration + duration) / 100) * 100;
    }
    const rows = Object.entries(durations).filter(([path]) => existsSync(path));
    rows.sort(([one], [other]) => (one < other ? -1 : 1));
    writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(rows), null, 2)}\n`);
  }
}

/**
 * Runs the longest file first, so that it does not run alone at the end. A file without a row counts as the
 * longest. Files of a project stay together, because a worker that changes the project starts a new
 * process and loads all modules again. The project with the shortest longest file comes last.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const durations = readDurations();
    const durationOf = ({ moduleId }: TestSpecification): number =>
      durations[relative(this.ctx.config.root, moduleId)] ?? Number.MAX_SAFE_INTEGER;
    const sorted = files.toSorted((one, other) => durationOf(other) - durationOf(one));
    return [...Map.groupBy(sorted, ({ project }) => project.name).values()].flat();
  }
}
