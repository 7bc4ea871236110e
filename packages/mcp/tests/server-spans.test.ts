// Tests spans of client requests in an OpenTelemetry SDK: one span each, below the client's trace,
// with the spans of started directives below it.
import { signAsUser } from '@kernmantle/test-support/attacks';
import { directive, openStage, READ } from '@kernmantle/test-support/thread-project';
import { attributeNames, documentedNames, recordTraces } from '@kernmantle/test-support/tracing';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { InMemoryTransport } from '@modelcontextprotocol/server';
import { expect, onTestFinished, test } from 'vitest';
import { createMcpHost, createMcpHttp } from '../src/index.ts';
import { createMcpServer } from '../src/server/server.ts';
import { startDirective } from './support/threads.ts';

test('every request is a span under the trace of its client, without what was said', async () => {
  const { spans: seen } = recordTraces();
  const files = directive('look', { permissions: READ });
  const { runtime, fixture } = await openStage(
    { ...files, '../home/policy.yaml': '{}\n' },
    { look: [{ text: 'done' }] },
  );
  signAsUser(fixture, ...Object.keys(files));
  const host = createMcpHost(runtime, '1.0.0', () => {});
  const server = createMcpServer(host, { id: 'x', role: 'steer' });
  const [here, there] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: 'outside', version: '1.0.0' });
  await Promise.all([server.connect(here), client.connect(there)]);
  onTestFinished(() => client.close());

  await client.listTools();
  const spanId = 'c'.repeat(16);
  await client.callTool({
    name: 'execute',
    arguments: startDirective('look'),
    _meta: { traceparent: `00-${'d'.repeat(32)}-${spanId}-01` },
  });
  await client.callTool({
    name: 'execute',
    arguments: {
      item_type: 'tool',
      item_id: 'fs/write_file',
      parameters: { path: 'x', content: 'sesame' },
    },
  });
  const listed = seen.find(({ name }) => name === 'tools/list');
  expect(listed?.attributes).toMatchObject({ 'mcp.method.name': 'tools/list' });
  const [started, refused] = seen.filter(({ name }) => name === 'tools/call execute');
  expect(started).toMatchObject({ parent: spanId, ended: true });
  expect(started?.attributes).toMatchObject({
    'mcp.method.name': 'tools/call',
    'gen_ai.tool.name': 'execute',
    'mcp.client.name': 'outside',
  });
  expect(started?.attributes).not.toHaveProperty('error.type');
  expect(refused).toMatchObject({
    attributes: { 'error.type': 'permission_denied' },
    ended: true,
  });
  const thread = seen.find(({ name }) => name === 'invoke_agent look');
  expect(thread?.parent).toBe(started?.id);
  expect(JSON.stringify(seen)).not.toContain('sesame');
});

test.each(['legacy', 'auto'] as const)(
  'over HTTP the headers have the trace of a client, and its spans the documented names (%s)',
  async (mode) => {
    const { spans } = recordTraces();
    const { runtime } = await openStage({}, {});
    const http = await createMcpHttp(
      createMcpHost(runtime, '1.0.0', () => {}),
      {},
    );
    onTestFinished(() => http.close());
    const about = { name: 'outside', version: '1.0.0' };
    const client = new Client(about, { versionNegotiation: { mode } });
    const spanId = 'c'.repeat(16);
    const headers = { traceparent: `00-${'d'.repeat(32)}-${spanId}-01` };
    const transport = new StreamableHTTPClientTransport(new URL('http://127.0.0.1/mcp'), {
      requestInit: { headers },
      fetch: (url, init) => http.fetch(new Request(url, init), { id: 'x', role: 'steer' }),
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    await client.readResource({ uri: 'kernmantle://sesame' }).catch(() => undefined);
    await client.callTool({ name: 'help', arguments: { topic: 'sesame' } });
    const called = spans.find(({ name }) => name === 'tools/call help');
    expect(called).toMatchObject({ parent: spanId, ended: true });
    expect('mcp.session.id' in (called?.attributes ?? {})).toBe(mode === 'legacy');
    const documented = documentedNames('MCP server');
    expect(attributeNames(spans).filter((name) => !documented.includes(name))).toEqual([]);
    expect(JSON.stringify(spans)).not.toContain('sesame');
  },
);
