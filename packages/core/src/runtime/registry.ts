// Finds the driver of a registry on a server, and updates its tables. The address stays in this file and in
// the driver, because it may contain a password.
import { fail, type Outcome, ok } from '../base/index.ts';
import type { Store } from '../store/index.ts';
import type { RestoredStore, StoreDriver, StoreOptions } from './extension.ts';
import type { OpenProject } from './open-project.ts';
import { hasRegistry, openRegistry, registryKey } from './threads.ts';

/** Administration of a registry on a server. A file needs none, because it is updated when it is opened. */
export interface RegistryAdmin {
  /** Address of the server, without its password. Absent: the registry is a file of the project. */
  readonly place?: string;
  /** Returns false until the first thread has created the file. */
  isThere(): boolean;
  /** Creates the tables, or updates them to this version. Run it once before new programs start. */
  migrate(): Promise<Outcome<{ from: number; to: number }>>;
  /** Marks a restore from a backup. Run it once before any worker starts. */
  restored(): Promise<Outcome<RestoredStore>>;
  open(): Promise<Outcome<Store>>;
}

type Drivers = ReadonlyMap<string, StoreDriver>;

/** The server with the registry of a project. */
interface StoreServer {
  readonly address: string;
  readonly driver: StoreDriver;
  /** The address for messages, without its password. */
  readonly place: string;
}

/**
 * Finds the driver by the scheme of the address. Returns undefined if the registry is a file, or if the
 * program opens it. Fails with `config_invalid` if no driver accepts the address. Opens no connection.
 */
export async function findServer(
  { shared: { address }, own }: OpenProject,
  drivers: Drivers,
): Promise<Outcome<StoreServer | undefined>> {
  if (address === undefined || own.openStore) return ok(undefined);
  const refused = (problem: string) =>
    fail('config_invalid', `${own.storeFrom ?? 'the store'}: ${problem}`);
  const scheme = URL.canParse(address) ? new URL(address).protocol : '';
  const driver = drivers.get(scheme);
  if (!driver) {
    const problem = scheme === '' ? 'invalid store address' : `no driver for \`${scheme}\``;
    const schemes = [...drivers.keys()].map((one) => `\`${one}\``).join(' or ');
    return refused(schemes === '' ? problem : `${problem}; an address begins with ${schemes}`);
  }
  const place = await driver.describe(address);
  if (!place.ok) return refused(place.error.detail.message);
  return ok({ address, driver, place: place.output });
}

async function onServer<T>(
  open: OpenProject,
  server: StoreServer | undefined,
  work: (server: StoreServer, options: StoreOptions) => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  if (!server) {
    return fail('invalid_input', 'no store address; use `--store`', { missing: 'store' });
  }
  const identity = registryKey(open);
  if (!identity.ok) return identity;
  return await work(server, { clock: open.clock, identity: identity.output });
}

export const openStore = (
  open: OpenProject,
  server: StoreServer | undefined,
): Promise<Outcome<Store>> =>
  server
    ? onServer(open, server, ({ driver, address }, options) => driver.open(address, options))
    : openRegistry(open);

export const createRegistryDoor = (
  open: OpenProject,
  server: StoreServer | undefined,
  store: () => Promise<Outcome<Store>>,
): RegistryAdmin => ({
  ...(server && { place: server.place }),
  isThere: () => hasRegistry(open),
  open: store,
  migrate: () =>
    onServer(open, server, ({ driver, address }, options) => driver.migrate(address, options)),
  restored: () =>
    onServer(open, server, ({ driver, address }, options) => driver.restored(address, options)),
});

/**
 * Returns the driver whose workers run the threads of a shared store. A store that the program opened
 * has no address, so the first driver runs its threads.
 */
export function queueDriver(
  server: StoreServer | undefined,
  drivers: Drivers,
): Outcome<StoreDriver> {
  const [first] = drivers.values();
  const driver = server?.driver ?? first;
  return driver ? ok(driver) : fail('config_invalid', 'no extension queues threads for workers');
}
