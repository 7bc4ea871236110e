// Runs an action once per `idempotency-key`. A repeated request gets the first answer, and nothing
// else happens. Another body under a used key is refused, because the client would take the old
// answer for its own. The number of cached answers is bounded. Signals carry the key into the registry, so they stay
// unique after a restart.
import { createHash } from 'node:crypto';
import { canonicalJson, createRecent, fail, type Outcome } from '@kernmantle/core/base';
import type { Context } from 'hono';
import { answer, readBody } from '../answer.ts';
import type { ApiEnv } from '../context.ts';

const KEPT = 2000;
const KEY = /^[\x21-\x7e]{1,200}$/;

/** Errors after which nothing has happened and a retry can succeed. */
const TRY_AGAIN: ReadonlySet<string> = new Set(['unavailable', 'internal_error', 'store_busy']);

type Once = (
  context: Context<ApiEnv>,
  /** The `key` names the signal. It is the same for a retry. */
  work: (key: string | undefined) => Promise<Outcome<unknown>>,
) => Promise<Response>;

interface StoredAnswer {
  readonly request: string;
  readonly outcome: Promise<Outcome<unknown>>;
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('base64url');

/** Creates the wrapper of an action. `max` is the number of cached answers. */
export function createOnce(max = KEPT): Once {
  const results = createRecent<string, StoredAnswer | null>(max);
  return async (context, work) => {
    const header = context.req.header('idempotency-key');
    if (header === undefined) return answer(context, await work(undefined));
    if (!KEY.test(header)) {
      const message = '`idempotency-key` must be 1 to 200 visible characters';
      return answer(context, fail('invalid_input', message));
    }
    const body = await readBody(context);
    if (!body.ok) return answer(context, body);
    const bodyDigest = digestOf(canonicalJson(body.output));
    const { id } = context.get('asker');
    const name = digestOf(JSON.stringify([id, context.req.method, context.req.path, header]));
    const previous = results.get(name);
    if (previous && previous.request !== bodyDigest) {
      const message = 'this `idempotency-key` was used for another request; use a new key';
      return answer(context, fail('conflict', message, { field: 'idempotency-key' }));
    }
    const entry = previous ?? { request: bodyDigest, outcome: work(`web:${name}`) };
    results.set(name, entry);
    // An exception is no answer to the request, so a retry runs the action again.
    entry.outcome.catch(() => results.set(name, null));
    const outcome = await entry.outcome;
    if (!outcome.ok && TRY_AGAIN.has(outcome.error.code)) results.set(name, null);
    return answer(context, outcome);
  };
}
