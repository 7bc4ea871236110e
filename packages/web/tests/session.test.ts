// How somebody gets into the page and stays in: links, cookie and key, tokens, servers that are started
// again. Real servers, raw requests.
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { makeFixture } from '@kernmantle/test-support/project';
import { openStage } from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocket } from 'ws';
import { openSessions, openTokens } from '../src/index.ts';
import {
  ask,
  bearerOf,
  type Envelope,
  login,
  openServed,
  serveStage,
  spawnWeb,
} from './support/serve.ts';

const tokenIn = (link: string): string => link.split('#t=')[1] ?? '';
const clockAt = (start = Date.now()) => {
  let at = start;
  return { now: () => at, monotonic: () => at, pass: (ms: number) => void (at += ms) };
};

test('a link opens one session; the token stands in the fragment', async () => {
  const served = await openServed();
  const link = served.link();
  expect(link).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#t=kml_[\w-]{43}$/);
  const first = await ask(served.url, 'session', {}, { token: tokenIn(link) });
  expect(first.status).toBe(200);
  expect(first.headers.get('set-cookie')).toMatch(
    new RegExp(
      `^kernmantle_${served.port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200$`,
    ),
  );
  expect(first.answer.output).toMatchObject({
    who: 'ann',
    role: 'approve',
    project: 'project',
    path: served.fixture.root,
    currency: 'USD',
  });
  const again = await ask(served.url, 'session', {}, { token: tokenIn(link) });
  expect(again).toMatchObject({ status: 401, answer: { error: { code: 'unauthenticated' } } });
  expect(again.headers.get('set-cookie')).toBe(null);
});

test('of many that use one link at once, one gets in', async () => {
  const served = await openServed();
  const token = tokenIn(served.link());
  const tries = Array.from({ length: 5 }, () => ask(served.url, 'session', {}, { token }));
  const statuses = (await Promise.all(tries)).map(({ status }) => status);
  expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 401, 401, 401, 401]);
});

test('a link is over after two minutes, a session after twelve hours', async () => {
  const clock = clockAt();
  const served = await openServed({}, {}, { clock });
  const late = served.link();
  clock.pass(2 * 60_000);
  await expect(login(served.url, late)).rejects.toThrow('no longer valid');
  const headers = await login(served.url, served.link());
  expect((await served.get('me', headers)).status).toBe(200);
  clock.pass(12 * 3_600_000 - 1);
  expect((await served.get('me', headers)).status).toBe(200);
  clock.pass(1);
  expect(await served.get('me', headers)).toMatchObject({
    status: 401,
    answer: { error: { detail: { message: expect.stringContaining('km web link') } } },
  });
});

test('cookie and key are both needed, and of the same session', async () => {
  const served = await openServed();
  const [ann, bob] = [served.headers, await login(served.url, served.link())];
  const [cookie, key] = [{ cookie: ann.cookie ?? '' }, ann['x-kernmantle-key'] ?? ''];
  expect((await served.get('me', ann)).status).toBe(200);
  expect((await served.get('me', {})).status).toBe(401);
  expect((await served.get('me', cookie)).status).toBe(401);
  expect((await served.get('me', { 'x-kernmantle-key': key })).status).toBe(401);
  expect((await served.get('me', { ...ann, cookie: bob.cookie ?? '' })).status).toBe(401);
  expect((await served.get('me', { ...ann, 'x-kernmantle-key': 'x'.repeat(5000) })).status).toBe(
    401,
  );
  // One of the same name, from another server of this machine, does not shut anybody out.
  const tossed = `${(ann.cookie ?? '').split('=')[0]}=evil; ${ann.cookie}`;
  expect((await served.get('me', { ...ann, cookie: tossed })).status).toBe(200);
});

test('a session of one server is none of another, on the same host', async () => {
  const stage = await openStage({}, {});
  const [one, two] = [await serveStage(stage), await serveStage(stage)];
  // A browser sends the cookies of 127.0.0.1 to both, whatever their port.
  const cookie = `${one.headers.cookie}; ${two.headers.cookie}`;
  expect((await one.get('me', { ...one.headers, cookie })).status).toBe(200);
  expect((await two.get('me', { ...two.headers, cookie })).status).toBe(200);
  expect((await two.get('me', { ...one.headers, cookie })).status).toBe(401);
  expect((await two.get('me', one.headers)).status).toBe(401);
  await expect(login(two.url, one.link())).rejects.toThrow('no longer valid');
});

test('a server that is started again on its port knows who was logged in', async () => {
  const stage = await openStage({}, {});
  const first = await serveStage(stage);
  await first.close();
  const second = await serveStage(stage, { port: first.port });
  expect((await second.get('me', first.headers)).status).toBe(200);
  await second.close();
  const elsewhere = await serveStage(stage);
  expect((await elsewhere.get('me', first.headers)).status).toBe(401);
});

