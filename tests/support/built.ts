// Finds `km` and other programs that tests start. They run from `dist-tests/`, which `build-bundle.ts` builds.
import { fileURLToPath } from 'node:url';

/** Environment that runs `km` from there. It also caches the compiled code of every program. */
export const BUILT = {
  KERNMANTLE_DIST: 'tests',
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../dist-tests/compile', import.meta.url)),
} as const;

/** Environment that runs `km` from `src/`, with compiled code in the cache of a user. */
export const FROM_SOURCE = {
  KERNMANTLE_DIST: undefined,
  NODE_COMPILE_CACHE: undefined,
  KERNMANTLE_SRC: '1',
} as const;

/** Address of the library for a program that a test writes. */
export const LIBRARY = new URL('../../dist-tests/index.js', import.meta.url).href;

/** Address of its helpers for tests. */
export const TESTING = new URL('../../dist-tests/testing.js', import.meta.url).href;

/** Programs that tests start as separate processes, by name. */
export const PROGRAMS = {
  'copy-killed': 'packages/fleet/tests/support/copy-killed.ts',
  'fleet-process': 'tests/support/fleet-process.ts',
  'fork-process': 'tests/support/fork-process.ts',
  forgetful: 'packages/mcp/tests/support/forgetful.ts',
  'limit-worker': 'packages/fleet/tests/support/limit-worker.ts',
  'next-worker': 'packages/fleet/tests/support/next-worker.ts',
  'sandbox-driver': 'tests/support/sandbox-driver.ts',
  'store-writer': 'tests/support/store-writer.ts',
  'thread-process': 'tests/support/thread-process.ts',
} as const;

/** Returns the arguments of `node` that start a program of the tests. Its environment must contain `BUILT`. */
export const programWords = (
  name: keyof typeof PROGRAMS,
  ...words: readonly string[]
): string[] => [
  '--no-warnings',
  fileURLToPath(new URL(`../../dist-tests/programs/${name}.js`, import.meta.url)),
  ...words,
];
