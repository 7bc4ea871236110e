// Client side of the official conformance suite: runs the scenario of the environment through the
// pool, against the address of the suite's server.
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  compact,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
  systemClock,
} from '@kernmantle/core/base';
import { createLabelRecords, EMPTY } from '@kernmantle/core/flow';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { createMcpPool } from '../../src/client/create-pool.ts';
import type { HttpEndpoint, PoolCall, ServerTool } from '../../src/client/pool.ts';

const folder = realpathSync.native(mkdtempSync(join(tmpdir(), 'km-conformance-')));
const scenario = process.env['MCP_CONFORMANCE_SCENARIO'] ?? '';
const context = parseJson(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
const given = (name: string): string | undefined => {
  const value = context.ok ? getOwn(context.output, name) : undefined;
  return typeof value === 'string' ? value : undefined;
};
const client = compact({
  client_id: given('client_id'),
  client_secret: given('client_secret'),
});
const endpoint: HttpEndpoint = {
  kind: 'http',
  url: process.argv.at(-1) ?? '',
  headers: {},
  ...(scenario.startsWith('auth/') && {
    oauth: { name: 'conformance', ...client },
  }),
};

/** A person whose browser accepts every page. */
async function saysYes(page: string): Promise<Outcome<string>> {
  const answer = await fetch(page, { redirect: 'manual' });
  const location = answer.headers.get('location');
  return location === null ? fail('cancelled', 'the page led nowhere') : ok(location);
}

const pool = createMcpPool({
  clock: systemClock,
  client: { name: 'kernmantle', version: '0.0.0' },
  projectRoot: folder,
  home: join(folder, 'home'),
  process: () => Promise.reject(new Error('no process is started here')),
  verify: () => () => ({ ok: true, output: null }),
  // The suite's server is on this machine.
  isHostAllowed: () => true,
  labels: createLabelRecords(join(folder, 'labels.jsonl'), folder),
  namedFolders: () => [],
  authorize: { redirectUrl: 'http://localhost:3000/callback', authorize: saysYes },
  // The person accepts the defaults of every form.
  elicit: () => Promise.resolve({ action: 'accept', content: {} }),
});

const call = (): PoolCall => ({
  signal: AbortSignal.timeout(timeoutMs(60_000)),
  timeoutMs: 20_000,
  given: EMPTY,
  secrets: [],
});

const SAMPLES: Readonly<Record<string, Json>> = {
  string: 'text',
  integer: 2,
  number: 2,
  boolean: true,
  array: [],
  object: {},
};

/**
 * A value for every parameter of the schema. A `schema` parameter gets that of the first listed
 * tool.
 */
function sampleFor({ definition }: ServerTool, first: ServerTool | undefined): JsonObject {
  const properties = getOwn(getOwn(definition, 'inputSchema'), 'properties');
  return Object.fromEntries(
    Object.entries(isObject(properties) ? properties : {}).map(([name, schema]) => {
      const type = getOwn(schema, 'type');
      if (name === 'schema' && type === 'object') {
        return [name, first?.definition['inputSchema'] ?? {}];
      }
      return [name, SAMPLES[typeof type === 'string' ? type : 'string'] ?? null];
    }),
  );
}

/** The calls of the scenario, or one call of every listed tool. */
function callsOf(tools: readonly ServerTool[]): { name: string; arguments: JsonObject }[] {
  const wanted = context.ok ? getOwn(context.output, 'toolCalls') : undefined;
  if (Array.isArray(wanted)) return wanted as unknown as ReturnType<typeof callsOf>;
  return tools.map((tool) => ({ name: tool.name, arguments: sampleFor(tool, tools[0]) }));
}

/** Reads everything else that `mcp_http` can name. A server without a method reports that. */
async function readEverything(list: string, field: string, key: string, read: string) {
  const found = await pool.request(endpoint, { method: list, params: {} }, call());
  const entries = found.ok ? getOwn(found.output.result, field) : undefined;
  for (const entry of Array.isArray(entries) ? entries : []) {
    const params = { [key]: getOwn(entry, key) ?? null };
    const answer = await pool.request(endpoint, { method: read, params }, call());
    console.error(read, JSON.stringify(answer));
  }
}

const listed = await pool.list(endpoint, call());
console.error(scenario, JSON.stringify(listed));
if (listed.ok) {
  for (const one of callsOf(listed.output.tools)) {
    const answer = await pool.call(endpoint, one, call());
    console.error(one.name, JSON.stringify(answer));
  }
}
await readEverything('resources/list', 'resources', 'uri', 'resources/read');
await readEverything('prompts/list', 'prompts', 'name', 'prompts/get');
await pool.close();
rmSync(folder, { recursive: true, force: true });
process.exitCode = listed.ok ? 0 : 1;
