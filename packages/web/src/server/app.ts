// The complete server of the page: first the actor is identified, then resources of `/api` are
// served, then files of the page.
import { basename } from 'node:path';
import { compact, fail, ok, plainText } from '@kernmantle/core/base';
import { personAuditRow } from '@kernmantle/core/runtime';
import { type Context, Hono } from 'hono';
import { matchedRoutes } from 'hono/route';
import type { Me, WebRole } from '../model/api.ts';
import type { WebAccess } from './access/authenticate.ts';
import type { Rejection } from './access/request-guard.ts';
import { answer, isJsonType, readBody } from './answer.ts';
import type { AddRoutes, ApiEnv, WebCaller, WebParts } from './context.ts';
import { addHeaders } from './headers.ts';
import { needs, routeRoles } from './roles.ts';
import { addApprovalsRoutes } from './routes/approvals.ts';
import { addCostRoutes } from './routes/cost.ts';
import { addEventsRoutes } from './routes/events.ts';
import { addHealthRoutes } from './routes/health.ts';
import { addItemsRoutes } from './routes/items.ts';
import { addMemoryRoutes } from './routes/memory.ts';
import { addSchedulesRoutes } from './routes/schedules.ts';
import { addScriptsRoutes } from './routes/scripts.ts';
import { addSteerRoutes } from './routes/steer.ts';
import { addThreadsRoutes } from './routes/threads.ts';
import { addUploadRoutes } from './routes/uploads.ts';
import type { StaticFiles } from './static-files.ts';
import { addStream } from './stream.ts';

const ROUTES: readonly AddRoutes[] = [
  addStream,
  addThreadsRoutes,
  addEventsRoutes,
  addSteerRoutes,
  addUploadRoutes,
  addApprovalsRoutes,
  addCostRoutes,
  addItemsRoutes,
  addScriptsRoutes,
  addSchedulesRoutes,
  addHealthRoutes,
  addMemoryRoutes,
];

const METHODS = ['GET', 'HEAD', 'POST', 'DELETE'];
const MAX_TOKEN = 200;
const MAX_NOTED = 200;

const CODES: Readonly<Record<number, string>> = {
  401: 'unauthenticated',
  403: 'permission_denied',
  421: 'misdirected',
  429: 'rate_limit',
};

function refuse(context: Context<ApiEnv>, { status, message, wait }: Rejection): Response {
  if (wait !== undefined) context.header('retry-after', String(wait));
  return answer(context, fail(CODES[status] ?? 'unavailable', message, compact({ wait })));
}

const addressOf = ({ env, req }: Context<ApiEnv>, access: WebAccess): string =>
  access.addressOf(req.raw.headers, env.incoming.socket.remoteAddress ?? '');

/** Adds the resources about the actor of the request. */
function addSession(
  api: Hono<ApiEnv>,
  parts: WebParts,
  access: WebAccess,
  open: OpenAnswers,
): void {
  const { runtime, version } = parts;
  const meOf = ({ who, role, expires }: WebCaller): Me => ({
    who,
    role,
    expires,
    project: basename(runtime.project),
    path: runtime.project,
    version,
    currency: plainText(runtime.library.config('pricing').value.currency) || 'USD',
    fleet: runtime.registry.place !== undefined,
  });
  const note = ({ who, id }: WebCaller, operation: string) =>
    runtime.audit.write(personAuditRow({ who, channel: 'web' }, operation, id));
  api.post('/session', async (context) => {
    const body = await readBody(context);
    if (!body.ok) return answer(context, body);
    const { token } = body.output;
    if (typeof token !== 'string' || token.length > MAX_TOKEN) {
      return answer(
        context,
        fail('invalid_input', '`token` must be the token of a link, or a bearer token'),
      );
    }
    const result = access.exchange(token, addressOf(context, access));
    if (!('asker' in result)) return refuse(context, result);
    const audited = note(result.asker, 'session:open');
    if (!audited.ok) return answer(context, audited);
    context.header('set-cookie', result.cookie);
    return answer(context, ok({ key: result.key, ...meOf(result.asker) }));
  });
  api.delete('/session', needs('view'), (context) => {
    const asker = context.get('asker');
    const result = access.end(asker.id);
    if (!result.ok) return answer(context, result);
    note(asker, 'session:end');
    context.header('set-cookie', result.output);
    open.check(context.env.outgoing);
    return answer(context, ok({ ended: asker.id }));
  });
  api.get('/me', needs('view'), (context) => answer(context, ok(meOf(context.get('asker')))));
}

