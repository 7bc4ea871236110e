// Forks in a store that machines share: the fork is queued with the prefix, and the worker that takes it starts it.
import { got, openFleetStage, openWorker } from '@kernmantle/test-support/fleet-stage';
import {
  EFFECT_TOOLS,
  type ForkStage,
  forkEverywhere,
  printForks,
  RANDOM_FILES,
  RANDOM_PLAY,
} from '@kernmantle/test-support/random-threads';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import { expect, test } from 'vitest';

test(
  'random threads are forked at every boundary, and a worker runs the forks',
  async () => {
    const made = await openFleetStage(RANDOM_FILES, RANDOM_PLAY, { tools: EFFECT_TOOLS });
    const worker = await openWorker(made, { tools: EFFECT_TOOLS });
    const { threads } = worker;
    const stage: ForkStage = {
      threads: {
        ...threads,
        async run(request) {
          got(await made.threads.enqueue(request));
          const { held, since } = await worker.take();
          return await threads.resumeLeased(held, since);
        },
        // A worker takes what was queued, and resumes nothing else.
        resume: async () => {
          const { held, since } = await worker.take();
          return await threads.resumeLeased(held, since);
        },
        enqueueFork: (id, options) => made.threads.enqueueFork(id, options),
      },
      async rest(start) {
        return got(await start()).thread_id;
      },
    };
    const count = runs(3, 100);
    let forks = 0;
    for (let seed = 0; seed < count; seed++) forks += await forkEverywhere(stage, seed);
    printForks(count, forks);
    expect(forks).toBeGreaterThan(6);
  },
  timeoutMs(240_000),
);
