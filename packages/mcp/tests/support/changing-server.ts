// A server whose tools are defined by a file at any moment, as a program over pipes and over HTTP.
// It uses no SDK, so that it can misbehave.
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { JsonObject } from '@kernmantle/core/base';
import type { Fixture } from '@kernmantle/test-support/project';

export interface ServerState {
  name?: string;
  tools: JsonObject[];
  /** Results of calls by tool name. Other tools return `echo`. */
  results?: JsonObject;
  /** State that a call writes to the file before it answers. */
  onCall?: ServerState;
}

/**
 * Program in the project, for the sandbox. It announces a changed list when its file has changed.
 */
const PROGRAM = `
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
const file = process.argv[2];
const state = () => JSON.parse(readFileSync(file, 'utf8'));
const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const changed = () => send({ method: 'notifications/tools/list_changed' });
let seen = statSync(file).mtimeMs;
setInterval(() => {
  const now = statSync(file).mtimeMs;
  if (now !== seen) changed();
  seen = now;
}, 10).unref();
ANSWER
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const now = state();
  if (method === 'tools/call' && now.onCall) {
    writeFileSync(file, JSON.stringify(now.onCall));
    seen = statSync(file).mtimeMs;
    changed();
  }
  send({ id, ...answer(now, method, params) });
}
`;

const answer = (state: ServerState, method: string, params: JsonObject): JsonObject => {
  if (method === 'initialize') {
    return {
      result: {
        protocolVersion: '2025-11-25',
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: state.name ?? 'changing', version: '1.0.0' },
      },
    };
  }
  if (method === 'tools/list') return { result: { tools: state.tools } };
  // The caller decides whether the tool `say` answers or fails.
  if (method === 'tools/call' && params.name === 'say') {
    return (params.arguments as JsonObject).answer as JsonObject;
  }
  if (method === 'tools/call') {
    const own = (state.results ?? {})[params.name as string] as JsonObject | undefined;
    const text = JSON.stringify(params.arguments);
    return { result: own ?? { content: [{ type: 'text', text }] } };
  }
  return { error: { code: -32601, message: `no method ${method}` } };
};

/** Installs the program and its file in a project. `set` changes its list. */
export function installServer(fixture: Fixture, state: ServerState) {
  const program = PROGRAM.replace('ANSWER', `const answer = ${answer.toString()};`);
  fixture.write('server/server.mjs', program);
  const file = fixture.write('server/tools.json', JSON.stringify(state));
  return {
    args: ['server/server.mjs', 'server/tools.json'],
    set: (next: ServerState) => writeFileSync(file, JSON.stringify(next)),
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

/** Serves on loopback. `seen` has the headers of every request. */
export async function startServer(fixture: Fixture, state: ServerState) {
  const file = fixture.write('http-tools.json', JSON.stringify(state));
  const seen: NodeJS.Dict<string | string[]>[] = [];
  const calls: JsonObject[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      seen.push(request.headers);
      if (request.method !== 'POST') return response.writeHead(405).end();
      const { id, method, params = {} } = JSON.parse(await bodyOf(request));
      if (id === undefined) return response.writeHead(202).end();
      if (method === 'tools/call') calls.push(params);
      const now: ServerState = JSON.parse(readFileSync(file, 'utf8'));
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer(now, method, params) }));
    })();
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    file: join(file),
    seen,
    calls,
    set: (next: ServerState) => writeFileSync(file, JSON.stringify(next)),
    async stop() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
