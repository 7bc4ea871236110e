// What a status means. The code is what hooks and retries decide on; the detail holds what a person
// needs to find out why, without credentials.
import type { Clock, Failure, JsonObject } from '../../base/index.ts';
import { fail, setOwn } from '../../base/index.ts';
import { hostOf } from './address.ts';
import { decodedBody, readBounded, textOf } from './body.ts';
import type { HttpAnswer } from './connect.ts';
import type { TimeWatch } from './time-limits.ts';

const EXCERPT = 4000;
const EXCERPT_BYTES = 64 * 1024;
/** Headers that help to understand a failure; cookies and the like stay out. */
const SHOWN =
  /^(?:content-type|content-length|retry-after(?:-ms)?|date|server|location|allow|www-authenticate|x?-?request-id|cf-ray|(?:anthropic-|x-)?ratelimit-.*|x-should-retry)$/;
const MAX_WAIT_MS = 24 * 60 * 60 * 1000;

/** `Retry-After` in seconds or as a date, or the millisecond form some services use. */
export function retryAfterMs(headers: HttpAnswer['headers'], clock: Clock): number | undefined {
  const exact = Number(headers['retry-after-ms'] ?? Number.NaN);
  const text = headers['retry-after'] ?? '';
  const ms = Number.isFinite(exact)
    ? exact
    : /^\d+(\.\d+)?$/.test(text)
      ? Number(text) * 1000
      : Date.parse(text) - clock.now();
  return Number.isFinite(ms) ? Math.round(Math.min(Math.max(ms, 0), MAX_WAIT_MS)) : undefined;
}

/** Headers as JSON. */
export function headersOf(headers: HttpAnswer['headers'], shown?: RegExp): JsonObject {
  const result: JsonObject = {};
  for (const [name, value] of Object.entries(headers)) {
    if (shown === undefined || shown.test(name)) setOwn(result, name, value);
  }
  return result;
}

function codeOf(status: number): string {
  if (status === 429) return 'rate_limit';
  return status === 408 || status === 504 ? 'timeout' : 'http_error';
}

/** The beginning of a body, as text, whatever it is. */
export async function excerptOf(answer: HttpAnswer, watch: TimeWatch): Promise<string> {
  const source = await decodedBody(answer);
  if (!source.ok) return '';
  const { bytes } = await readBounded(source.output, EXCERPT_BYTES, watch);
  return textOf(bytes, answer.headers['content-type']).slice(0, EXCERPT);
}

/** A status of 400 and above as a fault. Reads what it needs of the body and drops the rest. */
export async function statusFault(
  answer: HttpAnswer,
  url: URL,
  clock: Clock,
  watch: TimeWatch,
): Promise<Failure> {
  const { status, statusText, headers } = answer;
  const body_excerpt = await excerptOf(answer, watch);
  const stopped = watch.failure();
  if (stopped?.error.code === 'cancelled') return stopped;
  const wait = retryAfterMs(headers, clock);
  return fail(codeOf(status), `\`${hostOf(url)}\` answered ${status} ${statusText}`.trim(), {
    status,
    host: hostOf(url),
    headers: headersOf(headers, SHOWN),
    body_excerpt,
    sent: true,
    ...(wait !== undefined && { retry_after_ms: wait }),
  });
}
