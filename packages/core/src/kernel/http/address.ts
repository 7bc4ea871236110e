// Decides which addresses a request may reach. A public unicast address is open. Everything else (this
// machine, the local network, cloud metadata) needs an explicit grant of the operator.
import { lookup as systemLookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { errnoOf, type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import { addressKind } from './address-kind.ts';
import type { TimeWatch } from './time-limits.ts';

/** Returns the addresses of a host name, in the order in which they should be tried. */
type Lookup = (host: string) => Promise<string[]>;

export interface AddressPorts {
  /** Resolves names. Absent: the resolver of the system. */
  lookup?: Lookup;
  /** Returns true if the operator granted this non-public address under this host name. */
  isHostAllowed(host: string, address: string, port: number): boolean;
}

/** Returns the host of a URL as capabilities name it: no brackets, no final dot. */
export function hostOf(url: URL): string {
  const { hostname } = url;
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
}

export const portOf = (url: URL): number =>
  url.port === '' ? (/^(https|wss):$/.test(url.protocol) ? 443 : 80) : Number(url.port);

const allAddresses: Lookup = async (host) =>
  (await systemLookup(host, { all: true, verbatim: true })).map(({ address }) => address);

interface HttpTarget {
  url: URL;
  method?: string;
}
type NetCapability = 'net.http' | 'net.websocket';

/** Judges a target without a resolver. Undefined: the host is a name, so its addresses must be looked up. */
function allowWritten(
  { url, method }: HttpTarget,
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
): Outcome<string[]> | undefined {
  const host = hostOf(url);
  const allowed = verify({ capability, scope: method === undefined ? { host } : { host, method } });
  if (!allowed.ok) return allowed;
  return isIP(host) === 0 ? undefined : judged(host, portOf(url), [host], ports);
}

/**
 * Returns the reason why a request would be refused whatever its name resolves to. Names below
 * `localhost` mean this machine.
 */
export function refusedTarget(
  target: HttpTarget,
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
): Failure | undefined {
  const host = hostOf(target.url);
  const written = allowWritten(target, capability, verify, ports);
  const isLocal = /(^|\.)localhost$/i.test(host);
  const kind = written ?? (isLocal ? judged(host, portOf(target.url), LOOPBACK, ports) : undefined);
  return kind?.ok === false ? kind : undefined;
}
const LOOPBACK = ['127.0.0.1'];

/** Checks a request and returns the addresses that it may use. Called for every sending and every redirect. */
export async function allowTarget(
  target: HttpTarget,
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
  watch: TimeWatch,
): Promise<Outcome<string[]>> {
  const written = allowWritten(target, capability, verify, ports);
  if (written) return written;
  const [host, port] = [hostOf(target.url), portOf(target.url)];
  const resolved = (ports.lookup ?? allAddresses)(host).then(
    (addresses) => judged(host, port, addresses, ports),
    (error: unknown) => {
      const reason = errnoOf(error);
      const words = `cannot resolve host \`${host}\`: ${reason}`;
      return fail('network_error', words, { host, reason, sent: false });
    },
  );
  return await watch.race(resolved);
}

/**
 * Refuses a host if one of its addresses is refused. A name with both a public and a private address is
 * the start of a rebinding attack.
 */
function judged(
  host: string,
  port: number,
  addresses: string[],
  ports: AddressPorts,
): Outcome<string[]> {
  if (addresses.length === 0) {
    return fail('network_error', `host \`${host}\` has no address`, { host, sent: false });
  }
  for (const address of addresses) {
    const kind = addressKind(address);
    if (kind === undefined || (kind !== 'invalid' && ports.isHostAllowed(host, address, port))) {
      continue;
    }
    return fail(
      'permission_denied',
      `host \`${host}\` is at ${kind} address ${address}; add it to \`hosts\` in the policy to allow it`,
      { missing: '', rule: 'hosts', attempted: host, host, address, kind, sent: false },
    );
  }
  return ok(addresses);
}