test('the files hold hashes and are closed to others', async () => {
  const { fixture, headers, link } = await openServed();
  const unused = tokenIn(link());
  const folder = join(fixture.home, 'web');
  const names = readdirSync(folder);
  expect(names.map((name) => name.replace(/[\d-]+/g, 'N')).toSorted()).toEqual([
    'serverN.json',
    'sessionsN.jsonl',
  ]);
  for (const name of names) {
    expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
    const text = readFileSync(join(folder, name), 'utf8');
    for (const secret of [unused, headers['x-kernmantle-key'], headers.cookie?.split('=')[1]]) {
      expect(text).not.toContain(secret);
    }
  }
});

test('whoever logs out is out; others stay', async () => {
  const served = await openServed();
  const other = await login(served.url, served.link());
  const left = await fetch(`${served.url}/api/session`, {
    method: 'DELETE',
    headers: served.headers,
  });
  expect(await left.json()).toMatchObject({ ok: true });
  expect(left.headers.get('set-cookie')).toContain('Max-Age=0');
  expect((await served.get('me')).status).toBe(401);
  expect((await served.get('me', other)).status).toBe(200);
});

test('who comes in and goes is a row of the audit', async () => {
  const { url, runtime, headers } = await openServed();
  await fetch(`${url}/api/session`, { method: 'DELETE', headers });
  const rows = await runtime.audit.read({ limit: 10 });
  expect(rows.ok && rows.output).toMatchObject([
    { surface: 'web', caller: 'ann', operation: 'session:open', decision: 'allowed' },
    { surface: 'web', caller: 'ann', operation: 'session:end', decision: 'allowed' },
  ]);
});

test('a bearer token opens a session with its role, and ends it with itself', async () => {
  const served = await openServed();
  const { home, root } = served.fixture;
  const tokens = openTokens({ home, project: root });
  const made = tokens.add({ name: 'carol', role: 'view', days: 1 });
  if (!made.ok) throw new Error(made.error.detail.message);
  const headers = await login(served.url, made.output.token);
  expect((await served.get('me', headers)).answer.output).toMatchObject({
    who: 'carol',
    role: 'view',
  });
  // A token is no link: it can be used again.
  await login(served.url, made.output.token);
  tokens.remove(made.output.id);
  expect((await served.get('me', headers)).status).toBe(401);
  await expect(login(served.url, made.output.token)).rejects.toThrow('no longer valid');
});

test('streams and sockets end with the session or token that opened them', async () => {
  const served = await openServed();
  const { home, root } = served.fixture;
  const tokens = openTokens({ home, project: root });
  const made = tokens.add({ name: '', role: 'view', days: 1 });
  if (!made.ok) throw new Error(made.error.detail.message);
  const bearer = { authorization: `Bearer ${made.output.token}` };
  const ended: string[] = [];
  const follow = async (name: string, headers: Readonly<Record<string, string>>): Promise<void> => {
    const response = await fetch(`${served.url}/api/stream?topics=threads`, { headers });
    expect(response.status).toBe(200);
    const note = () => void ended.push(name);
    void response.text().then(note, note);
  };
  const other = await login(served.url, served.link());
  await follow('token', bearer);
  await follow('session', served.headers);
  await follow('other', other);
  const socket = new WebSocket(`${served.url.replace('http', 'ws')}/api/socket`, {
    headers: bearer,
  });
  socket.on('close', () => ended.push('socket')).on('error', () => {});
  await once(socket, 'open');
  tokens.remove(made.output.id);
  await expect.poll(() => ended.toSorted()).toEqual(['socket', 'token']);
  const [, mine] = await Promise.all([
    served.get('me'),
    fetch(`${served.url}/api/session`, { method: 'DELETE', headers: served.headers }),
  ]);
  expect(mine.status).toBe(200);
  await expect.poll(() => ended.toSorted()).toEqual(['session', 'socket', 'token']);
  expect((await served.get('me', other)).status).toBe(200);
});

test('a socket is opened with a token alone', async () => {
  const { url, headers, fixture } = await openServed();
  const address = `${url.replace('http', 'ws')}/api/socket`;
  const status = (given: Record<string, string>): Promise<number | undefined> =>
    new Promise((resolve) => {
      const socket = new WebSocket(address, { headers: given });
      socket.on('unexpected-response', (_, response) => resolve(response.statusCode));
      socket.on('open', () => resolve(101)).on('error', () => {});
      onTestFinished(() => socket.terminate());
    });
  const bearer = bearerOf(fixture, 'view');
  expect(await status({ ...bearer })).toBe(101);
  expect(await status({ ...headers })).toBe(401);
  expect(await status({})).toBe(401);
  expect(await status({ ...bearer, host: 'evil.example' })).toBe(421);
  expect(await status({ ...bearer, origin: 'http://evil.example' })).toBe(403);
});

