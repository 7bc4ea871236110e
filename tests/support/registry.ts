// For tests: a registry in a temporary folder, and a clock that stands still until it is moved.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock, Outcome } from '../../src/base/index.ts';
import { openStore, type Store, type StoreOptions } from '../../src/store/store.ts';
import type { NewThread } from '../../src/store/threads/threads.ts';

export interface TestClock extends Clock {
  wall: number;
  steady: number;
  /** Both clocks go on. */
  pass(ms: number): void;
}

export function makeClock(wall = 1_700_000_000_000): TestClock {
  return {
    wall,
    steady: 5000,
    now() {
      return this.wall;
    },
    monotonic() {
      return this.steady;
    },
    pass(ms) {
      this.wall += ms;
      this.steady += ms;
    },
  };
}

export interface TestPlace {
  dir: string;
  file: string;
  remove(): void;
}

export function makePlace(): TestPlace {
  const dir = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-store-')));
  return {
    dir,
    file: join(dir, 'threads', 'registry.db'),
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
}

export interface TestStore extends TestPlace {
  store: Store;
  clock: TestClock;
  /** Another connection to the same file. */
  another(options?: Partial<StoreOptions>): Store;
}

/** The output of an outcome that must be one. */
export function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}

export function codeOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : outcome.error.code;
}

export function makeStore(options: Partial<StoreOptions> = {}): TestStore {
  const place = makePlace();
  const clock = makeClock();
  const stores: Store[] = [];
  const another = (more: Partial<StoreOptions> = {}): Store => {
    const store = must(openStore({ file: place.file, clock, ...options, ...more }));
    stores.push(store);
    return store;
  };
  return {
    ...place,
    store: another(),
    clock,
    another,
    remove() {
      for (const store of stores) store.close();
      place.remove();
    },
  };
}

export const aThread = (id: string, more: Partial<NewThread> = {}): NewThread => ({
  id,
  directive: 'deploy',
  version: '1.0.0',
  runner: 'safety',
  project: '/project',
  limits: { turns: 10 },
  budget: {},
  inputs: { target: 'staging' },
  ...more,
});
