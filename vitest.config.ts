import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BUILT } from './tests/support/built.ts';
import { LongestFirst } from './tests/support/durations.ts';
import { testPath } from './tests/support/path.ts';
import { isSoak, isSoakOrCi, ofToday, pollMs, timeoutMs } from './tests/support/soak.ts';

const BUNDLE = 'tests/support/build-bundle.ts';
const PAGE = 'packages/web/tests/support/build-page.ts';
const CASES = ['packages/core/tests/cases/**/*.test.ts', 'packages/script/tests/cases.test.ts'];
const CRASH = ['packages/core/tests/crash/**/*.test.ts'];
/** Servers and clients that speak to each other over real connections. */
const PEERS = [
  'packages/mcp/tests/**/*.test.ts',
  'packages/web/tests/**/*.test.ts',
  'packages/mcp/tests/conformance/**/*.test.ts',
];
/** Over a real PostgreSQL, started once for all of them. */
const FLEET = [
  'packages/fleet/tests/**/*.test.ts',
  'packages/fleet/tests/store/postgres*.test.ts',
  'packages/web/tests/page-fleet.test.ts',
];
const SUPPORT = ['tests/*.test.ts', 'tests/support/**/*.test.ts'];

/** They build the package as it is published: CI runs them after `npm run build`, and `npm run soak` does. */
const PUBLISHED = ['build', 'one-machine', 'types'].map(
  (name) => `packages/kernmantle/tests/package/${name}.test.ts`,
);

/** Over a store whose answers come late: these need the registry's file, or are about how soon a word is heard. */
const ON_FILE = [
  'approvals',
  'damaged-registry',
  'provenance',
  'retention',
  'rewind',
  'replay',
  'replay-tree',
  'many-threads',
  'transcript',
].map((name) => `packages/core/tests/threads/${name}.test.ts`);
const late = (seed: number) => ({
  test: {
    name: `late ${seed}`,
    include: ['packages/core/tests/threads/**/*.test.ts'],
    exclude: ON_FILE,
    env: { KERNMANTLE_LATE_STORE: String(seed) },
    globalSetup: [BUNDLE],
  },
});
const LATE = isSoakOrCi ? ofToday([1, 2, 3], 1).map(late) : [];

export default defineConfig({
  test: {
    // End-to-end tests start the command line from a build of their own, never from a stale `dist/`.
    env: { ...BUILT, PATH: testPath(), KERNMANTLE_SRC: '1', NO_COLOR: '1' },
    testTimeout: isSoak ? 1_800_000 : timeoutMs(60_000),
    expect: { poll: { timeout: pollMs } },
    hookTimeout: timeoutMs(30_000),
    globalSetup: ['tests/support/leftovers.ts', 'packages/web/tests/support/browser-server.ts'],
    pool: 'forks',
    // On Node 22 the commands of tests run in the process of the test, without the launcher that hides this warning.
    execArgv: ['--disable-warning=ExperimentalWarning'],
    // Many tests wait for a process or a server: more workers than cores keep the cores busy. CI, whose
    // machine may do other work, has one less.
    maxWorkers: availableParallelism() + (process.env.CI ? 1 : 2),
    sequence: { sequencer: LongestFirst },
    // Tests change nothing that another file sees, and there are no mocks: one process runs many
    // files and loads the modules once. INVARIANT: a helper registers what it undoes in the test
    // that calls it, never when it is imported.
    isolate: false,
    projects: [
      {
        test: {
          name: 'unit',
          include: ['packages/*/src/**/*.test.ts', ...SUPPORT],
          setupFiles: ['tests/support/budget.ts'],
        },
      },
      { test: { name: 'cases', include: CASES, globalSetup: [BUNDLE] } },
      {
        test: {
          name: 'e2e',
          include: ['packages/*/tests/**/*.test.ts'],
          exclude: [
            ...CASES,
            ...CRASH,
            ...PEERS,
            ...FLEET,
            ...SUPPORT,
            ...(isSoakOrCi ? [] : PUBLISHED),
          ],
          globalSetup: [BUNDLE],
        },
      },
      {
        test: {
          name: 'peers',
          include: PEERS,
          exclude: FLEET,
          globalSetup: [BUNDLE, PAGE],
        },
      },
      {
        test: {
          name: 'fleet',
          include: FLEET,
          globalSetup: [BUNDLE, PAGE, 'packages/fleet/tests/support/setup.ts'],
        },
      },
      { test: { name: 'crash', include: CRASH, globalSetup: [BUNDLE] } },
      ...LATE,
    ],
  },
});
