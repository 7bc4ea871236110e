// Logging in to a server: once with a person there, then without, and never for another address.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Outcome } from '../../src/base/index.ts';
import { openLoopbackLogin } from '../../src/mcp/client/loopback.ts';
import type { HttpEndpoint, ServerAnswer } from '../../src/mcp/client/pool.ts';
import type { Authorizer } from '../../src/mcp/client/ports.ts';
import { callWith, makeProject, poolOf, type TestProject } from './support/pool.ts';

let project: TestProject;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  project = makeProject();
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  project.remove();
});

const textOf = async (request: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
};
const json = (response: ServerResponse, value: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));

/** A server and, at the same address, who gives out tokens for it. */
async function guarded() {
  const state = {
    valid: new Set<string>(),
    refresh: new Set<string>(),
    codes: new Map<string, string>(),
    clients: 0,
    refreshes: 0,
    refused: 0,
    pages: 0,
    seen: [] as string[],
  };
  let count = 0;
  const issue = () => {
    const [access, refresh] = [`access-${++count}`, `refresh-${count}`];
    state.valid.add(access);
    state.refresh.add(refresh);
    return { access_token: access, refresh_token: refresh, token_type: 'Bearer', expires_in: 60 };
  };
  let origin = '';
  const server = createServer((request, response) => {
    void textOf(request).then((text) => answer(request, response, text));
  });
  function answer(request: IncomingMessage, response: ServerResponse, text: string): unknown {
    const url = new URL(request.url ?? '', origin);
    if (url.pathname.startsWith('/.well-known/oauth-protected-resource')) {
      return json(response, { resource: `${origin}/mcp`, authorization_servers: [origin] });
    }
    if (url.pathname === '/.well-known/oauth-authorization-server') {
      return json(response, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
      });
    }
    if (url.pathname === '/register') {
      state.clients++;
      return json(response, { ...JSON.parse(text), client_id: `client-${state.clients}` }, 201);
    }
    if (url.pathname === '/authorize') {
      state.pages++;
      const back = new URL(url.searchParams.get('redirect_uri') ?? '');
      state.codes.set('the-code', url.searchParams.get('code_challenge') ?? '');
      back.searchParams.set('code', 'the-code');
      back.searchParams.set('state', url.searchParams.get('state') ?? '');
      return response.writeHead(302, { location: back.href }).end();
    }
    if (url.pathname === '/token') {
      const form = new URLSearchParams(text);
      if (form.get('grant_type') === 'refresh_token') {
        state.refreshes++;
        // Used up by its first use.
        const isGood = state.refresh.delete(form.get('refresh_token') ?? '');
        if (!isGood) state.refused++;
        return isGood ? json(response, issue()) : json(response, { error: 'invalid_grant' }, 400);
      }
      const verifier = form.get('code_verifier') ?? '';
      const challenge = createHash('sha256').update(verifier).digest('base64url');
      const isGood = state.codes.get(form.get('code') ?? '') === challenge;
      return isGood ? json(response, issue()) : json(response, { error: 'invalid_grant' }, 400);
    }
    const token = (request.headers.authorization ?? '').replace('Bearer ', '');
    state.seen.push(token);
    if (!state.valid.has(token)) {
      const where = `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`;
      return response.writeHead(401, { 'www-authenticate': where }).end();
    }
    if (text === '') return response.writeHead(405).end();
    const { id, method } = JSON.parse(text) as { id?: number; method: string };
    if (id === undefined) return response.writeHead(202).end();
    const results: Record<string, object> = {
      initialize: {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'guarded', version: '1' },
      },
      'tools/list': { tools: [{ name: 'act', inputSchema: { type: 'object' } }] },
      'tools/call': { content: [{ type: 'text', text: 'in' }] },
    };
    const result = results[method];
    const error = { code: -32_601, message: 'no such method' };
    return json(response, { jsonrpc: '2.0', id, ...(result ? { result } : { error }) });
  }
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((done) => server.close(done));
  });
  origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  return { state, url: `${origin}/mcp` };
}

/** Follows the page to where it sends the browser. */
const browser = async (page: string): Promise<void> => {
  await fetch(page);
};

function caller(url: string, authorize?: Authorizer) {
  const { pool } = poolOf(project, { authorize });
  closing.push(() => pool.close());
  const endpoint: HttpEndpoint = { kind: 'http', url, headers: {}, oauth: { name: 'demo' } };
  return () => pool.call(endpoint, { name: 'act', arguments: {} }, callWith());
}

async function person(): Promise<Authorizer> {
  const login = await openLoopbackLogin((page) => void browser(page));
  closing.push(() => login.close());
  return login;
}

const words = (answer: Outcome<ServerAnswer>): string =>
  answer.ok ? JSON.stringify(answer.output.result) : JSON.stringify(answer.error);
const folder = () => join(project.home, '.ai', 'mcp-auth');

test('without a person nobody is asked, nothing is registered, and the command is named', async () => {
  const { url, state } = await guarded();
  const refused = await caller(url)();
  expect(refused).toMatchObject({
    ok: false,
    error: {
      code: 'mcp_connection_failed',
      detail: { retryable: false, remediation: expect.stringContaining('km mcp sync demo') },
    },
  });
  expect(state).toMatchObject({ clients: 0, pages: 0 });
  expect(existsSync(folder())).toBe(false);
});

test('a person logs in once; from then on it works unattended, and is refreshed', async () => {
  const { url, state } = await guarded();
  expect(words(await caller(url, await person())())).toContain('in');
  expect(state).toMatchObject({ clients: 1, pages: 1 });
  const file = join(folder(), 'demo.json');
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(folder())).toEqual(['demo.json']);

  const unattended = caller(url);
  expect(words(await unattended())).toContain('in');
  expect(state).toMatchObject({ clients: 1, pages: 1, refreshes: 0 });

  state.valid.clear();
  const answers = await Promise.all(Array.from({ length: 5 }, unattended));
  expect(answers.map(words).every((text) => text.includes('"in"'))).toBe(true);
  expect(state).toMatchObject({ clients: 1, pages: 1, refused: 0 });
  expect(state.refreshes).toBeGreaterThan(0);
  expect(readFileSync(file, 'utf8')).not.toContain('access-1"');

  state.valid.clear();
  state.refresh.clear();
  expect(await unattended()).toMatchObject({
    ok: false,
    error: { code: 'mcp_connection_failed', detail: { retryable: false } },
  });
});

test('what was given for one address is not shown to another under the same name', async () => {
  const [mine, other] = [await guarded(), await guarded()];
  expect(words(await caller(mine.url, await person())())).toContain('in');
  expect((await caller(other.url)()).ok).toBe(false);
  expect(other.state.seen.every((token) => token === '')).toBe(true);
});

test('an answer that belongs to another login is none', async () => {
  const { url, state } = await guarded();
  const wrong: Authorizer = {
    redirectUrl: 'http://127.0.0.1:1/callback',
    authorize: async () => ({
      ok: true,
      output: 'http://127.0.0.1:1/callback?code=the-code&state=x',
    }),
  };
  const refused = await caller(url, wrong)();
  expect(refused).toMatchObject({ ok: false, error: { code: 'mcp_connection_failed' } });
  expect(state.valid.size).toBe(0);
});
