// A schema of its own for one run, brought to today's form.
import { systemClock, systemRandom } from '../../src/base/index.ts';
import { readPlace, shownPlace } from '../../src/store/place.ts';
import { migrateStore } from '../../src/store/postgres/migrate.ts';
import { must } from './holder.ts';

/** The address of the store in it. */
export async function prepare(url: string, schema: string, identity?: Uint8Array): Promise<string> {
  const address = new URL(url);
  address.searchParams.set('schema', schema);
  const place = must(readPlace(address.href));
  const shown = shownPlace(address.href);
  must(await migrateStore({ place, shown, clock: systemClock, random: systemRandom, identity }));
  return address.href;
}
