// What a module answered on its own channel, judged like any text from outside.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '../base/index.ts';
import type { Ended } from './process-run.ts';

/** How the process ended counts more than what it said: a timeout with an answer is a timeout. */
const OVERRULES = new Set(['timeout', 'cancelled', 'not_started']);

const logsOf = (facts: JsonObject): JsonObject => ({
  stdout: facts.stdout ?? '',
  stderr: facts.stderr ?? '',
  truncated: facts.truncated ?? false,
});

export function readOutcome(
  ended: Ended,
  facts: JsonObject,
  failure: Outcome<never> | undefined,
): Outcome<Json> {
  if (failure && (OVERRULES.has(ended.reason) || ended.channel.bytes === 0)) return failure;
  const bad = (why: string) => fail('tool_failed', `the module ${why}`, facts);
  if (ended.channel.truncated)
    return bad(`answered with ${ended.channel.bytes} bytes, which is too much`);
  if (ended.channel.bytes === 0) return bad('ended without an answer');
  const parsed = parseJson(ended.channel.text);
  if (!parsed.ok) return bad('did not answer with JSON');
  const answer = parsed.output;
  if (getOwn(answer, 'ok') === true) return ok(getOwn(answer, 'output') ?? null);
  const error = getOwn(answer, 'error');
  const code = getOwn(error, 'code');
  const detail = getOwn(error, 'detail');
  if (typeof code !== 'string' || code === '') return bad('did not answer with an outcome');
  const message = getOwn(detail, 'message');
  const said = typeof message === 'string' ? message : 'the module reported a failure';
  return fail(code, said, { ...logsOf(facts), ...(isObject(detail) ? detail : {}) });
}
