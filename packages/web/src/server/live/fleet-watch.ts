// Reads workers, queues and leases once for all clients. The result is cached for a moment, so that
// the number of clients does not change the load of the store. It is read again when threads move,
// and every few seconds, because workers only send heartbeats.
import { type Clock, type Outcome, ok } from '@kernmantle/core/base';
import {
  type Fleet,
  GONE_MS,
  isEnded,
  type SharedLimit,
  type Store,
  THREAD_STATUSES,
} from '@kernmantle/core/store';
import type { FleetHold, FleetLimit, FleetState, FleetWorker } from '../../model/api.ts';

const ALIVE = THREAD_STATUSES.filter((status) => !isEnded(status));
const MAX_HELD = 200;
/** Shortest time between reads, and longest time while a client is connected. */
const KEPT_MS = 1000;
const AGAIN_MS = 3000;
/** The view shows a lost worker for some time. */
const LOST_MS = 10 * 60_000;
const MAX_LOST = 50;
/** A worker that leaves cleanly sent a heartbeat just before. */
const LEFT_MS = GONE_MS - 2000;
const NANO = 1e9;

interface FleetPorts {
  readonly store: Store;
  readonly clock: Clock;
  /** This project, as workers serve it. */
  served(): Outcome<{ project: string; items: string }>;
}

const limitOf = ({ spend_per_day: spend, ...limit }: SharedLimit): FleetLimit => ({
  ...limit,
  ...(spend === undefined ? {} : { spend_per_day: Number(spend) / NANO }),
});

/** Merges the live workers with those that vanished without a sign-off. */
function createRoll() {
  let previous: ReadonlyMap<string, FleetWorker> = new Map();
  return (workers: readonly Omit<FleetWorker, 'gone'>[], now: number): FleetWorker[] => {
    const here = workers.map((worker) => ({ ...worker, gone: false }));
    const names = new Set(here.map(({ id }) => id));
    const lost = [...previous.values()]
      .filter(
        ({ id, heartbeat }) =>
          !names.has(id) && now - heartbeat > LEFT_MS && now - heartbeat < LOST_MS,
      )
      .slice(-MAX_LOST)
      .map((worker) => ({ ...worker, busy: 0, gone: true }));
    const all = [...here, ...lost];
    previous = new Map(all.map((worker) => [worker.id, worker]));
    return all;
  };
}

/** Returns the threads with a lease. The last changed one is first. */
async function leasesIn(store: Store): Promise<Outcome<FleetHold[]>> {
  const page = await store.query({ status: ALIVE, order_by: 'updated', limit: MAX_HELD });
  if (!page.ok) return page;
  return ok(
    page.output.rows.flatMap(({ id, directive, status, owner, lease_until = 0 }) =>
      owner === undefined ? [] : [{ thread: id, directive, status, worker: owner, lease_until }],
    ),
  );
}

async function readFleet(
  fleet: Fleet,
  { store, served }: FleetPorts,
  roll: ReturnType<typeof createRoll>,
): Promise<Outcome<FleetState>> {
  const [now, workers, queues, held, limits] = await Promise.all([
    fleet.now(),
    fleet.workers(),
    fleet.queues(),
    leasesIn(store),
    fleet.limits(),
  ]);
  if (!now.ok) return now;
  if (!workers.ok) return workers;
  if (!queues.ok) return queues;
  if (!held.ok) return held;
  if (!limits.ok) return limits;
  const own = served();
  return ok({
    place: fleet.place,
    now: now.output,
    own: own.ok ? { project: own.output.project, items: own.output.items } : null,
    workers: roll(workers.output, now.output),
    queues: queues.output,
    held: held.output,
    limits: limits.output.map(limitOf),
  });
}

export function createFleetWatch(ports: FleetPorts) {
  const { store, clock } = ports;
  const { fleet } = store;
  const roll = createRoll();
  let latest: Promise<Outcome<FleetState | null>> | undefined;
  let [since, hasMoved] = [Number.NEGATIVE_INFINITY, false];
  return {
    /** Called when a thread has moved, because its lease can have a new owner. */
    move(): void {
      hasMoved = true;
    },
    /** True if the next read is due. */
    isDue(): boolean {
      const age = clock.monotonic() - since;
      return fleet !== undefined && (age >= AGAIN_MS || (hasMoved && age >= KEPT_MS));
    },
    /** Returns a result at most a second old, or null if the store is a file. */
    read(): Promise<Outcome<FleetState | null>> {
      if (!fleet) return Promise.resolve(ok(null));
      if (latest && clock.monotonic() - since < KEPT_MS) return latest;
      [since, hasMoved] = [clock.monotonic(), false];
      latest = readFleet(fleet, ports, roll);
      return latest;
    },
  };
}
