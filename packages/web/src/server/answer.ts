// Reads bodies of `/api` (bounded JSON) and writes answers in the envelope of `--json`. The HTTP
// status follows from the code of the error.
import {
  fail,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '@kernmantle/core/base';
import type { Context } from 'hono';
import type { ApiEnv } from './context.ts';

/** Inputs of a run are the longest bodies. */
const MAX_BODY = 1024 * 1024;
const MAX_BODY_DEPTH = 32;

type Status = 400 | 401 | 403 | 404 | 409 | 411 | 413 | 421 | 429 | 503;

const STATUS: Readonly<Record<string, Status>> = {
  unauthenticated: 401,
  permission_denied: 403,
  approval_denied: 403,
  not_found: 404,
  conflict: 409,
  thread_exists: 409,
  thread_ended: 409,
  lease_held: 409,
  stale_epoch: 409,
  approval_pending: 409,
  approval_expired: 409,
  approval_used: 409,
  length_required: 411,
  request_too_large: 413,
  misdirected: 421,
  rate_limit: 429,
  unavailable: 503,
  internal_error: 503,
  store_failed: 503,
  store_busy: 503,
  store_closed: 503,
  disk_full: 503,
};

const statusOf = (code: string): Status =>
  Object.hasOwn(STATUS, code) ? (STATUS[code] ?? 400) : 400;

/** Converts an outcome to the answer of a route. */
export function answer(context: Context<ApiEnv>, outcome: Outcome<unknown>): Response {
  const body = JSON.stringify(outcome.ok ? { ok: true, output: outcome.output ?? null } : outcome);
  const status = outcome.ok ? 200 : statusOf(outcome.error.code);
  return context.body(body, status, { 'content-type': 'application/json; charset=utf-8' });
}

export const isJsonType = (type: string | undefined): boolean =>
  /^application\/json *(;|$)/i.test(type ?? '');

const tooLarge = (): Outcome<never> =>
  fail('invalid_input', `a request body can have at most ${MAX_BODY} bytes`, { max: MAX_BODY });

async function readText(body: ReadableStream<Uint8Array>): Promise<Outcome<string>> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const piece of body) {
      size += piece.length;
      if (size > MAX_BODY) return tooLarge();
      pieces.push(piece);
    }
    return ok(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(pieces)));
  } catch {
    return fail('invalid_input', 'the request body must be UTF-8 text');
  }
}

const bodies = new WeakMap<Request, Promise<Outcome<JsonObject>>>();

/** Returns the body of a request as an object. It can be called several times. An empty body gives `{}`. */
export function readBody({ req }: Context<ApiEnv>): Promise<Outcome<JsonObject>> {
  const read = bodies.get(req.raw) ?? readOnce(req);
  bodies.set(req.raw, read);
  return read;
}

async function readOnce(req: Context<ApiEnv>['req']): Promise<Outcome<JsonObject>> {
  if (!isJsonType(req.header('content-type'))) {
    return fail('invalid_input', '`content-type` must be `application/json`');
  }
  if (Number(req.header('content-length') ?? 0) > MAX_BODY) return tooLarge();
  const text = req.raw.body ? await readText(req.raw.body) : ok('');
  if (!text.ok) return text;
  if (text.output.trim() === '') return ok({});
  const parsed = parseJson(text.output, MAX_BODY_DEPTH);
  if (!parsed.ok) return parsed;
  return isObject(parsed.output)
    ? ok(parsed.output)
    : fail('invalid_input', 'the body must be a JSON object');
}
