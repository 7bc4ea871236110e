// Tests spans of client requests in an OpenTelemetry SDK: one span each, below the client's trace,
// with the spans of started directives below it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { signAsUser } from '@kernmantle/test-support/attacks';
import { directive, openStage, READ } from '@kernmantle/test-support/thread-project';
import { Client } from '@modelcontextprotocol/client';
import { InMemoryTransport } from '@modelcontextprotocol/server';
import {
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  type SpanOptions,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { createMcpHost } from '../src/index.ts';
import { createMcpServer } from '../src/server/server.ts';
import { startDirective } from './support/threads.ts';

interface Seen {
  name: string;
  options: SpanOptions;
  parent: string | undefined;
  id: string;
  ended: boolean;
  error?: unknown;
}

/** A minimal tracing SDK that records spans. */
function record(): Seen[] {
  const seen: Seen[] = [];
  const tracer = {
    startSpan(name: string, options: SpanOptions, at: Context) {
      const parent = trace.getSpanContext(at)?.spanId;
      const one: Seen = {
        name,
        options,
        parent,
        id: `${seen.length}`.padStart(16, 'a'),
        ended: false,
      };
      seen.push(one);
      const span = {
        setAttribute(key: string, value: unknown) {
          if (key === 'error.type') one.error = value;
          return span;
        },
        setAttributes: () => span,
        setStatus: () => span,
        isRecording: () => true,
        spanContext: () => ({ traceId: 'b'.repeat(32), spanId: one.id, traceFlags: 1 }),
        end() {
          one.ended = true;
        },
      };
      return span as unknown as Span;
    },
  } as unknown as Tracer;
  trace.setGlobalTracerProvider({ getTracer: () => tracer });
  const storage = new AsyncLocalStorage<Context>();
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (at, work, self, ...args) => storage.run(at, () => work.call(self as never, ...args)),
    bind: (_at, target) => target,
    enable() {
      return this;
    },
    disable() {
      return this;
    },
  });
  return seen;
}

afterEach(() => {
  trace.disable();
  context.disable();
});

test('every request is a span under the trace of its client, without what was said', async () => {
  const seen = record();
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
  expect(listed?.options.attributes).toMatchObject({ 'mcp.method.name': 'tools/list' });
  const [started, refused] = seen.filter(({ name }) => name === 'tools/call execute');
  expect(started).toMatchObject({ parent: spanId, ended: true });
  expect(started?.options.attributes).toMatchObject({
    'mcp.method.name': 'tools/call',
    'gen_ai.tool.name': 'execute',
    'mcp.client.name': 'outside',
  });
  expect(started).not.toHaveProperty('error');
  expect(refused).toMatchObject({ error: 'permission_denied', ended: true });
  const thread = seen.find(({ name }) => name === 'invoke_agent look');
  expect(thread?.parent).toBe(started?.id);
  expect(JSON.stringify(seen)).not.toContain('sesame');
});
