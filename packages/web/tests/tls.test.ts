// Elsewhere than on this machine: with TLS and tokens, or not at all.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStage } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import { startWeb } from '../src/index.ts';
import { rawRequest } from './support/raw-request.ts';
import { ask, bearerOf, login, serveStage, spawnWeb } from './support/serve.ts';

function hasOpenssl(): boolean {
  try {
    return execFileSync('openssl', ['version'], { stdio: 'pipe' }).length > 0;
  } catch {
    return false;
  }
}
const tlsTest = hasOpenssl()
  ? test
  : (name: string, run: () => Promise<void>) =>
      test.skip(`${name} (no openssl on this machine to make a certificate with)`, run);

/** For `agents.example` and 127.0.0.1. */
function makeCertificate() {
  const folder = mkdtempSync(join(tmpdir(), 'km-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const wanted = '-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2';
  const names = 'subjectAltName=DNS:agents.example,IP:127.0.0.1';
  const args = ['req', ...wanted.split(' '), '-subj', '/CN=agents.example', '-addext', names];
  execFileSync('openssl', [...args, '-keyout', key, '-out', cert], { stdio: 'pipe' });
  const read = (file: string): string => readFileSync(file, 'utf8');
  return { files: { key, cert }, tls: { key: read(key), cert: read(cert) } };
}

test('where others can reach it there is no page without TLS, and none without a token', async () => {
  const { runtime, fixture } = await openStage({}, {});
  const start = (more: object) => startWeb(runtime, { version: '0', port: 0, ...more });
  expect(await start({ host: '0.0.0.0' })).toMatchObject({
    ok: false,
    error: { code: 'permission_denied', detail: { missing: 'tls' } },
  });
  expect(await start({ behind: 'https://agents.example' })).toMatchObject({
    ok: false,
    error: { code: 'permission_denied', detail: { missing: 'token' } },
  });
  for (const behind of ['http://agents.example', 'agents.example', 'https://a.example/path', '']) {
    expect(await start({ behind })).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  }
  bearerOf(fixture, 'view');
  expect(await start({ host: '0.0.0.0' })).toMatchObject({ error: { detail: { missing: 'tls' } } });
  expect(await start({ tls: { key: 'no', cert: 'no' } })).toMatchObject({
    ok: false,
    error: { code: 'invalid_input' },
  });
});

test('behind a proxy it goes by the name of the proxy alone, and cookies are for TLS only', async () => {
  const stage = await openStage({}, {});
  const bearer = bearerOf(stage.fixture, 'steer', 'ci');
  const { port, link } = await serveStage(stage, { behind: 'https://agents.example' });
  expect(link()).toMatch(/^https:\/\/agents\.example\/#t=/);
  const url = `http://127.0.0.1:${port}`;
  const proxied = { host: 'agents.example' };
  const send = (headers: Record<string, string>, path = '/api/me') =>
    rawRequest(url, { path, headers: { ...bearer, ...headers } });
  expect((await send(proxied)).status).toBe(200);
  expect((await send({ ...proxied, origin: 'https://agents.example' })).status).toBe(200);
  expect((await send({ ...proxied, origin: 'http://agents.example' })).status).toBe(403);
  expect((await send({ host: `127.0.0.1:${port}` })).status).toBe(421);
  expect((await send({ host: `agents.example:${port}` })).status).toBe(421);
  const opened = await rawRequest(url, {
    method: 'POST',
    path: '/api/session',
    headers: { ...proxied, 'content-type': 'application/json' },
    body: JSON.stringify({ token: bearer['authorization']?.split(' ')[1] }),
  });
  expect(opened.status).toBe(200);
  expect(opened.headers['set-cookie']?.[0]).toMatch(/^__Host-kernmantle_\d+=.*; Secure$/);
  // Who is wrong is told apart by the address that the proxy names, not by what was written before it.
  const wrong = (from: string) =>
    send({ ...proxied, authorization: 'Bearer kmt_no', 'x-forwarded-for': from });
  for (let n = 0; n < 6; n += 1) await wrong(`10.0.0.${n}, 192.0.2.1`);
  expect((await wrong('10.0.0.9, 192.0.2.1')).status).toBe(429);
  expect((await wrong('192.0.2.1, 192.0.2.2')).status).toBe(401);
  // What is no address was not written by a proxy: whoever invents names is one.
  for (let n = 0; n < 6; n += 1) await wrong(`name-${n}`);
  expect((await wrong('another')).status).toBe(429);
});

tlsTest('over TLS it goes by the names of its certificate', async () => {
  const { tls } = makeCertificate();
  const stage = await openStage({}, {});
  const bearer = bearerOf(stage.fixture, 'view');
  const { port } = await serveStage(stage, { tls, host: '0.0.0.0' });
  const url = `https://127.0.0.1:${port}`;
  const send = (headers: Record<string, string>) =>
    rawRequest(url, {
      path: '/api/me',
      ca: tls.cert,
      servername: 'agents.example',
      headers: { ...bearer, ...headers },
    });
  expect((await send({ host: `agents.example:${port}` })).status).toBe(200);
  expect((await send({ host: `127.0.0.1:${port}` })).status).toBe(200);
  expect((await send({ host: `evil.example:${port}` })).status).toBe(421);
  expect((await send({ host: 'agents.example' })).status).toBe(421);
  const own = `https://agents.example:${port}`;
  expect((await send({ host: `agents.example:${port}`, origin: own })).status).toBe(200);
  expect(
    (await send({ host: `agents.example:${port}`, origin: own.replace('s:', ':') })).status,
  ).toBe(403);
  await expect(rawRequest(`http://127.0.0.1:${port}`, { path: '/' })).rejects.toThrow();
});

tlsTest('the command takes a certificate and its key', async () => {
  const { files, tls } = makeCertificate();
  const { fixture } = await openStage({}, {});
  const web = await spawnWeb(fixture, '--tls-cert', files.cert, '--tls-key', files.key);
  expect(web.link).toMatch(/^https:\/\/127\.0\.0\.1:\d+\/#t=/);
  const opened = await rawRequest(web.url, {
    method: 'POST',
    path: '/api/session',
    ca: tls.cert,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token: web.link.split('#t=')[1] }),
  });
  expect(opened.status).toBe(200);
  expect(opened.headers['set-cookie']?.[0]).toContain('; Secure');
  expect(await web.stop()).toBe(0);
  await expect(spawnWeb(fixture, '--tls-cert', files.cert)).rejects.toThrow(
    'must be used together',
  );
  await expect(spawnWeb(fixture, '--host', '0.0.0.0')).rejects.toThrow('TLS');
  await expect(
    spawnWeb(fixture, '--host', '0.0.0.0', '--tls-cert', files.cert, '--tls-key', files.key),
  ).rejects.toThrow('no token');
});

test('on this machine nothing of that is needed', async () => {
  const stage = await openStage({}, {});
  const served = await serveStage(stage, { host: 'localhost' });
  const headers = await login(served.url, served.link());
  expect((await ask(served.url, 'me', headers)).status).toBe(200);
});
