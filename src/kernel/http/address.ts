// Which addresses are nobody's business. A request may go to a public unicast address; everything
// else (this machine, the local network, cloud metadata) needs an explicit grant of the operator.
import { lookup as systemLookup } from 'node:dns/promises';
import { BlockList, isIP, isIPv4 } from 'node:net';
import { createRecent, errnoOf, type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import type { TimeWatch } from './time-limits.ts';

/** Addresses of a host name, in the order they should be tried. */
type Lookup = (host: string) => Promise<string[]>;

export interface AddressPorts {
  /** Resolves names; the system's resolver when absent. */
  lookup?: Lookup;
  /** Has the operator granted this address, which is not public, under this host name? */
  isHostAllowed(host: string, address: string, port: number): boolean;
}

/** IPv4 in the last 32 bits: mapped and NAT64. */
const EMBEDDED = 'embedded';
const PUBLIC = 'public';
// Order matters: the first match names the address in the refusal. Of IPv6 what is not listed is not
// public either.
const RANGES: readonly (readonly [kind: string, network: string, bits: number])[] = [
  ['metadata', '169.254.169.254', 32],
  ['metadata', '100.100.100.200', 32],
  ['metadata', '168.63.129.16', 32],
  ['unspecified', '0.0.0.0', 8],
  ['loopback', '127.0.0.0', 8],
  ['private', '10.0.0.0', 8],
  ['private', '172.16.0.0', 12],
  ['private', '192.168.0.0', 16],
  ['link-local', '169.254.0.0', 16],
  ['carrier-grade NAT', '100.64.0.0', 10],
  ['multicast', '224.0.0.0', 4],
  ['reserved', '192.0.0.0', 24],
  ['reserved', '192.0.2.0', 24],
  ['reserved', '192.88.99.0', 24],
  ['reserved', '198.18.0.0', 15],
  ['reserved', '198.51.100.0', 24],
  ['reserved', '203.0.113.0', 24],
  ['reserved', '240.0.0.0', 4],
  [PUBLIC, '0.0.0.0', 0],
  [EMBEDDED, '::ffff:0:0', 96],
  [EMBEDDED, '64:ff9b::', 96],
  ['metadata', 'fd00:ec2::254', 128],
  ['unspecified', '::', 128],
  ['loopback', '::1', 128],
  ['unique-local', 'fc00::', 7],
  ['link-local', 'fe80::', 10],
  ['multicast', 'ff00::', 8],
  ['reserved', '2001::', 23],
  ['reserved', '2001:db8::', 32],
  ['reserved', '2002::', 16],
  ['reserved', '3fff::', 20],
  [PUBLIC, '2000::', 3],
];
const familyOf = (address: string) => (isIPv4(address) ? 'ipv4' : 'ipv6');

let made: { kind: string; family: string; list: BlockList }[] | undefined;
const ranges = () =>
  (made ??= RANGES.map(([kind, network, bits]) => {
    const list = new BlockList();
    list.addSubnet(network, bits, familyOf(network));
    return { kind, family: familyOf(network), list };
  }));

/** The last 32 bits of an IPv6 address as IPv4 text. */
function embeddedIPv4(address: string): string {
  const dotted = /:(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1];
  if (dotted !== undefined) return dotted;
  // The URL parser writes the canonical form, whose last two groups are always present or `::`.
  const [head = '', tail = ''] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const groups = (tail === '' ? head : tail).split(':');
  const missing = address.includes('::') && tail === '' ? ['0', '0'] : [];
  const [high = '0', low = '0'] = ['0', ...groups, ...missing].slice(-2);
  const value = ((Number.parseInt(high, 16) << 16) | Number.parseInt(low, 16)) >>> 0;
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.');
}

/** The last addresses that were looked at: what kind they are does not change. */
const looked = createRecent<string, string>(256);

/** Why an address is not public; undefined when it is. What is no address at all is `invalid`. */
export function addressKind(address: string): string | undefined {
  const kind = looked.get(address) ?? looked.set(address, lookAt(address));
  return kind === PUBLIC ? undefined : kind;
}

function lookAt(address: string): string {
  if (isIP(address) === 0 || address.includes('%')) return 'invalid';
  const family = familyOf(address);
  const range = ranges().find((each) => each.family === family && each.list.check(address, family));
  if (range?.kind === EMBEDDED) return lookAt(embeddedIPv4(address));
  return range?.kind ?? 'reserved';
}

/** Host of a URL as capabilities and lookups name it: no brackets, no final dot. */
export function hostOf(url: URL): string {
  const { hostname } = url;
  if (hostname.startsWith('[')) return hostname.slice(1, -1);
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
}

export const portOf = (url: URL): number =>
  url.port === '' ? (/^(https|wss):$/.test(url.protocol) ? 443 : 80) : Number(url.port);

const allAddresses: Lookup = async (host) =>
  (await systemLookup(host, { all: true, verbatim: true })).map(({ address }) => address);

interface Target {
  url: URL;
  method?: string;
}
type NetCapability = 'net.http' | 'net.websocket';

/** Judges a target without a resolver. Undefined: the host is a name, and its addresses must be looked up. */
function allowWritten(
  { url, method }: Target,
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
): Outcome<string[]> | undefined {
  const host = hostOf(url);
  const held = verify({ capability, scope: method === undefined ? { host } : { host, method } });
  if (!held.ok) return held;
  return isIP(host) === 0 ? undefined : judged(host, portOf(url), [host], ports);
}

/** Why a request would be refused whatever its name resolves to. Names below `localhost` are this machine. */
export function refusedTarget(
  target: Target,
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
): Failure | undefined {
  const host = hostOf(target.url);
  const written = allowWritten(target, capability, verify, ports);
  const isLocal = /(^|\.)localhost$/i.test(host);
  const known =
    written ?? (isLocal ? judged(host, portOf(target.url), LOOPBACK, ports) : undefined);
  return known?.ok === false ? known : undefined;
}
const LOOPBACK = ['127.0.0.1'];

/**
 * May this request be made at all, and to which addresses? Asked again for every sending and every
 * redirect; answered at once when there is nothing to look up.
 */
export function allowTarget(
  target: Target,
  capability: NetCapability,
  verify: Verifier,
  ports: AddressPorts,
  watch: TimeWatch,
): Outcome<string[]> | Promise<Outcome<string[]>> {
  const written = allowWritten(target, capability, verify, ports);
  if (written) return written;
  const [host, port] = [hostOf(target.url), portOf(target.url)];
  const found = (ports.lookup ?? allAddresses)(host).then(
    (addresses) => judged(host, port, addresses, ports),
    (error: unknown) => {
      const reason = errnoOf(error);
      const words = `cannot resolve host \`${host}\`: ${reason}`;
      return fail('network_error', words, { host, reason, sent: false });
    },
  );
  return watch.race(found);
}

/**
 * One refused address refuses the host: a name that answers with both a public and a private address
 * is how rebinding begins.
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
