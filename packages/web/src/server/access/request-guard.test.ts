import { ok } from '@kernmantle/core/base';
import { expect, test } from 'vitest';
import { createGuard } from './request-guard.ts';

const KNOWN = {
  id: 'token_a',
  name: '',
  role: 'view',
  created: '',
  expires: '',
  last: '',
} as const;

function guard(hostname = '127.0.0.1') {
  let at = 0;
  const refused: string[] = [];
  const { judge } = createGuard({
    hostname,
    port: () => 4180,
    tokens: { find: (given) => ok(given === 'right' ? KNOWN : undefined) },
    clock: { monotonic: () => at },
    onRefused: (address) => void refused.push(address),
  });
  return {
    refused,
    pass: (ms: number) => {
      at += ms;
    },
    judge: (headers: Record<string, string>, address = '10.0.0.1') =>
      judge(new Headers({ host: `${hostname}:4180`, ...headers }), address),
  };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

test('on loopback everybody without a token is the same client, who may only look', () => {
  const { judge } = guard();
  const first = judge({});
  expect(first).toMatchObject({ client: { role: 'view' } });
  expect(judge({ host: 'localhost:4180' })).toEqual(first);
  expect(judge({ host: '[::1]:4180' })).toEqual(first);
  expect(guard().judge({})).not.toEqual(first);
});

test.each([
  'evil.example',
  'evil.example:4180',
  '127.0.0.1',
  '127.0.0.1:80',
  'localhost.evil:4180',
])('on loopback it does not go by %s', (host) => {
  expect(guard().judge({ host, ...bearer('right') })).toMatchObject({ status: 421 });
});

test.each([
  { origin: 'http://evil.example' },
  { origin: 'http://evil.example:4180' },
  { origin: 'http://127.0.0.1:4181' },
  { origin: 'null' },
  { origin: 'file://' },
  { origin: 'http://evil.example@127.0.0.1:4180' },
  { origin: 'http://127.0.0.1:4180/path' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
])('a page with %j is refused, with a token too', (headers) => {
  expect(guard().judge({ ...headers, ...bearer('right') })).toMatchObject({ status: 403 });
});

test('its own page is not', () => {
  const headers = { origin: 'http://127.0.0.1:4180', 'sec-fetch-site': 'same-origin' };
  expect(guard().judge(headers)).toMatchObject({ client: {} });
});

test('a token gives its own id and role; a wrong one is refused on loopback too', () => {
  const { judge } = guard();
  expect(judge(bearer('right'))).toEqual({ client: { id: 'token_a', role: 'view' } });
  expect(judge(bearer('wrong'))).toMatchObject({ status: 401 });
  expect(judge({ authorization: 'Basic cmlnaHQ6' })).toMatchObject({ status: 401 });
  expect(judge({ authorization: '' })).toMatchObject({ status: 401 });
});

test('elsewhere nobody comes in without one', () => {
  const { judge } = guard('192.0.2.7');
  expect(judge({})).toMatchObject({ status: 401 });
  expect(judge({ host: 'my.name:4180', ...bearer('right') })).toMatchObject({ client: {} });
  expect(judge({ host: 'my.name', origin: 'https://other', ...bearer('right') })).toMatchObject({
    status: 403,
  });
  expect(judge({ host: '', ...bearer('right') })).toMatchObject({ status: 421 });
});

test('wrong tokens are counted by address, and told five times a minute', () => {
  const { judge, refused, pass } = guard();
  for (let n = 0; n < 5; n += 1) expect(judge(bearer('no'))).toMatchObject({ status: 401 });
  for (let n = 0; n < 100; n += 1) expect(judge(bearer('no'))).toMatchObject({ status: 429 });
  expect(refused).toHaveLength(5);
  // Other addresses, and requests with a valid token, are not locked out.
  expect(judge(bearer('no'), '10.0.0.2')).toMatchObject({ status: 401 });
  expect(judge(bearer('right'))).toMatchObject({ client: {} });
  pass(60_001);
  expect(judge(bearer('no'))).toMatchObject({ status: 401 });
});
