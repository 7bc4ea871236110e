// A lease that expires while its worker is alive is no crash, and a worker that brings the items of
// waiting threads ends their backoff. The stores are those of a real server.
import {
  GONE_MS,
  type LeasedThread,
  type NewEvent,
  type WorkerState,
} from '@kernmantle/core/store';
import { must } from '@kernmantle/test-support/registry';
import { aThread } from '@kernmantle/test-support/store-suite/stage';
import { expect, inject, onTestFinished, test } from 'vitest';
import { JOURNAL_FORMATS } from '../src/postgres/schema.ts';
import { countCrashes, MAX_CRASHES } from '../src/worker/worker-log.ts';
import { noServer, openServerStores } from './support/server-stores.ts';

const url = inject('postgres');
const onServer = test.skipIf(url === '');
const reason = noServer(url);

const worker = (id: string, items = 'sha256:1', draining = false): WorkerState => ({
  id,
  host: 'here',
  version: '1',
  journal: Math.max(...JOURNAL_FORMATS),
  slots: 4,
  busy: 1,
  memory: 5,
  draining,
  tenants: [''],
  projects: [{ project: 'p', items }],
});

const BEGIN: [NewEvent, ...NewEvent[]] = [
  { type: 'status', data: { status: 'running' } },
  { type: 'signal', data: { kind: 'resume', by: 'w' } },
];

async function openLab() {
  const stores = await openServerStores(url);
  onTestFinished(() => stores.close());
  const store = await stores.open();
  const { fleet } = store;
  if (!fleet) throw new Error('a server store has a fleet');
  must(await store.createThread(aThread('t', { project: 'p', start: { queue: {} } })));
  /** The worker takes the thread, counts crashes, begins if it is to, and loses its lease. */
  async function lapse(id: string, isBegun: boolean): Promise<number> {
    const [held] = must(
      await store.take({ owner: id, ttlMs: 9000 }, { count: 1, projects: ['p'] }),
    );
    if (!held) throw new Error('nothing is queued');
    const looked = must(await countCrashes(store, held, id));
    const { thread, epoch, row }: LeasedThread = looked.held;
    const commit = { expect: { seq: row.seq, epoch }, events: BEGIN, status: 'running' as const };
    if (isBegun) must(await store.commit(thread, commit));
    await stores.query("UPDATE @@.threads SET lease_until = 1 WHERE id = 't'");
    must(await store.sweep());
    return looked.crashes;
  }
  /** Sets the last announcement of a worker back by more than a worker may be silent. */
  const silence = (id: string) =>
    stores.query(
      'UPDATE @@.workers SET heartbeat = heartbeat - $2 WHERE id = $1',
      id,
      GONE_MS + 60_000,
    );
  return { stores, store, fleet, lapse, silence };
}

for (const isBegun of [true, false]) {
  const when = isBegun ? 'at work' : 'before it began';
  onServer(
    `leases that expire ${when} are no crashes while their workers are alive${reason}`,
    async () => {
      const { fleet, lapse } = await openLab();
      for (let at = 0; at < 3 * MAX_CRASHES; at++) {
        const id = `w${at % 3}`;
        must(await fleet.announce(worker(id)));
        expect(await lapse(id, isBegun)).toBe(0);
        must(await fleet.announce(worker(id)));
      }
    },
  );

  onServer(`workers that are lost ${when} are counted when they are silent${reason}`, async () => {
    const { fleet, lapse, silence } = await openLab();
    const counted: number[] = [];
    for (let at = 0; at < 4 * MAX_CRASHES && (counted.at(-1) ?? 0) < MAX_CRASHES; at++) {
      must(await fleet.announce(worker(`w${at}`)));
      counted.push(await lapse(`w${at}`, isBegun));
      await silence(`w${at}`);
    }
    expect(counted.at(-1)).toBe(MAX_CRASHES);
  });
}

onServer(
  `a worker that left in good order, or never announced itself, is not counted${reason}`,
  async () => {
    const { fleet, lapse } = await openLab();
    for (let at = 0; at < 2 * MAX_CRASHES; at++) {
      if (at % 2 === 0) must(await fleet.announce(worker(`w${at}`)));
      expect(await lapse(`w${at}`, true)).toBe(0);
      must(await fleet.leave(`w${at}`));
    }
  },
);

onServer(
  `a worker that announces items wakes the threads that wait for them${reason}`,
  async () => {
    const { stores, store, fleet } = await openLab();
    const ids = ['waits', 'other', 'never'];
    for (const id of ids) {
      const items = id === 'other' ? 'sha256:2' : 'sha256:1';
      must(await store.createThread(aThread(id, { project: 'p', items, start: { queue: {} } })));
    }
    const back = async (id: string, delayMs: number): Promise<void> => {
      const held = must(await store.claim(id, { owner: 'w', ttlMs: 9000 }));
      must(await store.release(held, { again: true, delayMs }));
    };
    await back('waits', 60_000);
    await back('other', 60_000);
    await back('never', 86_400_000);
    const due = async (): Promise<string[]> => {
      const rows = await stores.query<{ id: string }>(
        'SELECT id FROM @@.threads WHERE queued <= @@.km_now() ORDER BY id',
      );
      return rows.map(({ id }) => id);
    };
    must(await fleet.announce(worker('drains', 'sha256:1', true)));
    expect(await due()).toEqual(['t']);
    must(await fleet.announce(worker('w1')));
    expect(await due()).toEqual(['t', 'waits']);
    // The job of the queue is due as well, so a worker that asks gets the thread.
    const wanted = { count: 5, projects: ['p'], waitMs: 2000 };
    const taken = must(await store.take({ owner: 'w1', ttlMs: 9000 }, wanted));
    expect(taken.map(({ thread }) => thread).sort()).toEqual(['t', 'waits']);
    // An announcement of the same items changes nothing; new items of a worker do.
    for (const held of taken) must(await store.release(held, { again: true, delayMs: 60_000 }));
    must(await fleet.announce(worker('w1')));
    expect(await due()).toEqual([]);
    must(await fleet.announce(worker('w1', 'sha256:2')));
    expect(await due()).toEqual(['other']);
  },
);
