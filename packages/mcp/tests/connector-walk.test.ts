// Tests the walkthrough of the original design with the four tools alone: a connector is found in a
// catalog, loaded, run, and its tools are called, also by a thread.
import { getOwn, type JsonObject, plainText } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startServer } from './support/changing-server.ts';
import { type Connected, makeConnected, QUERY } from './support/connected.ts';

let project: Connected;
let server: Awaited<ReturnType<typeof startServer>>;
beforeEach(async () => {
  project = makeConnected();
  project.env.SUPABASE_SERVICE_KEY = 'service-key-of-a-test';
  const migrate = { ...QUERY, name: 'migrate', annotations: { destructiveHint: true } };
  server = await startServer(project, { name: 'supabase', tools: [QUERY, migrate] });
});
afterEach(async () => {
  await server.stop();
  project.remove();
});

/** The connector of the design, except for its address. */
const connector = (url: string): string => `tool_id: supabase_connector
tool_type: mcp_connector
executor_id: python
version: "1.0.0"

config:
  mcp_url: "${url}"
  auth:
    type: bearer
    token: "\${SUPABASE_SERVICE_KEY}"
  output_dir: ".ai/tools/mcp/"
  tool_prefix: "supabase_"

requires:
  - mcp.connect # Permission to connect to external MCPs

retry:
  max_attempts: 3
  backoff_ms: [250, 1000, 3000]
  retryable_errors:
    - CONNECTION_REFUSED
    - TIMEOUT
    - 503_SERVICE_UNAVAILABLE
`;

async function walk(runtime: Runtime): Promise<void> {
  const call = (verb: 'search' | 'load' | 'execute', request: JsonObject) =>
    runtime.call(verb, request, { surface: 'library' });
  const found = { item_type: 'tool', query: 'supabase connector', source: 'registry' };
  expect(await call('search', found)).toMatchObject({
    output: { items: [{ item_id: 'mcp/supabase_connector', signed: true }] },
  });
  const loaded = { item_type: 'tool', item_id: 'mcp/supabase_connector', source: 'registry' };
  expect(await call('load', { ...loaded, destination: 'project' })).toMatchObject({ ok: true });
  const connect = { item_type: 'tool', action: 'run', item_id: 'supabase_connector' };
  const first = await call('execute', connect);
  expect(first).toMatchObject({ output: { status: 'approval_pending', server: 'supabase' } });
  const pending = first.ok ? getOwn(first.output, 'pending') : undefined;
  const approval = plainText(getOwn(pending ?? null, 'approval'));
  expect((await project.km('approvals', 'approve', approval)).code).toBe(0);
  expect(await call('execute', connect)).toMatchObject({
    output: { status: 'synced', written: ['mcp/supabase_query', 'mcp/supabase_migrate'] },
  });
  const query = { item_type: 'tool', action: 'run', item_id: 'supabase_query' };
  expect(await call('execute', { ...query, parameters: { sql: 'select 1' } })).toMatchObject({
    output: {
      content: [{ text: '{"sql":"select 1"}' }],
      chain: ['mcp/supabase_query', 'mcp/supabase_connector', 'mcp/connector', 'mcp'],
    },
  });
}

test('search, load, run the connector, run a generated tool', async () => {
  const folder = `${project.home}/../shelf/.ai`;
  const file = project.write(`${folder}/tools/mcp/supabase_connector.yaml`, connector(server.url));
  expect((await project.km('sign', file)).code).toBe(0);
  expect((await project.km('catalog', 'add', folder, '--name', 'shelf')).code).toBe(0);
  const runtime = await project.open();
  try {
    await walk(runtime);
  } finally {
    await runtime.close();
  }
  expect(server.calls).toEqual([{ name: 'query', arguments: { sql: 'select 1' } }]);
  for (const { authorization } of server.seen) {
    expect(authorization).toBe('Bearer service-key-of-a-test');
  }
});

test('a connector that cannot be reached is tried again as it says, and says why it failed', async () => {
  const file = project.write(
    '.ai/tools/mcp/supabase_connector.yaml',
    connector('http://127.0.0.1:9/mcp').replace('[250, 1000, 3000]', '[1, 1, 1]'),
  );
  expect((await project.km('sign', file)).code).toBe(0);
  expect(await project.run('supabase_connector')).toMatchObject({
    error: {
      code: 'mcp_connection_failed',
      detail: {
        attempts: 3,
        endpoint: 'http://127.0.0.1:9/mcp',
        retryable: true,
        remediation: expect.any(String),
      },
    },
  });
});

/** The tool of the design. It has no pin, so it needs every permission. */
const QUERY_FILE = (url: string): string => `tool_id: supabase_ask
tool_type: mcp_tool
executor_id: mcp_http
version: "1.0.0"
config:
  mcp_url: "${url}"
  mcp_tool: "query" # The actual MCP tool name
requires:
  - db.query
  - mcp.supabase
input_schema:
  type: object
  properties: { sql: { type: string } }
`;

test('a tool over mcp_http without a pin works as written, with every right it takes', async () => {
  const file = project.write('.ai/tools/mcp/supabase_ask.yaml', QUERY_FILE(server.url));
  expect((await project.km('sign', file)).code).toBe(0);
  project.write(`${project.home}/policy.yaml`, 'hosts: ["127.0.0.1"]\n');
  expect(await project.run('supabase_ask', { sql: 'select 1' })).toMatchObject({
    output: { content: [{ text: '{"sql":"select 1"}' }] },
  });
  for (const name of ['mcp.connect', 'net.http', 'db.query', 'mcp.supabase.call']) {
    const deny = `hosts: ["127.0.0.1"]\nsurfaces: { cli: { capabilities: { deny: [${name}] } } }\n`;
    project.write(`${project.home}/policy.yaml`, deny);
    expect(await project.run('supabase_ask', { sql: 'select 1' })).toMatchObject({
      error: { code: 'permission_denied', detail: { missing: name } },
    });
  }
});
