// Routes that act on a thread. An action runs once per idempotency key, writes an audit row with
// its actor, and returns the status of the thread after it.
import { compact, type Json, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import { type Actor, endThread, signalThread } from '@kernmantle/core/runtime';
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

type SteerWork = (context: Context<ApiEnv>, place: SteeredThread) => Promise<Outcome<unknown>>;

/** Sends a signal that the thread handles at its next step. */
const told = (
  { store, row, by, key }: SteeredThread,
  kind: Parameters<typeof signalThread>[2],
  payload: JsonObject,
): Promise<Outcome<ActionResult>> => signalThread(store, row.id, kind, payload, by, key);

const pause: SteerWork = async (context, place) => {
  const wish = await readWish(context, 'signal');
  if (!wish.ok) return wish;
  const { reason } = wish.output;
  return await told(place, 'pause', compact<JsonObject>({ reason }));
};

const inject: SteerWork = async (context, place) => {
  const wish = await readWish(context, 'inject');
  if (!wish.ok) return wish;
  const { text, role = 'user' } = wish.output;
  return await told(place, 'message', { role, content: text });
};

const interrupt: SteerWork = async (context, place) => {
  const wish = await readWish(context, 'interrupt');
  if (!wish.ok) return wish;
  const { text, reason } = wish.output;
  const said = text === undefined ? {} : { role: 'user', content: text };
  return await told(place, 'interrupt', compact<JsonObject>({ reason, ...said }));
};

const end =
  (kind: 'terminate' | 'kill'): SteerWork =>
  async (context, { store, row, by }) => {
    const wish = await readWish(context, 'signal');
    return wish.ok ? await endThread(store, row.id, kind, by, wish.output.reason) : wish;
  };

const resume =
  ({ runs }: WebParts): SteerWork =>
  async (context, { row }) => {
    const wish = await readWish(context, 'resume');
    return wish.ok ? await runs.resume(row.id, wish.output, context.get('asker')) : wish;
  };

/** Returns an event as JSON, or null if that side has ended. */
const sideOf = (event: object | undefined): Json =>
  event === undefined ? null : maskedJson(JSON.parse(JSON.stringify(event)) as Json);

/** Replays the journal without a model and without tools. Nothing is stored. */
const replay =
  ({ runtime }: WebParts): SteerWork =>
  async (context, { row }) => {
    const wish = await readWish(context, 'signal');
    if (!wish.ok) return wish;
    const threads = await runtime.threads();
    if (!threads.ok) return threads;
    const done = await threads.output.replay(row.id);
    if (!done.ok) return done;
    const { same, recorded, isSame, difference, status } = done.output;
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
    stop: end('terminate'),
    kill: end('kill'),
    resume: resume(parts),
    replay: replay(parts),
  };
  for (const [name, work] of Object.entries(acts)) {
    api.post(`/threads/:id/${name}`, needs('steer'), (context) =>
      once(context, async (key) => {
        const query = readQuery(context, []);
        if (!query.ok) return query;
        const found = await findRow(parts, context);
        if (!found.ok) return found;
        return await work(context, { ...found.output, by: speakerOf(context.get('asker')), key });
      }),
    );
  }
};
