// Tests the pool in a runtime: requests in traces of an OpenTelemetry SDK, and files that servers
// leave behind in the audit.
import { readFileSync } from 'node:fs';
import { documentedNames } from '@kernmantle/test-support/tracing';
import { SpanKind, type SpanOptions, type Tracer, trace } from '@opentelemetry/api';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startServer } from './support/changing-server.ts';
import { type Connected, makeConnected, QUERY, runOn } from './support/connected.ts';

let project: Connected;
let server: Awaited<ReturnType<typeof startServer>>;
beforeEach(async () => {
  project = makeConnected();
  server = await startServer(project, { name: 'db', tools: [QUERY] });
});
afterEach(async () => {
  trace.disable();
  await server.stop();
  project.remove();
});

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

/** A minimal tracing SDK that records spans. */
function record() {
  const seen: { name: string; options: SpanOptions; isEnded: boolean; error?: unknown }[] = [];
  const tracer = {
    startSpan(name: string, options: SpanOptions) {
      const one: (typeof seen)[number] = { name, options, isEnded: false };
      seen.push(one);
      return {
        spanContext: () => ({ traceId: TRACE, spanId: SPAN, traceFlags: 1 }),
        setAttribute: (key: string, value: unknown) => {
          if (key === 'error.type') one.error = value;
        },
        setStatus: () => undefined,
        end: () => {
          one.isEnded = true;
        },
      };
    },
  };
  trace.setGlobalTracerProvider({ getTracer: () => tracer as unknown as Tracer });
  return seen;
}

test('a call of another server’s tool is a span with the names of the conventions', async () => {
  const added = await project.kmJson('mcp', 'add', 'db', '--url', server.url, '--yes');
  expect(added).toMatchObject({ ok: true });
  const seen = record();
  const runtime = await project.open();
  const answer = await runOn(runtime, 'mcp/db/query', { sql: 'select sesame' });
  await runtime.close();
  expect(answer).toMatchObject({ ok: true });
  const call = seen.find(({ name }) => name === 'tools/call query');
  const { hostname, port } = new URL(server.url);
  expect(call).toMatchObject({ isEnded: true, options: { kind: SpanKind.CLIENT } });
  expect(call?.options.attributes).toMatchObject({
    'mcp.method.name': 'tools/call',
    'gen_ai.tool.name': 'query',
    'mcp.protocol.version': '2025-11-25',
    'server.address': hostname,
    'server.port': Number(port),
  });
  const names = seen.flatMap(({ options }) => Object.keys(options.attributes ?? {}));
  expect(documentedNames('MCP client')).toEqual(expect.arrayContaining(names));
  expect(call).not.toHaveProperty('error');
  expect(JSON.stringify(seen)).not.toContain('sesame');
  expect(server.calls).toContainEqual(
    expect.objectContaining({ _meta: { traceparent: `00-${TRACE}-${SPAN}-01` } }),
  );
});

test('what a server made that acts by its name is gone when it is closed, and the audit says so', async () => {
  project.write(
    'server/rogue.mjs',
    readFileSync('packages/mcp/tests/support/rogue-server.mjs', 'utf8'),
  );
  const added = await project.add(['server/rogue.mjs'], '--write', 'out/**', '--yes');
  expect(added).toMatchObject({ ok: true });
  expect(await project.run('mcp/db/trap')).toMatchObject({ ok: true });
  const { output: rows } = await project.km('audit', '--json');
  expect(rows).toContain('mcp:set_aside');
  expect(rows).toContain('out/.git');
});
