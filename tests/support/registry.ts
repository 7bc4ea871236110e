// Creates a registry in a temporary folder, and a clock that does not advance by itself.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock, Outcome } from '@kernmantle/core/base';

export interface TestClock extends Clock {
  wall: number;
  steady: number;
  /** Advances both clocks. */
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

/** Returns the output of an outcome. Throws for a failure. */
export function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(`${outcome.error.code}: ${outcome.error.detail.message}`);
  return outcome.output;
}

export function codeOf(outcome: Outcome<unknown>): string {
  return outcome.ok ? 'ok' : outcome.error.code;
}
