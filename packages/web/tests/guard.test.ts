// What is refused before anybody looks at it: names, origins and sites of others, bodies that are no
// JSON or too large; and every resource against every role. A real server, raw requests.
import { expect, test } from 'vitest';
import { type RawAnswer, rawRequest } from './support/raw-request.ts';
import { bearerOf, openServed } from './support/serve.ts';

const ORDER = ['view', 'steer', 'approve'];

async function served() {
  const server = await openServed();
  const { url, headers } = server;
  const { host } = new URL(url);
  const get = (path: string, more: Record<string, string>): Promise<RawAnswer> =>
    rawRequest(url, { path, headers: { ...headers, ...more } });
  const post = (body: string, more: Record<string, string>): Promise<RawAnswer> =>
    rawRequest(url, { method: 'POST', path: '/api/session', body, headers: more });
  return { ...server, host, raw: get, rawPost: post };
}

test('it goes by the names of this machine and its port, and by no others', async () => {
  const { raw, port } = await served();
  for (const name of ['127.0.0.1', 'localhost', '[::1]']) {
    expect((await raw('/api/me', { host: `${name}:${port}` })).status).toBe(200);
  }
  const others = [
    'evil.example',
    `evil.example:${port}`,
    '127.0.0.1',
    `127.0.0.1:${port + 1}`,
    `127.0.0.1.evil.example:${port}`,
  ];
  for (const host of others) {
    for (const path of ['/api/me', '/', '/assets/x.js']) {
      expect((await raw(path, { host })).status, `${host} ${path}`).toBe(421);
    }
  }
  expect((await raw(`http://evil.example/api/me`, {})).status).toBe(421);
});

test('pages of other origins and sites are refused, with a session too', async () => {
  const { raw, host, port } = await served();
  const own = { origin: `http://${host}`, 'sec-fetch-site': 'same-origin' };
  expect((await raw('/api/me', own)).status).toBe(200);
  const foreign: Record<string, string>[] = [
    { origin: 'http://evil.example' },
    { origin: `https://${host}` },
    { origin: `http://127.0.0.1:${port + 1}` },
    { origin: `http://localhost:${port}` },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'anything' },
  ];
  for (const headers of foreign) {
    for (const path of ['/api/me', '/', '/t/x']) {
      expect((await raw(path, headers)).status, JSON.stringify(headers)).toBe(403);
    }
  }
  // A person may open the document from nowhere; nobody opens the API so.
  expect((await raw('/', { 'sec-fetch-site': 'none' })).status).toBe(200);
  expect((await raw('/api/me', { 'sec-fetch-site': 'none' })).status).toBe(403);
});

test('no answer tells another origin that it may read it, and none is kept', async () => {
  const { raw, url, host } = await served();
  const preflight = await rawRequest(url, {
    method: 'OPTIONS',
    path: '/api/session',
    headers: { host, 'access-control-request-method': 'POST' },
  });
  expect(preflight.status).toBe(400);
  const answers = [
    preflight,
    await raw('/api/me', {}),
    await raw('/api/none', {}),
    await raw('/none', {}),
  ];
  for (const { headers } of answers) {
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'content-type': 'application/json; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    });
  }
});

test('only JSON is taken, and not too much of it', async () => {
  const { rawPost, link, url, headers } = await served();
  const body = JSON.stringify({ token: link().split('#t=')[1] });
  const types = [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data',
    'application/jsonx',
  ];
  for (const type of types)
    expect((await rawPost(body, { 'content-type': type })).status).toBe(400);
  expect((await rawPost(body, {})).status).toBe(400);
  const json = { 'content-type': 'application/json; charset=utf-8' };
  for (const wrong of [
    '{',
    '[]',
    '"x"',
    '{"token": 1}',
    '{"token": 1e999}',
    '{"token": "x", "more": [1e999]}',
    `{"token": "${'x'.repeat(300)}"}`,
    '\u{0}',
  ]) {
    expect((await rawPost(wrong, json)).status, wrong.slice(0, 20)).toBe(400);
  }
  const deep = `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`;
  expect((await rawPost(deep, json)).status).toBe(400);
  // Told, or cut off while they still send.
  const isRefused = async (sent: Promise<RawAnswer>): Promise<boolean> =>
    await sent.then(
      ({ status }) => status === 400,
      () => true,
    );
  expect(await isRefused(rawPost(`{"token":"${'x'.repeat(2 * 1024 * 1024)}"}`, json))).toBe(true);
  // Without a length, piece by piece.
  const many = rawRequest(url, {
    method: 'POST',
    path: '/api/session',
    headers: { ...json, 'transfer-encoding': 'chunked' },
    body: Buffer.alloc(3 * 1024 * 1024, 32),
  });
  expect(await isRefused(many)).toBe(true);
  for (const method of ['PUT', 'PATCH', 'PROPFIND']) {
    expect((await rawRequest(url, { method, path: '/api/me', headers })).status).toBe(400);
  }
  expect((await rawPost(body, json)).status).toBe(200);
});

test('every resource refuses a lower role, and a request without a session', async () => {
  const { routes, url, fixture } = await openServed();
  const bearers = new Map(ORDER.map((role) => [role, bearerOf(fixture, role)]));
  const open = routes.filter(({ role }) => role === undefined);
  expect(open).toEqual([{ method: 'POST', path: '/session', role: undefined }]);
  expect(routes.length).toBeGreaterThan(2);
  for (const { method, path, role } of routes) {
    if (role === undefined) continue;
    const place = `${url}/api${path.replace(/\/:\w+(\{[^}]*\})?/g, '/none')}`;
    const send = async (headers: Record<string, string>): Promise<number> => {
      const stop = new AbortController();
      const response = await fetch(place, {
        method,
        headers: { ...headers, ...(method === 'POST' && { 'content-type': 'application/json' }) },
        ...(method === 'POST' && { body: '{}' }),
        signal: stop.signal,
      });
      // Streams do not end by themselves.
      stop.abort();
      return response.status;
    };
    const name = `${method} ${path}`;
    expect(await send({}), name).toBe(401);
    for (const [held, bearer] of bearers) {
      const status = await send({ ...bearer });
      if (ORDER.indexOf(held) < ORDER.indexOf(role)) expect(status, `${name} ${held}`).toBe(403);
      else expect([401, 403, 500], `${name} ${held}`).not.toContain(status);
    }
  }
});

test('each is told which role it lacks', async () => {
  const { routes, fixture, post } = await openServed();
  const act = routes.find(({ method, role }) => method === 'POST' && role === 'steer');
  if (!act) return;
  const path = act.path.slice(1).replace(/:\w+(\{[^}]*\})?/g, 'none');
  expect(await post(path, {}, bearerOf(fixture, 'view'))).toMatchObject({
    status: 403,
    answer: { error: { code: 'permission_denied', detail: { role: 'view', needed: 'steer' } } },
  });
});
