import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { ok, systemClock } from '../../base/index.ts';
import { type AddressPorts, allowTarget, hostOf } from './address.ts';
import { addressKind } from './address-kind.ts';
import { TimeWatch } from './time-limits.ts';

const closed = { isHostAllowed: () => false };
const timeouts = { connect: 10, first_byte: 10, idle: 10, total: 10 };
const { signal } = new AbortController();
const watch = new TimeWatch(timeouts, signal, { clock: systemClock, timer: () => () => {} });
const checkedAddresses = (url: URL, ports: AddressPorts) =>
  allowTarget({ url }, 'net.http', () => ok(null), ports, watch);

test.each([
  ['127.0.0.1', 'loopback'],
  ['127.255.0.9', 'loopback'],
  ['0.0.0.0', 'unspecified'],
  ['10.1.2.3', 'private'],
  ['172.31.255.255', 'private'],
  ['192.168.0.1', 'private'],
  ['169.254.169.254', 'metadata'],
  ['169.254.1.1', 'link-local'],
  ['100.64.0.1', 'carrier-grade NAT'],
  ['100.100.100.200', 'metadata'],
  ['168.63.129.16', 'metadata'],
  ['224.0.0.1', 'multicast'],
  ['255.255.255.255', 'reserved'],
  ['::', 'unspecified'],
  ['::1', 'loopback'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:7f00:1', 'loopback'],
  ['::ffff:a9fe:a9fe', 'metadata'],
  ['0:0:0:0:0:ffff:0a00:0001', 'private'],
  ['64:ff9b::10.0.0.1', 'private'],
  ['64:ff9b::', 'unspecified'],
  ['fd00:ec2::254', 'metadata'],
  ['fd12::1', 'unique-local'],
  ['fe80::1', 'link-local'],
  ['ff02::1', 'multicast'],
  ['2002:7f00:1::', 'reserved'],
  ['2001:0:1::', 'reserved'],
  ['::127.0.0.1', 'reserved'],
  ['fe80::1%eth0', 'invalid'],
  ['example.com', 'invalid'],
  ['', 'invalid'],
])('%s is %s', (address, kind) => {
  expect(addressKind(address)).toBe(kind);
});

test.each(['8.8.8.8', '1.1.1.1', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '::ffff:8.8.8.8'])(
  '%s is public',
  (address) => {
    expect(addressKind(address)).toBeUndefined();
  },
);

test('an IPv4 address keeps its kind when it is wrapped in IPv6, however that is written', () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number);
      const hex = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
      for (const prefix of ['::ffff:', '64:ff9b::', '0:0:0:0:0:ffff:']) {
        expect(addressKind(`${prefix}${hex}`)).toBe(addressKind(address));
        expect(addressKind(`${prefix}${address}`)).toBe(addressKind(address));
      }
    }),
  );
});

test('no text makes the check throw, and what is no address is never public', () => {
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(addressKind(text)).toBeDefined();
    }),
  );
});

test('odd spellings of loopback are seen through', async () => {
  for (const host of ['0x7f.1', '2130706433', '127.1', '[::ffff:7f00:1]', '[0:0:0:0:0:0:0:1]']) {
    const result = await checkedAddresses(new URL(`http://${host}/`), closed);
    expect(result).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
  }
});

test('one private address among public ones refuses the host', async () => {
  const lookup = async () => ['8.8.8.8', '10.0.0.1'];
  const result = await checkedAddresses(new URL('http://a.example/'), { ...closed, lookup });
  expect(result).toMatchObject({
    error: { code: 'permission_denied', detail: { address: '10.0.0.1', kind: 'private' } },
  });
});

test('a grant names host, address and port', async () => {
  const asked: unknown[] = [];
  const isHostAllowed = (...all: unknown[]) => asked.push(all) > 0;
  const result = await checkedAddresses(new URL('http://127.0.0.1:81/'), { isHostAllowed });
  expect(result).toEqual({ ok: true, output: ['127.0.0.1'] });
  expect(asked).toEqual([['127.0.0.1', '127.0.0.1', 81]]);
});

test('a lookup that fails or finds nothing is a network error that was not sent', async () => {
  const url = new URL('http://a.example/');
  const lost = async () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' }));
  for (const lookup of [lost, async () => []]) {
    const result = await checkedAddresses(url, { ...closed, lookup });
    expect(result).toMatchObject({ error: { code: 'network_error', detail: { sent: false } } });
  }
});

test('a lookup that answers with garbage is refused even when hosts are granted', async () => {
  const lookup = async () => ['not an address'];
  const result = await checkedAddresses(new URL('http://a.example/'), {
    isHostAllowed: () => true,
    lookup,
  });
  expect(result).toMatchObject({ error: { code: 'permission_denied' } });
});

test('a host is named without brackets and final dot', () => {
  expect(hostOf(new URL('http://[::1]:8/'))).toBe('::1');
  expect(hostOf(new URL('http://LOCALHOST./'))).toBe('localhost');
});
