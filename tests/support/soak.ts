// `npm run soak` runs the same properties, kills and fuzzers for longer. Only this file knows how it
// is asked for.

export const isSoak = process.env.KERNMANTLE_SOAK === '1';

/** How often a property, a kill or a fuzzer runs: `often` now, and `soaked` times under `npm run soak`. */
export const runs = (often: number, soaked = often * 10): number => (isSoak ? soaked : often);

/** For a test with a time limit of its own; the others have that of `vitest.config.ts`. */
export const timeoutMs = (often: number): number => (isSoak ? often * 10 : often);
