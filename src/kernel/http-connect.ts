// The way to the other side. INVARIANT: the address that is connected to is one that was checked for
// this very request. The name is resolved once, every address is judged, and the connection gets the
// judged list instead of a resolver, on a socket that was opened to one of them: a name that changes
// its answer in between (DNS rebinding) changes nothing.
import { type ClientRequest, type IncomingHttpHeaders, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { isIPv6, type LookupFunction } from 'node:net';
import { type Failure, fail, type Outcome } from '../base/index.ts';
import { type AddressPorts, checkedAddresses, hostOf, portOf } from './http-address.ts';
import type { WireRequest } from './http-request.ts';
import type { ByteSource } from './http-source.ts';
import type { Watch } from './http-watch.ts';
import type { Verifier } from './primitive.ts';

export type NetCapability = 'net.http' | 'net.websocket';

/** What came back, its body not yet read. Whoever holds it reads or destroys the body. */
export interface Answer {
  status: number;
  statusText: string;
  headers: IncomingHttpHeaders;
  body: ByteSource;
}

/** May this request be made at all, and to which addresses? Asked again for every redirect. */
export async function allowTarget(
  { url, method }: { url: URL; method?: string },
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
): Promise<Outcome<string[]>> {
  const host = hostOf(url);
  const held = verify({ capability, scope: method === undefined ? { host } : { host, method } });
  if (!held.ok) return held;
  const addresses = await checkedAddresses(url, ports);
  if (!addresses.ok && addresses.error.code === 'permission_denied') {
    addresses.error.detail.missing = capability;
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

/** A request bound to the checked addresses; not yet ended. */
export function pinnedRequest(
  { url, method, headers, body }: Pick<WireRequest, 'url' | 'method' | 'headers' | 'body'>,
  addresses: readonly string[],
): ClientRequest {
  const send = isSecure(url) ? requestHttps : requestHttp;
  return send({
    host: hostOf(url),
    port: portOf(url),
    path: `${url.pathname}${url.search}`,
    method,
    headers: body === undefined ? headers : { ...headers, 'content-length': body.length },
    agent: false,
    lookup: lookupFrom(addresses),
  });
}

export function networkFault(error: NodeJS.ErrnoException, url: URL, sent: boolean): Failure {
  const host = hostOf(url);
  const reason = error.code ?? error.message;
  const words = reason.startsWith('HPE_')
    ? `the answer of \`${host}\` is not valid HTTP: ${reason}`
    : sent
      ? `the connection to \`${host}\` was lost: ${reason}`
      : `cannot connect to \`${host}\`: ${reason}`;
  return fail('network_error', words, { host, reason, sent });
}

/**
 * Follows one request from connecting to its first answer: time limits, abort, errors. The watch is
 * in `connect` since the name was looked up. `sent` in a fault says whether the other side may have seen the request.
 */
export function trackRequest(
  outgoing: ClientRequest,
  url: URL,
  watch: Watch,
  fault: (failure: Failure) => void,
): void {
  let sent = false;
  outgoing.once('socket', (socket) => {
    socket.once(isSecure(url) ? 'secureConnect' : 'connect', () => {
      sent = true;
      watch.enter('first_byte');
    });
  });
  watch.onStop(() => outgoing.destroy());
  // The listener stays: after the answer the same loss shows up at the reader of the body.
  outgoing.on('error', (error) => fault(watch.failure() ?? networkFault(error, url, sent)));
}
