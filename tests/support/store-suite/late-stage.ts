// Wraps any stage so that the answers of its stores are delayed.
import type { Store } from '../../../packages/core/src/store/port.ts';
import { delayAnswers } from '../late-store.ts';
import type { OpenStage } from './stage.ts';

/** Returns the stage with delays. Each store has its own delays, which are equal for the same seed. */
export function lateStage(seed: number, open: OpenStage): OpenStage {
  let stores = 0;
  const late = (store: Store): Store => {
    stores += 1;
    return delayAnswers(store, seed * 1000 + stores);
  };
  return async () => {
    const stage = await open();
    return { ...stage, store: late(stage.store), another: async () => late(await stage.another()) };
  };
}