test('programs use the token itself', async () => {
  const served = await openServed();
  const headers = bearerOf(served.fixture, 'steer', 'ci');
  expect((await served.get('me', headers)).answer.output).toMatchObject({
    who: 'ci',
    role: 'steer',
  });
  expect((await served.get('me', { authorization: 'Bearer kmt_wrong' })).status).toBe(401);
});

test('wrong tokens are counted by address, links too', async () => {
  const served = await openServed();
  const wrong = () => ask(served.url, 'session', {}, { token: 'kml_wrong' });
  for (let n = 0; n < 5; n += 1) expect((await wrong()).status).toBe(401);
  const many = await wrong();
  expect(many).toMatchObject({ status: 429, answer: { error: { code: 'rate_limit' } } });
  expect(many.headers.get('retry-after')).toBe('60');
  // The right one is still taken.
  await login(served.url, served.link());
  const rows = await served.runtime.audit.read({ limit: 100 });
  const refused = rows.ok ? rows.output.filter((row) => row.operation === 'connect') : [];
  expect(refused).toHaveLength(5);
  expect(refused[0]).toMatchObject({ surface: 'web', decision: 'denied' });
});

test('days that are over are cleaned up', () => {
  const clock = clockAt(Date.parse('2026-03-01T12:00:00Z'));
  const { home, remove } = makeFixture();
  onTestFinished(remove);
  const sessions = openSessions({ home, project: '/p' }, clock);
  const wanted = { who: 'ann', role: 'view', port: 1, from: 'token_x' } as const;
  for (let day = 0; day < 4; day += 1) {
    sessions.open(wanted);
    clock.pass(24 * 3_600_000);
  }
  sessions.clean();
  expect(readdirSync(join(home, 'web'))).toEqual(['sessions-2026-03-04.jsonl']);
});

test('`km web` as a process: link, another link, who is in, and out', async () => {
  const { fixture } = await openStage({}, {});
  const web = await spawnWeb(fixture);
  expect(web.url).toMatch(/^http:\/\/127\.0\.0\.1:42\d{3}$/);
  await expect.poll(web.said).toContain(web.link);
  const headers = await login(web.url, web.link);
  const km = async (...args: string[]) =>
    JSON.parse(
      (await runCommand(['web', ...args, '--json'], fixture.root, fixture.env)).output,
    ) as Envelope;
  const other = (await km('link')) as { output: { link: string } };
  expect(other.output.link.startsWith(`${web.url}/#t=`)).toBe(true);
  const second = await login(web.url, other.output.link);
  const listed = (await km('sessions', 'ls')) as { output: { id: string; who: string }[] };
  expect(listed.output).toHaveLength(2);
  // The port is the project's own: there is no second server, and it says where the first one is.
  expect(await km()).toMatchObject({
    ok: false,
    error: { code: 'conflict', detail: { message: expect.stringContaining(web.url) } },
  });
  expect(await km('sessions', 'end', listed.output[0]?.id ?? '')).toMatchObject({ ok: true });
  expect((await ask(web.url, 'me', headers)).status).toBe(401);
  expect((await ask(web.url, 'me', second)).status).toBe(200);
  const stream = await fetch(`${web.url}/api/stream?topics=threads`, { headers: second });
  expect(stream.status).toBe(200);
  const over = stream.text().catch(() => '');
  expect(await web.stop('SIGINT')).toBe(0);
  await over;
  expect(await km('link')).toMatchObject({ ok: false, error: { code: 'not_found' } });
  // Started again it is the same place, and who was in is in.
  const again = await spawnWeb(fixture);
  if (again.url === web.url) expect((await ask(again.url, 'me', second)).status).toBe(200);
  await again.stop();
  // Where somebody else has its port it takes the next, and does not take the place of anybody.
  const stranger = createServer();
  const port = Number(new URL(again.url).port);
  stranger.listen(port, '127.0.0.1');
  onTestFinished(() => void stranger.close());
  await once(stranger, 'listening');
  const next = await spawnWeb(fixture);
  expect(next.url).toMatch(/^http:\/\/127\.0\.0\.1:42\d{3}$/);
  expect(next.url).not.toBe(again.url);
  const taken = await runCommand(
    ['web', '--port', String(port), '--json'],
    fixture.root,
    fixture.env,
  );
  expect(JSON.parse(taken.output)).toMatchObject({
    ok: false,
    error: { code: 'conflict', detail: { hint: expect.stringContaining('--port') } },
  });
});
