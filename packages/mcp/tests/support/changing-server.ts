// A server whose tools are what a file says at this moment: as a program over pipes, and over HTTP. It is
// written by hand, so that it can do what no honest server does.
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import type { JsonObject } from '@kernmantle/core/base';
import type { Fixture } from '@kernmantle/test-support/project';

export interface ServerState {
  name?: string;
  tools: JsonObject[];
  /** By tool, the result of a call; `echo` otherwise. */
  results?: JsonObject;
  /** Written to the file when a tool is called, before it answers. */
  onCall?: ServerState;
}

/** In the project, for the sandbox. Says that its list has changed when its file has. */
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
  // A tool `say` answers, or fails, as its caller says.
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

/** Puts the program and its file into a project; `set` is what it lists from now on. */
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

/** On loopback; `seen` are the headers of every request. */
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
