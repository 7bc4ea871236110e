// CPU budget of a unit test file. Only CPU time counts, because the wall time of a busy machine says
// nothing about a test. Long forms belong into `npm run soak`: see `soak.ts`.
import { afterAll, expect } from 'vitest';
import { isSoak } from './soak.ts';

const BUDGET_S = 5;
/** Machines differ, a busy one is slower, and the first file of a process loads the modules. */
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
