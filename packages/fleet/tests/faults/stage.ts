// Three workers, each behind a wire of its own, over one database that can fall over.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { openAt } from '../../../../bench/fleet/holder.ts';
import { type Started, start } from '../../../../bench/fleet/processes.ts';
import type { DatabaseServer } from '../../../../bench/fleet/server.ts';
import { nowMicros } from '../../../../bench/fleet/work.ts';
import type { Store } from '../../../core/src/store/port.ts';
import type { Hit } from './checks.ts';
import { startProxy, type WireProxy } from './proxy.ts';

const WORKER = fileURLToPath(new URL('./fault-worker.ts', import.meta.url));
export const LEASE_MS = 10_000;

export interface FaultStage {
  readonly store: Store;
  readonly folder: string;
  readonly hits: Hit[];
  /** One fault more, of a kind and on a victim chosen by chance; answers when the next may come. */
  strike(chance: () => number): Promise<string>;
  /** Everything works again. */
  calm(): Promise<void>;
  close(): Promise<void>;
}

interface Place {
  proxy: WireProxy;
  process: Started;
  /** Under a fault just now. */
  struck?: Promise<void>;
}

export interface StageOptions {
  server: DatabaseServer;
  /** With its schema, and migrated. */
  address: string;
  fenced?: boolean;
  slots?: number;
}

const throughPort = (address: string, port: number): string => {
  const url = new URL(address);
  url.port = String(port);
  return url.href;
};

export async function openFaultStage(options: StageOptions): Promise<FaultStage> {
  const { server, address, fenced = true, slots = 40 } = options;
  const folder = mkdtempSync(join(tmpdir(), 'km-faults-'));
  const store = await openAt(address);
  const hits: Hit[] = [];
  const begin = (proxy: WireProxy): Started =>
    start(WORKER, [
      throughPort(address, proxy.port),
      folder,
      String(slots),
      fenced ? 'fenced' : 'unfenced',
    ]);
  const places: Place[] = [];
  for (let index = 0; index < 3; index++) {
    const proxy = await startProxy(server.port);
    places.push({ proxy, process: begin(proxy) });
  }
  for (const { process: worker } of places) await worker.said('up');

  /** Longer than a lease, so that others have its threads when it comes back. */
  const absence = (chance: () => number): number => LEASE_MS + 1_000 + chance() * 2_500;
  const hit = (kind: string, place: Place): void => {
    hits.push({ kind, owner: `w-${place.process.pid}`, micros: nowMicros() });
  };
  const during = (place: Place, act: () => Promise<void>): void => {
    place.struck = act().then(() => {
      delete place.struck;
    });
  };
  const running = (): Promise<void>[] => places.flatMap(({ struck }) => (struck ? [struck] : []));
  const KINDS: Readonly<Record<string, (place: Place, chance: () => number) => void>> = {
    kill(place) {
      hit('kill', place);
      place.process.child.kill('SIGKILL');
      during(place, async () => {
        await sleep(300);
        place.process = begin(place.proxy);
        await place.process.said('up');
      });
    },
    stop(place, chance) {
      const ms = absence(chance);
      hit('stop', place);
      place.process.child.kill('SIGSTOP');
      during(place, async () => {
        await sleep(ms);
        place.process.child.kill('SIGCONT');
      });
    },
    freeze(place, chance) {
      const [ms, cut] = [absence(chance), chance() < 0.5];
      hit('freeze', place);
      place.proxy.freeze();
      during(place, async () => {
        await sleep(ms);
        place.proxy.thaw(cut ? 'cut' : undefined);
      });
    },
  };
  return {
    store,
    folder,
    hits,
    async strike(chance) {
      const roll = chance();
      if (roll < 0.1) {
        const how = chance() < 0.5 ? 'fast' : 'crash';
        await server.restart(how);
        return `database restart (${how})`;
      }
      const kind = roll < 0.5 ? 'kill' : roll < 0.75 ? 'stop' : 'freeze';
      // One of them at least is left in peace, to go on with what the others had.
      for (;;) {
        const well = places.filter(({ struck }) => struck === undefined);
        const place = well[Math.floor(chance() * well.length)];
        if (place && well.length > 1) {
          KINDS[kind]?.(place, chance);
          return `${kind} w-${place.process.pid}`;
        }
        await Promise.race(running());
      }
    },
    async calm() {
      await Promise.all(running());
    },
    async close() {
      await Promise.all(running());
      for (const { process: worker } of places) worker.child.kill('SIGKILL');
      for (const { proxy } of places) await proxy.close();
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Until all of these threads have ended, or so much time is over. */
export async function allEnded(
  store: Store,
  directive: string,
  count: number,
  withinMs: number,
): Promise<boolean> {
  const until = performance.now() + withinMs;
  while (performance.now() < until) {
    const done = await store.query({ directive, status: 'completed', limit: 500 });
    let ended = done.ok ? done.output.rows.length : 0;
    for (let page = done; page.ok && page.output.next_cursor !== undefined; ) {
      const cursor = page.output.next_cursor;
      page = await store.query({ directive, status: 'completed', limit: 500, cursor });
      ended += page.ok ? page.output.rows.length : 0;
    }
    if (ended >= count) return true;
    await sleep(100);
  }
  return false;
}

/** The same numbers for the same seed. */
export function chanceOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Tried again while the database is away. */
export async function insist<T>(act: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    const value = await act();
    if (isDone(value) || attempt > 300) return value;
    await sleep(100);
  }
}
