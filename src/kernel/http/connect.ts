// The way to the other side. INVARIANT: the address that is connected to is one that was checked for
// this very request. The name is resolved once, every address is judged, and the connection gets the
// judged list instead of a resolver, on a socket that was opened to one of them: a name that changes
// its answer in between (DNS rebinding) changes nothing.
import { isIPv6, type LookupFunction } from 'node:net';
import { type Failure, fail, type Outcome } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import { type AddressPorts, checkedAddresses, hostOf } from './address.ts';
import type { ByteSource } from './source.ts';
import type { Watch } from './time-limits.ts';

export type NetCapability = 'net.http' | 'net.websocket';

/** What came back, its body not yet read. Whoever holds it reads or destroys the body. */
export interface Answer {
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
  watch: Watch,
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

/** Why the connection failed, in the words of the system, whoever noticed it. */
export function reasonOf({ code, message }: NodeJS.ErrnoException): string {
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'HPE_HEADER_OVERFLOW';
  const isClosed = code === 'UND_ERR_SOCKET' && /^(?:other side )?closed$/.test(message);
  if (isClosed || code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return 'ECONNRESET';
  return code === undefined || code.startsWith('UND_ERR_') ? message : code;
}

export function networkFault(error: NodeJS.ErrnoException, url: URL, sent: boolean): Failure {
  const host = hostOf(url);
  const reason = reasonOf(error);
  const words = /^(?:HPE_|bad )/.test(reason)
    ? `the answer of \`${host}\` is not valid HTTP: ${reason}`
    : sent
      ? `the connection to \`${host}\` was lost: ${reason}`
      : `cannot connect to \`${host}\`: ${reason}`;
  return fail('network_error', words, { host, reason, sent });
}
