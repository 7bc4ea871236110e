// Maps routes to roles. Every route names the role that it needs. A route without a role is not served.
import { fail } from '@kernmantle/core/base';
import type { Hono, MiddlewareHandler } from 'hono';
import type { WebRole } from '../model/api.ts';
import { answer } from './answer.ts';
import type { ApiEnv } from './context.ts';

/** Roles in ascending order. A role includes the rights of the roles before it. */
const ORDER: readonly WebRole[] = ['view', 'steer', 'approve'];

const DOES: Readonly<Record<WebRole, string>> = {
  view: 'read',
  steer: 'start and steer threads',
  approve: 'decide',
};

const roles = new WeakMap<object, WebRole>();

const mayAct = (own: WebRole, needed: WebRole): boolean =>
  ORDER.indexOf(own) >= ORDER.indexOf(needed);

/** Middleware of a route: `api.get('/threads', needs('view'), …)`. */
export function needs(role: WebRole): MiddlewareHandler<ApiEnv> {
  const check: MiddlewareHandler<ApiEnv> = async (context, next) => {
    const { role: own } = context.get('asker');
    if (mayAct(own, role)) {
      await next();
      return;
    }
    context.get('onRefused')?.(role);
    const message = `role \`${role}\` is required to ${DOES[role]}; the session or token has role \`${own}\``;
    return answer(context, fail('permission_denied', message, { role: own, needed: role }));
  };
  roles.set(check, role);
  return check;
}

/** Every route of `/api` with its role. Undefined: no declared role. */
export function routeRoles(
  api: Pick<Hono<ApiEnv>, 'routes'>,
): { method: string; path: string; role: WebRole | undefined }[] {
  const routes = new Map<string, { method: string; path: string; role: WebRole | undefined }>();
  for (const { method, path, handler } of api.routes) {
    // A handler for all paths is a middleware, not a route.
    if (method === 'ALL' && path.endsWith('*')) continue;
    const key = `${method} ${path}`;
    const role = roles.get(handler) ?? routes.get(key)?.role;
    routes.set(key, { method, path, role });
  }
  return [...routes.values()];
}
