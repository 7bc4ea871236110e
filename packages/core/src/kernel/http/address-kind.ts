// Determines the kind of an IP address. Only public unicast addresses need no grant.
import { BlockList, isIP, isIPv4 } from 'node:net';
import { createRecent } from '../../base/index.ts';

/** Kind of the ranges whose last 32 bits are an IPv4 address: mapped and NAT64. */
const EMBEDDED = 'embedded';
const PUBLIC = 'public';
// The first match names the address in the refusal. An IPv6 address outside of the list is not public either.
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

let lists: { kind: string; family: string; list: BlockList }[] | undefined;
const ranges = () =>
  (lists ??= RANGES.map(([kind, network, bits]) => {
    const list = new BlockList();
    list.addSubnet(network, bits, familyOf(network));
    return { kind, family: familyOf(network), list };
  }));

/** Returns the last 32 bits of an IPv6 address as IPv4 text. */
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

/** Caches the last addresses. The kind of an address never changes. */
const kinds = createRecent<string, string>(256);

/**
 * Returns the kind of an address that is not public, and undefined for a public one. Text that is not an
 * address is `invalid`.
 */
export function addressKind(address: string): string | undefined {
  const kind = kinds.get(address) ?? kinds.set(address, kindOf(address));
  return kind === PUBLIC ? undefined : kind;
}

function kindOf(address: string): string {
  if (isIP(address) === 0 || address.includes('%')) return 'invalid';
  const family = familyOf(address);
  const range = ranges().find((each) => each.family === family && each.list.check(address, family));
  if (range?.kind === EMBEDDED) return kindOf(embeddedIPv4(address));
  return range?.kind ?? 'reserved';
}