/** Tracks open answers by actor. They end with the session or token that opened them. */
export function createOpenAnswers(counts: (id: string) => boolean) {
  const open = new Map<string, Set<{ destroy(): unknown }>>();
  return {
    add(
      id: string,
      connection: { destroy(): unknown; once(event: 'close', onClose: () => void): unknown },
    ) {
      const connections = open.get(id) ?? new Set();
      open.set(id, connections.add(connection));
      connection.once('close', () => {
        connections.delete(connection);
        if (connections.size === 0 && open.get(id) === connections) open.delete(id);
      });
    },
    /** Closes connections whose session or token is no longer valid, except the connection `but`. */
    check(but?: unknown): void {
      for (const [id, connections] of open) {
        if (counts(id)) continue;
        for (const connection of connections) if (connection !== but) connection.destroy();
      }
    },
  };
}
type OpenAnswers = ReturnType<typeof createOpenAnswers>;

/** A client that opens a session does not have one yet. */
const isLogin = ({ method, path }: { method: string; path: string }): boolean =>
  method === 'POST' && (path === '/api/session' || path === '/session');

/** Writes an audit row for an action that the role does not allow. */
function noteRefused({ runtime }: WebParts, context: Context<ApiEnv>, needed: WebRole): void {
  const { who, role } = context.get('asker');
  const { method, path } = context.req;
  const act = `${method} ${path.slice(0, MAX_NOTED)}`;
  const reason = `permission_denied: the actor has role \`${role}\`, and role \`${needed}\` is required`;
  const row = personAuditRow({ who, channel: 'web' }, act, '', reason);
  runtime.audit.write({ ...row, decision: 'denied' });
}

function createApi(parts: WebParts, access: WebAccess, open: OpenAnswers): Hono<ApiEnv> {
  const api = new Hono<ApiEnv>();
  api.use('*', async (context, next) => {
    const { req, env } = context;
    if (!METHODS.includes(req.method)) {
      return answer(context, fail('invalid_input', 'the method must be GET, HEAD, POST or DELETE'));
    }
    const type = req.header('content-type');
    // A page of another origin can send neither type without asking first.
    const isUpload = req.path.endsWith('/uploads') && type === 'application/octet-stream';
    if (req.method === 'POST' && !isUpload && !isJsonType(type)) {
      return answer(context, fail('invalid_input', '`content-type` must be `application/json`'));
    }
    if (!isLogin({ method: req.method, path: req.path })) {
      const verdict = access.judge(req.raw.headers, addressOf(context, access));
      if (!('asker' in verdict)) return refuse(context, verdict);
      context.set('asker', verdict.asker);
      context.set('onRefused', (needed) => noteRefused(parts, context, needed));
      open.add(verdict.asker.id, env.outgoing);
    }
    const route = matchedRoutes(context).at(-1)?.path ?? '';
    const span = {
      name: `${req.method} ${route}`,
      side: 'server',
      attributes: { 'http.request.method': req.method, 'http.route': route },
      parent: compact({
        traceparent: req.header('traceparent'),
        tracestate: req.header('tracestate'),
      }),
    } as const;
    const failed = () => (context.res.status < 500 ? undefined : String(context.res.status));
    await parts.runtime.traced(span, next, failed);
    return undefined;
  });
  addSession(api, parts, access, open);
  for (const add of ROUTES) add(api, parts);
  return api;
}

interface AppOptions {
  readonly parts: WebParts;
  readonly access: WebAccess;
  readonly files: StaticFiles;
  readonly open: OpenAnswers;
}

/** INVARIANT: a route without a declared role is never served. Only the login needs none. */
export function createApp({ parts, access, files, open }: AppOptions) {
  const app = new Hono<ApiEnv>();
  app.use('*', async (context, next) => {
    const { headers } = context.req.raw;
    const isApi = context.req.path.startsWith('/api/');
    const problem = access.place(headers, context.env.incoming.url ?? '/', isApi);
    if (problem) context.res = refuse(context, problem);
    else await next();
    addHeaders(context.res.headers);
  });
  const api = createApi(parts, access, open);
  const routes = routeRoles(api);
  const bare = routes.filter((route) => route.role === undefined && !isLogin(route));
  if (bare.length > 0) {
    const names = bare.map(({ method, path }) => `${method} ${path}`);
    throw new Error(`no role declared for ${names.join(', ')}`);
  }
  app.route('/api', api);
  app.notFound((context) => {
    const { method, path } = context.req;
    const isRead = method === 'GET' || method === 'HEAD';
    const encodings = context.req.header('accept-encoding') ?? '';
    const file = isRead && files.answer(path, method, encodings);
    // A person with a wrong address gets the page, which shows the error.
    const isVisit = isRead && context.req.header('sec-fetch-dest') === 'document';
    const page =
      !file && isVisit && !path.startsWith('/api') && files.answer('/', method, encodings);
    if (page) return new Response(page.body, { status: 404, headers: page.headers });
    return file || answer(context, fail('not_found', 'address not found'));
  });
  app.onError((error, context) => {
    parts.onError(error);
    return answer(context, fail('internal_error', 'internal error of the server'));
  });
  return { fetch: app.fetch, routes };
}
