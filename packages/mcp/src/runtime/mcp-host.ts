// Implements the host of the MCP server: the four kernel tools on the surface `mcp`, and the
// services behind them.
import { existsSync, realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { compact, fail, type Json, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import type { PolicyState } from '@kernmantle/core/flow';
import type { Library } from '@kernmantle/core/items';
import type { Verb } from '@kernmantle/core/kernel';
import type { CallOptions } from '@kernmantle/core/runtime';
import { decideApproval, registryKey, type Threads } from '@kernmantle/core/runtime';
import type { KeyFolder } from '@kernmantle/core/trust';
import type { McpClient, McpHost } from '../server/host.ts';

/** The parts of the runtime that clients can reach. */
interface HostParts {
  readonly project: string;
  readonly library: Library;
  readonly keys: KeyFolder;
  policies(): PolicyState;
  call(verb: Verb, request: JsonObject, options: CallOptions): Promise<Outcome<Json>>;
  threads(): Promise<Outcome<Threads>>;
}

/** An SDK registers itself under this symbol. Without an SDK, no tracing code is loaded. */
const SDK = Symbol.for('opentelemetry.js.api.1');
export const isTraced = (): boolean => Object.hasOwn(globalThis, SDK);

/** The field that names the subject of a request, by method. */
const ABOUT: Readonly<Record<string, string>> = {
  'tools/call': 'gen_ai.tool.name',
  'prompts/get': 'gen_ai.prompt.name',
  'resources/read': 'mcp.resource.uri',
};

const spanned: NonNullable<McpHost['span']> = async (request, work, failed) => {
  if (!isTraced()) return await work();
  const { method, target, client, session, traceparent, tracestate } = request;
  const { inSpan } = await import('@kernmantle/core/harness').then(({ telemetry }) => telemetry());
  const about = ABOUT[method];
  const attributes = {
    'mcp.method.name': method,
    'mcp.client.name': client,
    ...(session === '' ? {} : { 'mcp.session.id': session }),
    ...(about === undefined ? {} : { [about]: target }),
    ...(method === 'tools/call' ? { 'gen_ai.operation.name': 'execute_tool' } : {}),
  };
  const name = [method, target].filter((part) => part !== '').join(' ');
  const parent = { traceparent, tracestate };
  return await inSpan({ name, side: 'server', attributes, parent }, work, failed);
};

/** Returns the name for the audit. It contains the id, so that approvals are bound to one client. */
const whoIs = ({ name, id }: McpClient): string =>
  [name, id].filter((part) => part !== '').join('@');

/** Removes `project_path` from a request. Fails with `permission_denied` if it is another project. */
function checkPlace(
  project: string,
  { project_path: path, ...request }: JsonObject,
): Outcome<JsonObject> {
  if (path === undefined) return ok(request);
  const place = resolve(project, typeof path === 'string' ? path : '');
  if (existsSync(place) && realpathSync(place) === project) return ok(request);
  return fail(
    'permission_denied',
    'this server serves one project; if the policy grants `project.use`, start a directive elsewhere with `threads/thread_directive` and its `project_path`',
    { missing: 'project.use' },
  );
}

export function createMcpHost(
  runtime: HostParts,
  version: string,
  onError: (error: Error) => void,
): McpHost {
  const store: McpHost['store'] = async () => {
    const threads = await runtime.threads();
    return threads.ok ? ok(threads.output.store) : threads;
  };
  return {
    version,
    project: runtime.project,
    library: runtime.library,
    policy: () => runtime.policies().policy,
    async call(verb, request, { client, signal, handles, onOutput }) {
      const here = checkPlace(runtime.project, request);
      if (!here.ok) return here;
      const isViewer = client.role === 'view' || undefined;
      const more = compact({ isViewer, handles, onOutput });
      return await runtime.call(verb, here.output, {
        surface: 'mcp',
        name: whoIs(client),
        signal,
        ...more,
      });
    },
    store,
    async decide(approval, { approve, words, value }, client) {
      if (client.role !== 'approve') {
        return fail(
          'permission_denied',
          'this client cannot decide approval requests; it needs the role `approve`',
        );
      }
      if (!runtime.policies().policy.elicits('mcp')) {
        const message = 'the policy has `surfaces.mcp.elicitation: false`; decide in a terminal';
        return fail('permission_denied', message);
      }
      const opened = await store();
      if (!opened.ok) return opened;
      const by = { who: whoIs(client), channel: 'mcp' } as const;
      const decision = { decision: approve ? 'approved' : 'denied', by, why: '' } as const;
      const formAnswer = value ? { answer: { value } } : {};
      const answer = words === undefined ? formAnswer : { answer: words };
      return await decideApproval(
        opened.output,
        approval,
        { ...decision, ...answer },
        words !== undefined,
      );
    },
    key: () => registryKey(runtime),
    span: spanned,
    onError,
  };
}
