// The registry on a server that several machines share.
import { type Clock, fail, type RandomBytes, systemRandom } from '../../base/index.ts';
import type { Answer, Store } from '../port.ts';
import { type DatabaseOptions, openDatabase, type ServerPlace } from './connection.ts';
import { checkForm } from './migrate.ts';

export type { ServerPlace } from './connection.ts';
export { migrateStore } from './migrate.ts';

export interface PostgresOptions {
  readonly place: ServerPlace;
  /** As it may be shown. */
  readonly shown: string;
  readonly clock: Clock;
  readonly random?: RandomBytes;
  /** Of whoever may read what is sealed in it: another one's registry is refused (`store_foreign`). */
  readonly identity?: Uint8Array;
  readonly Client?: NonNullable<DatabaseOptions['Client']>;
}

export async function openPostgresStore(options: PostgresOptions): Answer<Store> {
  const random = options.random ?? systemRandom;
  const opened = await openDatabase({ ...options, random });
  if (!opened.ok) return opened;
  const database = opened.output;
  const ready = await checkForm(database, { ...options, random });
  await database.close();
  return ready.ok ? fail('store_failed', 'not there yet') : ready;
}
