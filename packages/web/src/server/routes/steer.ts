// Routes that act on a thread. An action runs once per idempotency key, writes an audit row with
// its actor, and returns the status of the thread after it.
import { compact, type Json, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import { type Actor, compactThread, endThread, signalThread } from '@kernmantle/core/runtime';
import type { Store, ThreadRow } from '@kernmantle/core/store';
import type { Context } from 'hono';
import type { ActionResult, ReplayView } from '../../model/api.ts';
import type { AddRoutes, ApiEnv, WebParts } from '../context.ts';
import { maskedJson } from '../listed-approvals.ts';
import { needs } from '../roles.ts';
import { speakerOf } from '../runs.ts';
import { createOnce } from './idempotency.ts';
import { findRow, readQuery, readWish } from './request-bodies.ts';

interface SteeredThread {
  readonly store: Store;
  readonly row: ThreadRow;
  readonly by: Actor;
  readonly key: string | undefined;
}

type SteerWork = (context: Context<ApiEnv>, thread: SteeredThread) => Promise<Outcome<unknown>>;

/** Sends a signal that the thread handles at its next step. */
const send = (
  { store, row, by, key }: SteeredThread,
  kind: Parameters<typeof signalThread>[2],
  payload: JsonObject,
): Promise<Outcome<ActionResult>> => signalThread(store, row.id, kind, payload, by, key);

const pause: SteerWork = async (context, thread) => {
  const request = await readWish(context, 'signal');
  if (!request.ok) return request;
  const { reason } = request.output;
  return await send(thread, 'pause', compact<JsonObject>({ reason }));
};

const inject: SteerWork = async (context, thread) => {
  const request = await readWish(context, 'inject');
  if (!request.ok) return request;
  const { text, role = 'user' } = request.output;
  return await send(thread, 'message', { role, content: text });
};

const interrupt: SteerWork = async (context, thread) => {
  const request = await readWish(context, 'interrupt');
  if (!request.ok) return request;
  const { text, reason } = request.output;
  const message = text === undefined ? {} : { role: 'user', content: text };
  return await send(thread, 'interrupt', compact<JsonObject>({ reason, ...message }));
};

const makeRoom: SteerWork = async (context, { store, row, by, key }) => {
  const request = await readWish(context, 'compact');
  if (!request.ok) return request;
  const { focus } = request.output;
  return await compactThread(store, row.id, by, { key, ...(focus !== undefined && { focus }) });
};

const end =
  (kind: 'terminate' | 'kill'): SteerWork =>
  async (context, { store, row, by }) => {
    const request = await readWish(context, 'signal');
    return request.ok ? await endThread(store, row.id, kind, by, request.output.reason) : request;
  };

const resume =
  ({ runs }: WebParts): SteerWork =>
  async (context, { row }) => {
    const request = await readWish(context, 'resume');
    return request.ok ? await runs.resume(row.id, request.output, context.get('asker')) : request;
  };

const fork =
  ({ runs }: WebParts): SteerWork =>
  async (context, { row }) => {
    const request = await readWish(context, 'fork');
    return request.ok ? await runs.fork(row, request.output, context.get('asker')) : request;
  };

/** Returns an event as JSON, or null if that side has ended. */
const sideOf = (event: object | undefined): Json =>
  event === undefined ? null : maskedJson(JSON.parse(JSON.stringify(event)) as Json);

/** Replays the journal without a model and without tools. Nothing is stored. */
const replay =
  ({ runtime }: WebParts): SteerWork =>
  async (context, { row }) => {
    const request = await readWish(context, 'signal');
    if (!request.ok) return request;
    const threads = await runtime.threads();
    if (!threads.ok) return threads;
    const result = await threads.output.replay(row.id);
    if (!result.ok) return result;
    const { same, recorded, isSame, difference, status } = result.output;
    const view: ReplayView = {
      isSame,
      same,
      recorded,
      ...(status !== undefined && { status }),
      ...(difference && {
        difference: {
          seq: difference.seq,
          recorded: sideOf(difference.recorded),
          replayed: sideOf(difference.replayed),
        },
      }),
    };
    return ok(view);
  };

export const addSteerRoutes: AddRoutes = (api, parts) => {
  const once = createOnce();
  const acts: Readonly<Record<string, SteerWork>> = {
    pause,
    inject,
    interrupt,
    compact: makeRoom,
    stop: end('terminate'),
    kill: end('kill'),
    resume: resume(parts),
    fork: fork(parts),
    replay: replay(parts),
  };
  for (const [name, work] of Object.entries(acts)) {
    api.post(`/threads/:id/${name}`, needs('steer'), (context) =>
      once(context, async (key) => {
        const query = readQuery(context, []);
        if (!query.ok) return query;
        const target = await findRow(parts, context);
        if (!target.ok) return target;
        return await work(context, { ...target.output, by: speakerOf(context.get('asker')), key });
      }),
    );
  }
};
