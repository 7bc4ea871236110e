// Loads the libraries for a server. INVARIANT: only this file loads them, and only for a store with an
// address, so a user with one machine never needs them.
import { createRequire } from 'node:module';
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import type pgTypes from 'pg';
import type { PgBoss as PgBossClass } from 'pg-boss';

/** One transaction writes our tables and those of the queue, so the version of the queue is fixed. */
const BOSS_VERSION = '12.35.0';
const INSTALL = `npm install pg pg-boss@${BOSS_VERSION}`;

interface Drivers {
  readonly pg: typeof pgTypes;
  readonly PgBoss: typeof PgBossClass;
}

/** Source of the libraries. Tests replace it to remove one. */
interface DriverSource {
  pg(): Promise<{ default: Drivers['pg'] }>;
  boss(): Promise<{ PgBoss: Drivers['PgBoss'] }>;
  bossVersion(): string | undefined;
}

const INSTALLED: DriverSource = {
  pg: () => import('pg'),
  boss: () => import('pg-boss'),
  bossVersion() {
    const { version }: { version?: string } = createRequire(import.meta.url)(
      'pg-boss/package.json',
    );
    return version;
  },
};

/** Returns true if a module is not installed. Any other error is thrown. */
const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';

async function loadOptional<T>(load: () => Promise<T>): Promise<T | undefined> {
  try {
    return await load();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Loads both libraries. Fails with `drivers_missing` if one is missing or has another version. */
export async function loadDrivers(source: DriverSource = INSTALLED): Promise<Outcome<Drivers>> {
  const [pg, boss] = await Promise.all([loadOptional(source.pg), loadOptional(source.boss)]);
  if (pg && boss) {
    const version = source.bossVersion();
    if (version === BOSS_VERSION) return ok({ pg: pg.default, PgBoss: boss.PgBoss });
    const message = `a store on a server needs pg-boss ${BOSS_VERSION}, but ${version ?? 'another version'} is installed; run \`${INSTALL}\``;
    return fail('drivers_missing', message, { install: INSTALL, wrong: ['pg-boss'] });
  }
  const missing = [...(pg ? [] : ['pg']), ...(boss ? [] : ['pg-boss'])];
  const message = `a store on a server needs ${missing.join(' and ')}, which ${missing.length === 1 ? 'is' : 'are'} not installed; run \`${INSTALL}\``;
  return fail('drivers_missing', message, { install: INSTALL, missing });
}
