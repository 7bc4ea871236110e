// Wraps every request in a trace span, which the host creates. INVARIANT: a span never contains
// arguments or answers, only names.
import { getOwn, isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import type { McpServer } from '@modelcontextprotocol/server';
import type { AnsweredRequest, McpHost } from './host.ts';

/** The part of the SDK's context that a span needs. */
interface RequestContext {
  readonly sessionId?: string;
  readonly http?: { readonly req?: Request };
}

type Handler = (
  request: { method: string; params?: JsonObject },
  context?: RequestContext,
) => unknown;

/** The field that names the subject of a request, by method. */
const TARGETS: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
};

const MAX_TARGET = 200;

function aboutOf(
  method: string,
  params: JsonObject,
  client: string,
  { sessionId = '', http }: RequestContext = {},
): AnsweredRequest {
  const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '');
  const target = text(getOwn(params, TARGETS[method] ?? ''));
  const meta = getOwn(params, '_meta') ?? null;
  const isInMeta = text(getOwn(meta, 'traceparent')) !== '';
  const traceOf = (name: string): string =>
    isInMeta ? text(getOwn(meta, name)) : (http?.req?.headers.get(name) ?? '');
  // The address of a resource can contain a handle, so only its kind is recorded.
  const subject = method === 'resources/read' ? target.replace(/(:\/\/).*/s, '$1') : target;
  return {
    method,
    client,
    target: subject.slice(0, MAX_TARGET),
    session: sessionId,
    traceparent: traceOf('traceparent'),
    tracestate: traceOf('tracestate'),
  };
}

/** Must be called after all handlers are registered. */
export function addSpans({ server }: McpServer, host: McpHost, client: () => string): void {
  const { span } = host;
  if (!span) return;
  // The SDK has no hook for observers, so this reads its private handlers.
  const { _requestHandlers: handlers } = server as unknown as {
    _requestHandlers?: Map<string, Handler>;
  };
  if (!handlers) return;
  for (const [method, handler] of handlers) {
    handlers.set(method, async (request, context) => {
      const params = isObject(request.params ?? null) ? (request.params as JsonObject) : {};
      const answer = async () => (await handler(request, context)) as JsonObject;
      const failed = ({ isError, structuredContent = null }: JsonObject): string | undefined => {
        if (isError !== true) return undefined;
        const code = getOwn(getOwn(structuredContent, 'error'), 'code');
        return typeof code === 'string' ? code : 'tool_error';
      };
      return await span(aboutOf(method, params, client(), context), answer, failed);
    });
  }
}
