// Resources of `/api` without the server around them: no sessions, no page, one asker whose role the test
// chooses. For what routes answer; how they are reached is tested elsewhere.
import {
  type Clock,
  fail,
  type Json,
  type JsonObject,
  ok,
  systemClock,
} from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import { Hono } from 'hono';
import type { WebRole } from '../../src/model/api.ts';
import type { AddRoutes, ApiEnv, WebParts } from '../../src/server/context.ts';

export interface BareApi {
  get(path: string): Promise<{ status: number; body: JsonObject; output: JsonObject }>;
  post(path: string, body: Json): ReturnType<BareApi['get']>;
}

export function bareApi(
  runtime: Runtime,
  add: AddRoutes,
  role: WebRole = 'approve',
  clock: Clock = systemClock,
): BareApi {
  const api = new Hono<ApiEnv>();
  api.use(async (context, next) => {
    context.set('asker', { id: 'one', who: 'ann', role, expires: Number.POSITIVE_INFINITY });
    await next();
  });
  const parts = {
    runtime,
    clock,
    version: '1.2.3',
    env: process.env,
    started: 1,
    async store() {
      if (!runtime.registry.isThere()) return fail('not_found', 'nothing ran here yet');
      const opened = await runtime.threads();
      return opened.ok ? ok(opened.output.store) : opened;
    },
    hub: { figures: () => ({ clients: 3, lag_ms: 4, sockets: 1 }) },
    runs: { count: () => 2 },
    onError() {},
  };
  add(api, parts as unknown as WebParts);
  const read = async (answer: Response) => {
    const body = (await answer.json()) as JsonObject;
    return { status: answer.status, body, output: body.output as JsonObject };
  };
  return {
    get: async (path) => await read(await api.request(path)),
    async post(path, body) {
      const headers = { 'content-type': 'application/json' };
      const text = JSON.stringify(body);
      return await read(await api.request(path, { method: 'POST', headers, body: text }));
    },
  };
}
