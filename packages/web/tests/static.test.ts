// The files of the page as they are served: what there is, as what, and nothing else.
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { buildPackage } from '@kernmantle/test-support/built-package';
import { isSoakOrCi, timeoutMs } from '@kernmantle/test-support/soak';
import { openStage } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import { startWeb } from '../src/index.ts';
import { rawRequest } from './support/raw-request.ts';
import { ask, login, openServed, spawnLauncher } from './support/serve.ts';

const APP = fileURLToPath(new URL('../src/page/app.tsx', import.meta.url));
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
  "trusted-types 'none'";

test('the document is served for every page, without a session and without anything of the project', async () => {
  const { url, fixture } = await openServed();
  const pages = [
    '/',
    '/t/abc',
    '/approvals/1',
    '/cost',
    '/items/tool/a%2Fb',
    '/scripts',
    '/health',
    '/login',
    ...[
      ...readFileSync(APP, 'utf8').matchAll(
        /^ {2}(\w+): async \(\) => \(await import\('\.\/views/gm,
      ),
    ].map(([, view]) => `/${view}`),
  ];
  expect(pages).toContain('/fleet');
  for (const path of pages) {
    const { status, headers, body } = await rawRequest(url, { path });
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': POLICY,
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
    });
    expect(body.toString()).not.toContain(fixture.root);
    // Nothing in it that the policy would not run.
    expect(body.toString()).not.toMatch(/<script>|<style|style=|onload|https?:\/\//);
  }
});

test('files that are named after their content are kept, and packed when that is understood', async () => {
  const { url } = await openServed();
  const { body } = await rawRequest(url, { path: '/' });
  const names = [...body.toString().matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, name]) => name);
  expect(names.some((name) => name?.endsWith('.js'))).toBe(true);
  for (const name of names) {
    const path = name ?? '';
    const plain = await rawRequest(url, { path });
    const packed = await rawRequest(url, { path, headers: { 'accept-encoding': 'br, gzip' } });
    const refused = await rawRequest(url, { path, headers: { 'accept-encoding': 'gzip;q=0' } });
    expect(plain.status).toBe(200);
    expect(plain.headers['content-encoding']).toBe(undefined);
    expect(refused.headers['content-encoding']).toBe(undefined);
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(packed.body).equals(plain.body)).toBe(true);
    expect(packed.headers['vary']).toBe('accept-encoding');
    if (path.startsWith('/assets/')) {
      expect(plain.headers['cache-control']).toBe('public, max-age=31536000, immutable');
    }
    const type = { js: 'text/javascript', css: 'text/css', svg: 'image/svg' }[
      path.split('.').at(-1) ?? ''
    ];
    expect(plain.headers['content-type']).toContain(type);
    const head = await rawRequest(url, { path, method: 'HEAD' });
    expect(head).toMatchObject({
      status: 200,
      headers: { 'content-length': String(plain.body.length) },
    });
    expect(head.body.length).toBe(0);
  }
});

test('nothing else of the disk can be reached', async () => {
  const { url } = await openServed();
  const paths = [
    '/../package.json',
    '/assets/../../package.json',
    '/assets/..%2f..%2f..%2fpackage.json',
    '/%2e%2e/%2e%2e/package.json',
    '/..\\..\\package.json',
    '//etc/passwd',
    '/assets//etc/passwd',
    '/manifest.json',
    '/index.html.gz',
    '/assets/',
    '/.git/config',
    '/%00',
    '/%',
    '/%ff',
    '/constructor',
    '/__proto__',
  ];
  for (const path of paths) {
    const { status, body } = await rawRequest(url, { path });
    expect([400, 404], path).toContain(status);
    expect(body.toString()).not.toContain('devDependencies');
  }
  expect((await rawRequest(url, { path: '/', method: 'POST' })).status).toBe(404);
});

test('links in the folder of the page are not followed, and other kinds of files are not served', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'km-page-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'index.html'), '<!doctype html>');
  writeFileSync(join(folder, 'secret.pem'), 'secret');
  symlinkSync('/etc/passwd', join(folder, 'assets', 'a-12345678.js'));
  const { url } = await openServed({}, {}, { page: folder });
  expect((await rawRequest(url, { path: '/' })).body.toString()).toBe('<!doctype html>');
  expect((await rawRequest(url, { path: '/secret.pem' })).status).toBe(404);
  expect((await rawRequest(url, { path: '/assets/a-12345678.js' })).status).toBe(404);
});

test('a page that is not built is said to be, with what to do', async () => {
  const { runtime } = await openStage({}, {});
  const started = await startWeb(runtime, { version: '0', port: 0, page: '/nowhere' });
  expect(started).toMatchObject({
    ok: false,
    error: {
      code: 'dependency_missing',
      detail: { hint: expect.stringContaining('scripts/page.js') },
    },
  });
});

// As long as the package takes to be built, on a busy machine.
test.runIf(isSoakOrCi)(
  'the package that is published serves the page from what was built (CI and soak: it is built first)',
  async () => {
    const built = buildPackage();
    onTestFinished(built.remove);
    const page = fileURLToPath(new URL('../../../dist/page', import.meta.url));
    cpSync(page, join(built.dir, 'dist', 'page'), { recursive: true });
    const { fixture } = await openStage({}, {});
    const web = await spawnLauncher(join(built.dir, 'bin', 'km.js'), fixture);
    const { status, body } = await rawRequest(web.url, { path: '/' });
    expect(status).toBe(200);
    expect(body.toString()).toBe(readFileSync(join(page, 'index.html'), 'utf8'));
    const headers = await login(web.url, web.link);
    expect((await ask(web.url, 'me', headers)).status).toBe(200);
    expect(await web.stop()).toBe(0);
  },
  timeoutMs(240_000),
);
