import type { FleetState } from '@kernmantle/web';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fleetHead, fleetLines } from './fleet-view.ts';

const plain = (_: string, text: string): string => text;
const OWN = { project: 'prj_own', items: 'sha256:aaaaaaaabbbb' };
type Worker = FleetState['workers'][number];
const worker = (id: string, more: Partial<Worker> = {}): Worker => ({
  id: `${id}:12@0f.1.2`,
  host: id,
  version: '1.0.0',
  slots: 8,
  busy: 0,
  tenants: [''],
  projects: [OWN],
  draining: false,
  memory: 120_000_000,
  clock_off: 0,
  started: 0,
  heartbeat: 99_000,
  gone: false,
  ...more,
});
const FLEET: FleetState = {
  place: 'postgres://db/km',
  now: 100_000,
  own: OWN,
  workers: [
    worker('calm', { busy: 2 }),
    worker('late', { heartbeat: 90_000 }),
    worker('lost', { heartbeat: 80_000, gone: true }),
    worker('off', { draining: true, clock_off: 600_000 }),
    worker('other', {
      projects: [{ project: 'prj_x', items: 'sha256:ccccccccdd' }, OWN, { ...OWN, project: 'p' }],
      tenants: ['acme'],
    }),
  ],
  queues: [
    { ...OWN, tenant: '', ready: 5, later: 1, oldest: 88_000, served_by: 2 },
    {
      tenant: 'acme',
      project: 'prj_own',
      items: 'sha256:dddddddd',
      ready: 1,
      later: 0,
      oldest: 0,
      served_by: 0,
    },
  ],
  held: [
    {
      thread: 'talk_1',
      directive: 'talk',
      status: 'running',
      worker: 'calm:12@0f.1.2',
      lease_until: 108_000,
    },
    {
      thread: 'talk_2',
      directive: 'talk',
      status: 'running',
      worker: 'lost:12@0f.1.2',
      lease_until: 90_000,
    },
  ],
  limits: [],
};

const textAt = (width: number): string =>
  fleetLines(FLEET, { width, height: 50 }, FLEET.now, plain).join('\n');

test('workers with how they are, queues with who serves them, threads with who holds them', () => {
  const text = textAt(140);
  expect(text).toMatch(/● calm:12 .*at work .*2\/8 busy .*120 MB .*1 s ago serves this project$/m);
  expect(text).toMatch(/◆ late:12 .*silent .*10 s ago/);
  expect(text).toMatch(/⊘ lost:12 .*gone .*20 s ago/);
  expect(text).toMatch(/‖ off:12 .*draining .*clock 10 m 00 s ahead, serves/);
  expect(text).toMatch(/other:12 .*serves this project and 2 more for acme$/m);
  expect(text).toMatch(
    /this project \(aaaaaaaa\); 5 wait, the first for 12 s, 1 later; 2 workers serve it/,
  );
  expect(text).toMatch(
    /! this project, other items \(dddddddd\); tenant acme; .*no worker serves it/,
  );
  expect(text).toMatch(/talk_1 +running +8 s left +calm:12$/m);
  expect(text).toMatch(/talk_2 +running +expired +lost:12$/m);
  expect(fleetHead(FLEET, 140, plain)).toBe(
    '4 workers, 1 gone, 2 of 32 slots busy, 7 queued, 1 without a worker',
  );
});

test('names of other machines do not steer the terminal, and no line is too wide', () => {
  const evil = 'x\u001b[2J\u202e\u0007';
  const fleet: FleetState = {
    ...FLEET,
    workers: [
      worker(evil, { projects: [{ project: evil, items: evil }], tenants: [evil], busy: 1 }),
    ],
    queues: [
      {
        tenant: evil,
        project: evil,
        items: evil,
        ready: 1,
        later: 0,
        oldest: 0,
        served_by: 0,
      },
    ],
    held: [{ thread: 't', directive: evil, status: 'running', worker: evil, lease_until: 0 }],
  };
  fc.assert(
    fc.property(fc.integer({ min: 24, max: 200 }), fc.nat(20), (width, height) => {
      const lines = fleetLines(fleet, { width, height }, fleet.now, plain);
      expect(lines.length).toBeLessThanOrEqual(height);
      expect(lines.join('')).not.toMatch(/[\u001b\u0007]/);
      const clean = fleetLines(FLEET, { width, height }, FLEET.now, plain);
      expect(Math.max(0, ...clean.map((line) => line.length))).toBeLessThanOrEqual(width);
    }),
  );
});
