// The registry on a server that several machines share.
import { type Clock, fail, type RandomBytes } from '../../base/index.ts';
import type { Answer, Store } from '../port.ts';

export interface ServerPlace {
  /** As `pg` takes it. */
  readonly url: string;
  /** Of our tables; the engine's have a schema of their own, `SCHEMA_jobs`. */
  readonly schema: string;
}

export interface PostgresOptions {
  readonly place: ServerPlace;
  readonly clock: Clock;
  readonly random?: RandomBytes;
  /** Of whoever may read what is sealed in it: another one's registry is refused (`store_foreign`). */
  readonly identity?: Uint8Array;
}

export async function openPostgresStore({ place }: PostgresOptions): Answer<Store> {
  return fail('store_failed', `there is no store \`${place.schema}\` yet`);
}
