// A registry on a server, before anything is read of it: is the address one, and are its tables there? The
// address stays in here, because it may hold a password.
import { fail, type Outcome, ok } from '../base/index.ts';
import type { RestoredRegistry, Store } from '../store/index.ts';
import type { OpenProject } from './project.ts';
import { hasRegistry, registryKey } from './threads.ts';

/** What has to be done to a registry on a server; a file is brought up to date when it is opened. */
export interface RegistryDoor {
  /** Of the server that has it, without its password; undefined: it is a file of the project. */
  readonly place?: string;
  /** A file is made with the first thread; before that there is nothing to read. */
  isThere(): boolean;
  /** Makes its tables, or brings them to the form of this version: once, before new programs come. */
  migrate(): Promise<Outcome<{ from: number; to: number }>>;
  /** It was restored from a backup: said once, before any worker starts. */
  restored(): Promise<Outcome<RestoredRegistry>>;
  open(): Promise<Outcome<Store>>;
}

/** `place`: what was given as the address is one, and this is how it is shown. */
async function placeOf({
  shared: { address },
  own,
}: OpenProject): Promise<Outcome<string | undefined>> {
  if (address === undefined || own.openStore) return ok(undefined);
  const { readPlace, shownPlace } = await import('../store/index.ts');
  const place = readPlace(address);
  if (place.ok) return ok(shownPlace(address));
  return fail('config_invalid', `${own.storeFrom ?? 'the store'}: ${place.error.detail.message}`);
}

type Stores = typeof import('../store/index.ts');
type Act<T> = (
  address: string,
  options: { clock: OpenProject['clock']; identity: Uint8Array },
) => Promise<Outcome<T>>;

async function onServer<T>(
  open: OpenProject,
  which: (stores: Stores) => Act<T>,
): Promise<Outcome<T>> {
  const { clock, shared } = open;
  const { address } = shared;
  if (address === undefined) {
    return fail('invalid_input', 'no store on a server is named', { missing: 'store' });
  }
  const identity = registryKey(open);
  if (!identity.ok) return identity;
  const act = which(await import('../store/index.ts'));
  return await act(address, { clock, identity: identity.output });
}

/** Nothing is connected to; what is no address is refused before anything is done. */
export async function createRegistryDoor(
  open: OpenProject,
  store: () => Promise<Outcome<Store>>,
): Promise<Outcome<RegistryDoor>> {
  const place = await placeOf(open);
  if (!place.ok) return place;
  return ok({
    ...(place.output !== undefined && { place: place.output }),
    isThere: () => hasRegistry(open),
    open: store,
    migrate: () => onServer(open, (stores) => stores.migrateServerStore),
    restored: () => onServer(open, (stores) => stores.restoredServerStore),
  });
}
