// The libraries that speak to a server. INVARIANT: they are loaded here alone, and only for somebody who
// has given an address; people with one machine neither load nor need them.
import { createRequire } from 'node:module';
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import type pgTypes from 'pg';
import type { PgBoss as PgBossClass } from 'pg-boss';

/** Our tables and the engine's stand in one transaction, so its form is part of ours. */
const BOSS_VERSION = '12.35.0';
const INSTALL = `npm install pg pg-boss@${BOSS_VERSION}`;

interface Drivers {
  readonly pg: typeof pgTypes;
  readonly PgBoss: typeof PgBossClass;
}

/** Where the libraries come from; tests take one away. */
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

/** Not there at all; what is there and broken is thrown on. */
const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';

async function wanted<T>(load: () => Promise<T>): Promise<T | undefined> {
  try {
    return await load();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** `drivers_missing` names what is not installed, or is in another version, and the line that installs it. */
export async function loadDrivers(source: DriverSource = INSTALLED): Promise<Outcome<Drivers>> {
  const [pg, boss] = await Promise.all([wanted(source.pg), wanted(source.boss)]);
  if (pg && boss) {
    const version = source.bossVersion();
    if (version === BOSS_VERSION) return ok({ pg: pg.default, PgBoss: boss.PgBoss });
    const message = `a store on a server needs pg-boss ${BOSS_VERSION}, and ${version ?? 'another version'} is installed: \`${INSTALL}\``;
    return fail('drivers_missing', message, { install: INSTALL, wrong: ['pg-boss'] });
  }
  const missing = [...(pg ? [] : ['pg']), ...(boss ? [] : ['pg-boss'])];
  const message = `a store on a server needs ${missing.join(' and ')}, which ${missing.length === 1 ? 'is' : 'are'} not installed: \`${INSTALL}\``;
  return fail('drivers_missing', message, { install: INSTALL, missing });
}
