// Acts are done once: whoever sends one again under the same `idempotency-key`, because an answer was lost or
// a button was pressed twice, gets the answer of the first and nothing is done. What is remembered is
// bounded; signals to threads carry the key into the registry, so that they are the same after a restart.
import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import { createRecent, fail, type Outcome } from '../../../base/index.ts';
import { answer } from '../answer.ts';
import type { ApiEnv } from '../parts.ts';

const KEPT = 2000;
const KEY = /^[\x21-\x7e]{1,200}$/;

/** What says that nothing was done, and that another try may go better. */
const TRY_AGAIN: ReadonlySet<string> = new Set(['unavailable', 'internal_error', 'store_busy']);

type Once = (
  context: Context<ApiEnv>,
  /** `key`: what a signal is called, the same for the same act. */
  work: (key: string | undefined) => Promise<Outcome<unknown>>,
) => Promise<Response>;

export function createOnce(): Once {
  const done = createRecent<string, { readonly outcome: Promise<Outcome<unknown>> } | null>(KEPT);
  return async (context, work) => {
    const given = context.req.header('idempotency-key');
    if (given === undefined) return answer(context, await work(undefined));
    if (!KEY.test(given)) {
      const message = '`idempotency-key` must be 1 to 200 visible characters';
      return answer(context, fail('invalid_input', message));
    }
    const { id } = context.get('asker');
    const name = createHash('sha256')
      .update(JSON.stringify([id, context.req.method, context.req.path, given]))
      .digest('base64url');
    const under = done.get(name) ?? done.set(name, { outcome: work(`web:${name}`) });
    const outcome = await (under?.outcome ?? work(`web:${name}`));
    if (!outcome.ok && TRY_AGAIN.has(outcome.error.code)) done.set(name, null);
    return answer(context, outcome);
  };
}
