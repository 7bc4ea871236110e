// The way to the other side. INVARIANT: the address that is connected to is one that was checked for
// this very request. The name is resolved once, every address is judged, and the connection gets the
// judged list instead of a resolver, on a socket that was opened to one of them: a name that changes
// its answer in between (DNS rebinding) changes nothing.
import { isIPv6, type LookupFunction } from 'node:net';
import { type Failure, fail, type Outcome } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import { type AddressPorts, checkedAddresses, hostOf } from './address.ts';
import type { ByteSource } from './source.ts';
import type { TimeWatch } from './time-limits.ts';

export type NetCapability = 'net.http' | 'net.websocket';

/** What came back, its body not yet read. Whoever holds it reads or destroys the body. */
export interface HttpAnswer {
  status: number;
  statusText: string;
  /** Names in lower case, several values joined with a comma. */
  headers: Readonly<Record<string, string>>;
  body: ByteSource;
}

/** May this request be made at all, and to which addresses? Asked again for every redirect. */
export async function allowTarget(
  { url, method }: { url: URL; method?: string },
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
  watch: TimeWatch,
): Promise<Outcome<string[]>> {
  const host = hostOf(url);
  const held = verify({ capability, scope: method === undefined ? { host } : { host, method } });
  if (!held.ok) return held;
  const checked = checkedAddresses(url, ports);
  const addresses = checked instanceof Promise ? await watch.race(checked) : checked;
  if (!addresses.ok && addresses.error.code === 'permission_denied') {
    addresses.error.detail['missing'] = capability;
  }
  return addresses;
}

/** A resolver that knows only the checked addresses. */
export function lookupFrom(addresses: readonly string[]): LookupFunction {
  const list = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }));
  const [first] = list;
  return (_host, options, callback) => {
    if (options.all) callback(null, list);
    else callback(null, first?.address ?? '', first?.family ?? 4);
  };
}

export const isSecure = (url: URL): boolean => url.protocol === 'https:' || url.protocol === 'wss:';

/** What is wrong with the other side's HTTP; undefined when it is the connection that failed. */
export function malformation({ name, code, message }: NodeJS.ErrnoException): string | undefined {
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'the head is too long';
  if (code === 'ERR_ASSERTION' || (code === 'UND_ERR_SOCKET' && message.startsWith('bad '))) {
    return 'an answer of this kind was not asked for';
  }
  if (name !== 'HTTPParserError') return undefined;
  const words = /\((.*)\)$/.exec(message)?.[1] ?? message;
  return words.charAt(0).toLowerCase() + words.slice(1);
}

/** Why an answer broke off. */
export function reasonOf(error: NodeJS.ErrnoException): string {
  const { code, message } = error;
  // However undici noticed that the other side closed.
  if (/^UND_ERR_(?:SOCKET|RES_CONTENT_LENGTH_MISMATCH)$/.test(code ?? '')) return 'ECONNRESET';
  return malformation(error) ?? code ?? message;
}

/** There is no answer. `sent`: the other side may have seen the request. */
export function networkFault(error: NodeJS.ErrnoException, url: URL, sent: boolean): Failure {
  const host = hostOf(url);
  // Before there is a body its length can only be wrong in itself.
  const isLength = error.code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH';
  const wrong = isLength ? 'the length is not valid' : malformation(error);
  if (wrong !== undefined) return malformed(url, wrong);
  const reason = reasonOf(error);
  const words = sent
    ? `the connection to \`${host}\` was lost: ${reason}`
    : `cannot connect to \`${host}\`: ${reason}`;
  return fail('network_error', words, { host, reason, sent });
}

export function malformed(url: URL, reason: string): Failure {
  const host = hostOf(url);
  const words = `the answer of \`${host}\` is not valid HTTP: ${reason}`;
  return fail('network_error', words, { host, reason, sent: true });
}
