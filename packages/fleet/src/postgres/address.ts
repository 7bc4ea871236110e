// Reads the address of a registry on a server, which can contain a password. INVARIANT: only `shownPlace`
// makes a text for people from an address, so the text never contains the password.
import { fail, type Outcome, ok, systemRandom } from '@kernmantle/core/base';
import type { RestoredStore } from '@kernmantle/core/runtime';
import type { Answer, Store } from '@kernmantle/core/store';
import type { DatabaseAddress, PostgresOptions } from './store.ts';

const SCHEMES: ReadonlySet<string> = new Set(['postgres:', 'postgresql:']);
const DEFAULT_SCHEMA = 'kernmantle';
const SCHEMA = /^[a-z_][a-z0-9_]{0,40}$/;

/** Returns true if an unescaped `/`, `?` or `#` in the password has ended the host, so the rest is not a path. */
const isCut = ({ pathname, search, hash }: URL): boolean => /@/.test(pathname + search + hash);

/** Returns the address without password and parameters except the schema. An invalid address is not shown. */
export function shownPlace(text: string): string {
  if (!URL.canParse(text) || isCut(new URL(text))) return 'the given address';
  const { protocol, username, host, pathname, searchParams } = new URL(text);
  const schema = searchParams.get('schema') ?? '';
  const which = SCHEMA.test(schema) && schema !== DEFAULT_SCHEMA ? `?schema=${schema}` : '';
  return `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}${which}`;
}

/** Reads `postgres://user:password@host:port/database?schema=name`. The default schema is `kernmantle`. */
export function readPlace(text: string): Outcome<DatabaseAddress> {
  const how = 'use `postgres://user@host:5432/database`';
  if (!URL.canParse(text)) return fail('invalid_input', `invalid store address; ${how}`);
  const url = new URL(text);
  if (!SCHEMES.has(url.protocol)) {
    const message = `unsupported store type \`${url.protocol.slice(0, -1)}\`; ${how}`;
    return fail('invalid_input', message);
  }
  if (isCut(url)) {
    const message = `the store address has an \`@\` after the host; in a password write \`/\` as \`%2F\`, \`?\` as \`%3F\`, \`#\` as \`%23\`, \`@\` as \`%40\``;
    return fail('invalid_input', `${message}; ${how}`);
  }
  const schema = url.searchParams.get('schema') ?? DEFAULT_SCHEMA;
  url.searchParams.delete('schema');
  if (!SCHEMA.test(schema)) {
    const message = 'the schema in the store address must be lower-case letters, digits and `_`';
    return fail('invalid_input', message);
  }
  if (url.pathname.length < 2) {
    return fail('invalid_input', `the address ${shownPlace(text)} has no database; ${how}`);
  }
  return ok({ url: url.href, schema });
}

/** Returns the address for messages. Fails with `invalid_input`. */
export function describePlace(text: string): Outcome<string> {
  const place = readPlace(text);
  return place.ok ? ok(shownPlace(text)) : place;
}

/** Opens a store on a server. The first call loads the code and the libraries for it. */
export async function openServerStore(
  address: string,
  options: Omit<PostgresOptions, 'place' | 'shown'>,
): Answer<Store> {
  const place = readPlace(address);
  if (!place.ok) return place;
  const { openPostgresStore } = await import('./store.ts');
  return await openPostgresStore({ ...options, place: place.output, shown: shownPlace(address) });
}

/** Creates or updates the tables of a registry on a server, all of them or none. */
export async function migrateServerStore(
  address: string,
  { clock, identity, formats, random = systemRandom }: Omit<PostgresOptions, 'place' | 'shown'>,
): Answer<{ from: number; to: number }> {
  const place = readPlace(address);
  if (!place.ok) return place;
  const { migrateStore } = await import('./migrate.ts');
  const where = { place: place.output, shown: shownPlace(address) };
  return await migrateStore({ ...where, clock, random, identity, ...(formats && { formats }) });
}

/** Invalidates all leases after a restore. Run it once, before any worker starts. */
export async function restoredServerStore(
  address: string,
  { clock, identity, random = systemRandom }: Omit<PostgresOptions, 'place' | 'shown'>,
): Answer<RestoredStore> {
  const place = readPlace(address);
  if (!place.ok) return place;
  const { setRestored } = await import('./restore.ts');
  const where = { place: place.output, shown: shownPlace(address) };
  return await setRestored({ ...where, clock, random, identity });
}
