// Creates a schema with the current tables for one run.
import { systemClock, systemRandom } from '@kernmantle/core/base';
import { readPlace, shownPlace } from '../../packages/fleet/src/postgres/address.ts';
import { migrateStore } from '../../packages/fleet/src/postgres/migrate.ts';
import { must } from './holder.ts';

/** Returns the address of the store in the schema. */
export async function prepare(url: string, schema: string, identity?: Uint8Array): Promise<string> {
  const address = new URL(url);
  address.searchParams.set('schema', schema);
  const place = must(readPlace(address.href));
  const shown = shownPlace(address.href);
  must(await migrateStore({ place, shown, clock: systemClock, random: systemRandom, identity }));
  return address.href;
}
