// A server that requires a login, together with its authorization server.
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

const textOf = async (request: IncomingMessage): Promise<string> => {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
};
const json = (response: ServerResponse, value: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));

/** Starts a server with an authorization server at the same address. */
export async function startGuardedServer() {
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
        // A refresh token is valid once.
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
  origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  };
  return { state, url: `${origin}/mcp`, stop };
}
