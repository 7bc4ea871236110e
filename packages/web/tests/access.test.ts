// Who gets in over HTTP, and how it ends: a real server, raw sockets, real clients.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect as connectTcp } from 'node:net';
import { hostname as machine } from 'node:os';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  ACCEPT,
  connect,
  HELLO,
  launcher,
  type Served,
  serve,
} from '../../mcp/tests/support/http.ts';

let fixture: Fixture;
let served: Served;
beforeAll(async () => {
  fixture = makeFixture({ 'hello.txt': 'hello there\n' });
  served = await serve(fixture);
});
afterAll(async () => {
  await served.stop();
  fixture.remove();
});

interface Made {
  id: string;
  token: string;
}

async function km(project: string, ...args: string[]): Promise<{ output: Made; ok: boolean }> {
  const child = spawn(process.execPath, [launcher, ...args, '--json', '--project', project], {
    env: { ...fixture.env, KERNMANTLE_SRC: '1' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    text += more;
  });
  await once(child, 'close');
  return JSON.parse(text) as { output: Made; ok: boolean };
}

const addToken = async (role: string, project = fixture.root): Promise<Made> =>
  (await km(project, 'web', 'token', 'add', '--role', role)).output;

const bearer = ({ token }: Made) => ({ authorization: `Bearer ${token}` });
const post = (body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(served.url, {
    method: 'POST',
    headers: { ...ACCEPT, ...headers },
    body: JSON.stringify(body),
  });

/** As a browser would that was made to believe that a name points here: `fetch` sets `Host` itself. */
function statusWith(headers: Record<string, string>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(served.url, { method: 'POST', headers: { ...ACCEPT, ...headers } });
    request.on('response', (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('error', reject);
    request.end(JSON.stringify(HELLO));
  });
}

test('names and pages of others are refused before anything is read', async () => {
  const { host } = new URL(served.url);
  expect(await statusWith({ host })).toBe(200);
  expect(await statusWith({ host, origin: `http://${host}` })).toBe(200);
  expect(await statusWith({ host: 'evil.example.com' })).toBe(421);
  expect(await statusWith({ host: 'evil.example.com', origin: 'http://evil.example.com' })).toBe(
    421,
  );
  expect(await statusWith({ host, origin: 'http://evil.example.com' })).toBe(403);
  expect(await statusWith({ host, origin: 'null' })).toBe(403);
  expect(await statusWith({ host, 'sec-fetch-site': 'cross-site' })).toBe(403);
});

test('no page of another origin is told that it may read the answer', async () => {
  const preflight = await fetch(served.url, {
    method: 'OPTIONS',
    headers: { 'access-control-request-method': 'POST' },
  });
  expect(preflight.ok).toBe(false);
  for (const answer of [preflight, await post(HELLO)]) {
    const names = [...answer.headers.keys()];
    expect(names.filter((name) => name.startsWith('access-control'))).toEqual([]);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
  }
});

test('a wrong token, one of another project and one that was removed are refused', async () => {
  const other = makeFixture();
  const wrong = await post(HELLO, { authorization: 'Bearer kmt_nobody' });
  expect(wrong.status).toBe(401);
  expect(wrong.headers.get('www-authenticate')).toBe(
    'Bearer realm="kernmantle", error="invalid_token"',
  );
  const [mine, foreign] = [await addToken('view'), await addToken('view', other.root)];
  expect((await post(HELLO, bearer(mine))).status).toBe(200);
  expect((await post(HELLO, bearer(foreign))).status).toBe(401);
  expect((await km(fixture.root, 'web', 'token', 'remove', mine.id)).ok).toBe(true);
  expect((await post(HELLO, bearer(mine))).status).toBe(401);
  other.remove();
});

test('a session belongs to the token that opened it', async () => {
  const [ann, bob] = [await addToken('steer'), await addToken('approve')];
  const hello = await post(HELLO, bearer(ann));
  const session = { 'mcp-session-id': hello.headers.get('mcp-session-id') ?? '' };
  const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
  expect((await post(list, { ...session, ...bearer(bob) })).status).toBe(404);
  expect((await post(list, session)).status).toBe(404);
  expect((await post(list, { ...session, ...served.steering })).status).toBe(404);
  const ending = { method: 'DELETE', headers: { ...session, ...bearer(bob) } };
  expect((await fetch(served.url, ending)).status).toBe(404);
  expect((await post(list, { ...session, ...bearer(ann) })).status).toBe(200);
});

test('a session of the printed token is closed to a client without one', async () => {
  const hello = await post(HELLO, served.steering);
  const session = { 'mcp-session-id': hello.headers.get('mcp-session-id') ?? '' };
  const list = { jsonrpc: '2.0', id: 2, method: 'tools/list' };
  expect((await post(list, session)).status).toBe(404);
  expect((await fetch(served.url, { method: 'DELETE', headers: session })).status).toBe(404);
  expect((await post(list, { ...session, ...served.steering })).status).toBe(200);
  const other = await serve(fixture);
  const asked = { method: 'POST', headers: { ...ACCEPT, ...other.steering } };
  expect((await fetch(served.url, { ...asked, body: JSON.stringify(HELLO) })).status).toBe(401);
  await other.stop();
});

test('taking a token away ends the streams that it opened', async () => {
  const made = await addToken('steer');
  const hello = await post(HELLO, bearer(made));
  await hello.text();
  const session = { 'mcp-session-id': hello.headers.get('mcp-session-id') ?? '' };
  const stream = await fetch(served.url, {
    headers: { accept: 'text/event-stream', ...session, ...bearer(made) },
  });
  expect(stream.status).toBe(200);
  const over = stream.text();
  await km(fixture.root, 'web', 'token', 'remove', made.id);
  expect(await over).toBe('');
});

test('where others can reach it, there is no server without a token', async () => {
  const empty = makeFixture();
  await expect(serve(empty, '--host', '0.0.0.0')).rejects.toThrow('create one first');
  empty.remove();
  const made = await addToken('view');
  const open = await serve(fixture, '--host', '0.0.0.0');
  const url = open.url.replace('0.0.0.0', '127.0.0.1');
  const ask = (headers: Record<string, string>) =>
    fetch(url, { method: 'POST', headers: { ...ACCEPT, ...headers }, body: JSON.stringify(HELLO) });
  expect((await ask({})).status).toBe(401);
  expect((await ask(bearer(made))).status).toBe(200);
  const login = await fetch(url.replace('/mcp', '/.well-known/oauth-protected-resource'));
  expect(login.status).toBe(404);
  expect(open.said()).toContain('TLS');
  // What others are told to connect to is a name of this machine.
  expect(open.said()).not.toContain(`kernmantle ${open.url}`);
  expect(open.said()).toContain(`kernmantle ${open.url.replace('0.0.0.0', machine())} --header`);
  expect(await open.stop()).toBe(0);
});

test('who begins a request and says no more is not waited for', async () => {
  const { hostname, port } = new URL(served.url);
  const socket = connectTcp(Number(port), hostname);
  socket.on('error', () => {});
  socket.write('POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ');
  socket.resume();
  await once(socket, 'close');
  const client = await connect(served.url, 'modern');
  expect((await client.listTools()).tools).toHaveLength(4);
  await client.close();
});

test('clients that go away at any moment leave no session behind that is at work', async () => {
  const { hostname, port, host } = new URL(served.url);
  const body = JSON.stringify(HELLO);
  const lines = [
    'POST /mcp HTTP/1.1',
    `Host: ${host}`,
    ...Object.entries(ACCEPT).map(([name, value]) => `${name}: ${value}`),
    `Content-Length: ${body.length}`,
  ];
  const text = `${lines.join('\r\n')}\r\n\r\n${body}`;
  const leave = async (after: number): Promise<void> => {
    const socket = connectTcp(Number(port), hostname);
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.write(text.slice(0, after));
    // Some before they were heard, some while they are answered, some with the answer on its way.
    if (after % 3 === 0) await new Promise(setImmediate);
    if (after % 3 === 1) await Promise.race([once(socket, 'data'), once(socket, 'close')]);
    socket.destroy();
  };
  for (let round = 0; round < 6; round += 1) {
    const lengths = Array.from({ length: 40 }, (_, n) => (n < 5 ? n * 60 + 2 : text.length));
    await Promise.all(lengths.map(leave));
  }
  const sessions = await Promise.all(Array.from({ length: 30 }, () => post(HELLO)));
  expect(sessions.map(({ status }) => status)).toEqual(Array.from({ length: 30 }, () => 200));
});

test('what clients do wrong does not fill the log', async () => {
  for (let n = 0; n < 100; n += 1) await post({ jsonrpc: '2.0', id: n, method: `\u001b[2J${n}` });
  const lines = served.said().split('\n');
  expect(lines.filter((line) => line.startsWith('mcp:')).length).toBeLessThan(30);
  expect(served.said()).not.toContain('\u001b[2J');
});

test.each(['SIGTERM', 'SIGINT'] as const)('%s ends it, open streams and all', async (signal) => {
  const own = await serve(fixture);
  const client = await connect(own.url, 'legacy');
  const ended = new Promise<void>((resolve) => {
    Object.assign(client, { onclose: resolve });
  });
  expect(await own.stop(signal)).toBe(0);
  await client.close();
  await ended;
});

test('over HTTP it outlives the shell that started it, and ends when it is told to', async () => {
  const command = [launcher, 'mcp', 'serve', '--http', '--json', '--project', fixture.root];
  // A parent that says the address and the process, and is then killed.
  const parent = spawn(
    process.execPath,
    [
      '-e',
      `const child = require('node:child_process').spawn(process.execPath, ${JSON.stringify(command)},
        { stdio: ['ignore', 'pipe', 'ignore'] });
      child.stdout.once('data', (line) => console.log(JSON.stringify({ pid: child.pid, ...JSON.parse(line) })));`,
    ],
    { env: { ...fixture.env, KERNMANTLE_SRC: '1' }, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const [line] = (await once(parent.stdout, 'data')) as [Buffer];
  const { pid, output } = JSON.parse(String(line)) as { pid: number; output: { url: string } };
  const gone = once(parent, 'exit');
  parent.kill('SIGKILL');
  await gone;
  const isThere = (): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const client = await connect(output.url, 'modern');
  expect((await client.listTools()).tools).toHaveLength(4);
  await client.close();
  process.kill(pid, 'SIGTERM');
  await expect.poll(isThere).toBe(false);
});
