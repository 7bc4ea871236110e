// What makes a `km` that a test starts run from `dist-tests/`, which `build-bundle.ts` makes.
import { fileURLToPath } from 'node:url';

export const BUILT = {
  KERNMANTLE_DIST: 'tests',
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../../dist-tests/compile', import.meta.url)),
} as const;

/** What makes it run from `src/`, with compiled code kept where a user has it. */
export const FROM_SOURCE = {
  KERNMANTLE_DIST: undefined,
  NODE_COMPILE_CACHE: undefined,
  KERNMANTLE_SRC: '1',
} as const;
