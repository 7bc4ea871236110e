// The address of a registry: a file, or a server whose address can contain a password. INVARIANT: only
// `shownPlace` makes a text for people from an address, so the text never contains the password.
import { fail, type Outcome, ok, systemRandom } from '@kernmantle/core/base';
import type { RestoredStore } from '@kernmantle/core/runtime';
import type { Answer, Store } from '@kernmantle/core/store';
import type { DatabaseAddress, PostgresOptions } from './store.ts';

const SCHEMES: ReadonlySet<string> = new Set(['postgres:', 'postgresql:']);
const DEFAULT_SCHEMA = 'kernmantle';
const SCHEMA = /^[a-z_][a-z0-9_]{0,40}$/;

/** A `/`, `?` or `#` of a password that is not escaped ends the host before it: the rest is no path then. */
const isCut = ({ pathname, search, hash }: URL): boolean => /@/.test(pathname + search + hash);

/** Without password and parameters but the schema; a text that is no address shows nothing of itself. */
export function shownPlace(text: string): string {
  if (!URL.canParse(text) || isCut(new URL(text))) return 'the given address';
  const { protocol, username, host, pathname, searchParams } = new URL(text);
  const schema = searchParams.get('schema') ?? '';
  const which = SCHEMA.test(schema) && schema !== DEFAULT_SCHEMA ? `?schema=${schema}` : '';
  return `${protocol}//${username === '' ? '' : `${username}@`}${host}${pathname}${which}`;
}

/** `postgres://user:password@host:port/database?schema=name`; the schema is `kernmantle` unless said. */
export function readPlace(text: string): Outcome<DatabaseAddress> {
  const how = 'a store is given as `postgres://user@host:5432/database`';
  if (!URL.canParse(text)) return fail('invalid_input', `this is no address of a store; ${how}`);
  const url = new URL(text);
  if (!SCHEMES.has(url.protocol)) {
    const message = `\`${url.protocol.slice(0, -1)}\` is no kind of store; ${how}`;
    return fail('invalid_input', message);
  }
  if (isCut(url)) {
    const message = `an \`@\` stands after the host; in a password write \`/\` as \`%2F\`, \`?\` as \`%3F\`, \`#\` as \`%23\`, \`@\` as \`%40\``;
    return fail('invalid_input', `${message}; ${how}`);
  }
  const schema = url.searchParams.get('schema') ?? DEFAULT_SCHEMA;
  url.searchParams.delete('schema');
  if (!SCHEMA.test(schema)) {
    const message = 'the schema in the address of the store is no plain name of small letters';
    return fail('invalid_input', message);
  }
  if (url.pathname.length < 2) {
    return fail('invalid_input', `the address ${shownPlace(text)} names no database; ${how}`);
  }
  return ok({ url: url.href, schema });
}

/** The address as messages show it, or `invalid_input`. */
export function describePlace(text: string): Outcome<string> {
  const place = readPlace(text);
  return place.ok ? ok(shownPlace(text)) : place;
}

/** Opens a store on a server. The code and libraries for it are loaded only then. */
export async function openServerStore(
  address: string,
  options: Omit<PostgresOptions, 'place' | 'shown'>,
): Answer<Store> {
  const place = readPlace(address);
  if (!place.ok) return place;
  const { openPostgresStore } = await import('./store.ts');
  return await openPostgresStore({ ...options, place: place.output, shown: shownPlace(address) });
}

/** Makes or renews the tables of a registry on a server: all of it or nothing. */
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

/** After a restore, once, before any worker starts: nothing of what was held or waited for counts any more. */
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
