import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.test.ts', 'tests/**/*.test.ts'],
    // End-to-end tests start the command line from `src/`, never from a stale `dist/`.
    env: { KERNMANTLE_SRC: '1', NO_COLOR: '1' },
    testTimeout: 30_000,
    // Waiting for something to come true: as long as a test may take, for a busy machine.
    expect: { poll: { timeout: 25_000 } },
    hookTimeout: 30_000,
    globalSetup: ['tests/support/leftovers.ts'],
    pool: 'forks',
  },
});
