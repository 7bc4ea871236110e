// Limits the CPU of a unit test file. Only CPU time counts, because the wall time of a busy machine does not depend on
// the test. Long forms belong in `npm run soak`: see `soak.ts`.
import { afterAll, expect } from 'vitest';
import { isSoak } from './soak.ts';

const BUDGET_S = 5;
/** Factor for slower or busy machines, and for the first file of a process, which loads the modules. */
const MARGIN = 4;

const before = process.cpuUsage();

afterAll(() => {
  const { user, system } = process.cpuUsage(before);
  const seconds = (user + system) / 1_000_000;
  if (isSoak || seconds <= BUDGET_S) return;
  const message = `${expect.getState().testPath} used ${seconds.toFixed(1)} s CPU; a unit file may use ${BUDGET_S} s: lower its \`runs\``;
  if (process.env.CI && seconds > BUDGET_S * MARGIN) throw new Error(message);
  process.stderr.write(`${message}\n`);
});
