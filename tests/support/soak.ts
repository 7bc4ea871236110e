// Controls the length of tests: `npm run soak` runs the same properties, kills and fuzzers for longer. Only this file
// reads the setting.

export const isSoak = process.env.KERNMANTLE_SOAK === '1';

/** True in soak runs and in CI. `npm test` on a developer's machine skips cases that need half a minute each. */
export const isSoakOrCi = isSoak || Boolean(process.env.CI);

/** Returns the number of runs of a property, a kill or a fuzzer: `often`, or `soaked` under `npm run soak`. */
export const runs = (often: number, soaked = often * 10): number => (isSoak ? soaked : often);

/** `KERNMANTLE_SLOW=3` multiplies every time limit of a test by 3, for a machine that is busy with other work. */
const slow = Math.max(1, Number(process.env.KERNMANTLE_SLOW ?? 1) || 1);

/** Returns the time limit of a test or a poll. `vitest.config.ts` uses it for the defaults. */
export const timeoutMs = (often: number): number => often * slow * (isSoak ? 10 : 1);

/** Time limit of `expect.poll`. It is well below the limit of a test, so that a second poll can still report. */
export const pollMs = 10_000 * slow;

/** Day whose share of the long tests runs. `KERNMANTLE_SEED` sets it. Default: today. */
const day = Number(process.env.KERNMANTLE_SEED ?? Math.floor(Date.now() / 86_400_000));

/**
 * Returns the share of `all` that runs now: `count` neighbours that move on every day, so that ordinary use runs all of
 * them within a week. `npm run soak` runs all. The titles of the tests show the share, and the same `KERNMANTLE_SEED`
 * selects it again.
 */
export function ofToday<Case>(all: readonly Case[], count: number, on = day): Case[] {
  if (isSoak || count >= all.length) return [...all];
  const start = (on * count) % all.length;
  return [...all, ...all].slice(start, start + count);
}
