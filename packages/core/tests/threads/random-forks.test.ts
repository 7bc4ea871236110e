// Random threads, each forked at every boundary: the prefix is equal, the source and its effects stay as they were, and
// the fork is replayed without a difference.
import { hasOwnClock } from '@kernmantle/test-support/fleet-stage';
import {
  EFFECT_TOOLS,
  fileStage,
  forkEverywhere,
  printForks,
  RANDOM_FILES,
  RANDOM_PLAY,
} from '@kernmantle/test-support/random-threads';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import { openStage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';

test.skipIf(!hasOwnClock())(
  'random threads are forked at every boundary',
  async () => {
    const made = await openStage(RANDOM_FILES, RANDOM_PLAY, { tools: EFFECT_TOOLS });
    const threads = runs(4, 100);
    let forks = 0;
    for (let seed = 0; seed < threads; seed++) {
      forks += await forkEverywhere(fileStage(made), seed);
    }
    printForks(threads, forks);
    expect(forks).toBeGreaterThan(8);
  },
  timeoutMs(240_000),
);
