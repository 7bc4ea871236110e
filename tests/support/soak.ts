// `npm run soak` runs the same properties, kills and fuzzers for longer. Only this file knows how it
// is asked for.

export const isSoak = process.env.KERNMANTLE_SOAK === '1';

/** How often a property, a kill or a fuzzer runs: `often` now, and `soaked` times under `npm run soak`. */
export const runs = (often: number, soaked = often * 10): number => (isSoak ? soaked : often);

/** `KERNMANTLE_SLOW=3` multiplies every time limit of a test by 3, for a machine that is busy with other work. */
const slow = Math.max(1, Number(process.env.KERNMANTLE_SLOW ?? 1) || 1);

/** Time limit of a test or a poll. `vitest.config.ts` uses it for the defaults. */
export const timeoutMs = (often: number): number => often * slow * (isSoak ? 10 : 1);

/** Time limit of `expect.poll`. It is well below the limit of a test, so that a second poll can still report. */
export const pollMs = 10_000 * slow;
