// Which addresses are nobody's business. A request may go to a public unicast address; everything
// else (this machine, the local network, cloud metadata) needs an explicit grant of the operator.
import { lookup as systemLookup } from 'node:dns/promises';
import { BlockList, isIP, isIPv4 } from 'node:net';
import { errnoOf, fail, type Outcome, ok } from '../../base/index.ts';
import type { Verifier } from '../primitive.ts';
import type { TimeWatch } from './time-limits.ts';

/** Addresses of a host name, in the order they should be tried. */
export type Lookup = (host: string) => Promise<string[]>;

export interface AddressPorts {
  lookup?: Lookup;
  /** Has the operator granted this address, which is not public, under this host name? */
  isHostAllowed(host: string, address: string, port: number): boolean;
}

// Order matters: the first match names the address in the refusal.
const IPV4: readonly (readonly [kind: string, network: string, bits: number])[] = [
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
];
const IPV6: readonly (readonly [kind: string, network: string, bits: number])[] = [
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
];

type Rule = readonly [kind: string, list: BlockList];

const ruleOf =
  (family: 'ipv4' | 'ipv6') =>
  (row: readonly [string, string, number]): Rule => {
    const list = new BlockList();
    list.addSubnet(row[1], row[2], family);
    return [row[0], list];
  };

function subnet(network: string, bits: number): BlockList {
  const list = new BlockList();
  list.addSubnet(network, bits, 'ipv6');
  return list;
}

interface Rules {
  v4: readonly Rule[];
  v6: readonly Rule[];
  /** IPv4 in the last 32 bits: mapped and NAT64. */
  embedded: readonly BlockList[];
  global: BlockList;
}
let made: Rules | undefined;
const rules = (): Rules =>
  (made ??= {
    v4: IPV4.map(ruleOf('ipv4')),
    v6: IPV6.map(ruleOf('ipv6')),
    embedded: [subnet('::ffff:0:0', 96), subnet('64:ff9b::', 96)],
    global: subnet('2000::', 3),
  });

/** The last 32 bits of an IPv6 address as IPv4 text. */
function embeddedIPv4(address: string): string | undefined {
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
const MAX_LOOKED = 256;
const looked = new Map<string, string | undefined>();

/** Why an address is not public; undefined when it is. What is no address at all is `invalid`. */
export function addressKind(address: string): string | undefined {
  if (looked.has(address)) return looked.get(address);
  const kind = lookAt(address);
  if (looked.size >= MAX_LOOKED) looked.clear();
  looked.set(address, kind);
  return kind;
}

function lookAt(address: string): string | undefined {
  if (isIP(address) === 0 || address.includes('%')) return 'invalid';
  const { v4, v6, embedded, global } = rules();
  if (isIPv4(address)) return v4.find(([, list]) => list.check(address, 'ipv4'))?.[0];
  if (embedded.some((list) => list.check(address, 'ipv6'))) {
    return lookAt(embeddedIPv4(address) ?? 'invalid');
  }
  const known = v6.find(([, list]) => list.check(address, 'ipv6'))?.[0];
  return known ?? (global.check(address, 'ipv6') ? undefined : 'reserved');
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

/**
 * May this request be made at all, and to which addresses? Asked again for every sending and every
 * redirect; answered at once when there is nothing to look up.
 */
export function allowTarget(
  { url, method }: { url: URL; method?: string },
  capability: 'net.http' | 'net.websocket',
  verify: Verifier,
  ports: AddressPorts,
  watch: TimeWatch,
): Outcome<string[]> | Promise<Outcome<string[]>> {
  const host = hostOf(url);
  const held = verify({ capability, scope: method === undefined ? { host } : { host, method } });
  if (!held.ok) return held;
  const judge = (addresses: string[]): Outcome<string[]> =>
    judged(host, portOf(url), addresses, capability, ports);
  if (isIP(host) !== 0) return judge([host]);
  return watch.race(
    (ports.lookup ?? allAddresses)(host).then(judge, (error) => unresolved(host, error)),
  );
}

function unresolved(host: string, error: unknown): Outcome<never> {
  const reason = errnoOf(error);
  const words = `cannot resolve host \`${host}\`: ${reason}`;
  return fail('network_error', words, { host, reason, sent: false });
}

/**
 * One refused address refuses the host: a name that answers with both a public and a private address
 * is how rebinding begins.
 */
function judged(
  host: string,
  port: number,
  addresses: string[],
  missing: string,
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
      { missing, attempted: host, host, address, kind, sent: false },
    );
  }
  return ok(addresses);
}
