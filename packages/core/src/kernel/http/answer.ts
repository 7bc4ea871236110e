// Reads a response: decompressed, bounded, as text only if it is text, and as a fault if the status is an
// error. Hooks and retries use the code. The detail contains what a person needs, without credentials.
import { once } from 'node:events';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import {
  type Clock,
  type Failure,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import { hostOf } from './address.ts';
import type { Body, BodyEnd, HttpAnswer, Take } from './connections.ts';
import type { TimeWatch } from './time-limits.ts';

/** `deflate` means two formats in practice. The first byte distinguishes them. */
const inflaterFor = (first = 0): Transform =>
  (first & 0x0f) === 8 ? createInflate() : createInflateRaw();

const DECODERS: Readonly<Record<string, (first: number | undefined) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  br: () => createBrotliDecompress(),
  deflate: inflaterFor,
};

/** Passes on the decoded body. The decoder is created when the first byte arrives. */
function readDecoded(
  body: Body,
  makeDecoder: (first: number | undefined) => Transform,
  take: Take,
): Promise<BodyEnd> {
  let decoder: Transform | undefined;
  return new Promise((resolve, reject) => {
    const finish = (end: BodyEnd): void => {
      if (end !== 'end') body.destroy();
      decoder?.destroy();
      resolve(end);
    };
    const begin = (first: number | undefined): Transform => {
      const created = makeDecoder(first);
      const continueReading = (isWanted: boolean): void => {
        if (isWanted) created.resume();
        else finish('stopped');
      };
      created.on('data', (bytes: Buffer) => {
        const wanted = take(bytes);
        if (wanted === true) return;
        created.pause();
        if (wanted === false) finish('stopped');
        else wanted.then(continueReading, reject);
      });
      created.once('end', () => finish('end'));
      created.on('error', finish);
      return created;
    };
    const read = body.read((bytes) => {
      decoder ??= begin(bytes[0]);
      if (decoder.write(bytes)) return true;
      return once(decoder, 'drain').then(
        () => true,
        () => false,
      );
    });
    read.then((end) => {
      if (end === 'end' && decoder !== undefined) decoder.end();
      else finish(end);
    }, reject);
  });
}

/**
 * Returns the body without its content encoding. The reader must bound the decoded size. Fails with
 * `http_error` for an unknown encoding.
 */
export function decodedBody({ headers, body }: HttpAnswer): Outcome<Body> {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') return ok(body);
  const decoder = Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding] : undefined;
  if (decoder !== undefined) {
    return ok({ read: (take) => readDecoded(body, decoder, take), destroy: () => body.destroy() });
  }
  body.destroy();
  return fail('http_error', `content encoding \`${encoding}\` is not supported`, { encoding });
}

/** Reads at most `max` bytes. The rest is not received. */
export async function readBounded(body: Body, max: number) {
  const parts: Buffer[] = [];
  let size = 0;
  const end = await body.read((bytes) => {
    parts.push(bytes.length > max - size ? bytes.subarray(0, max - size) : bytes);
    size += bytes.length;
    return size <= max;
  });
  return { bytes: Buffer.concat(parts), truncated: size > max, end };
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json$/;
const TEXT_TYPE =
  /^(?:text\/|application\/(?:[\w.+-]+\+)?(?:xml|javascript|yaml|x-yaml|toml|sql|x-ndjson|jsonl|graphql|x-www-form-urlencoded)$|image\/svg)/;

const mediaType = (header = ''): string => header.split(';')[0]?.trim().toLowerCase() ?? '';

export const isJsonType = (header: string | undefined): boolean =>
  JSON_TYPE.test(mediaType(header));

function textOf(bytes: Uint8Array, header = ''): string {
  const label = /charset="?([\w.:-]+)/i.exec(header)?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(label).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}

const isText = (bytes: Buffer, header: string | undefined): boolean => {
  const type = mediaType(header);
  if (isJsonType(header) || TEXT_TYPE.test(type)) return true;
  if (type !== '' && type !== 'application/octet-stream') return false;
  return !bytes.includes(0) && Buffer.from(bytes.toString()).equals(bytes);
};

/** Returns a body as a value: parsed JSON, text, or base64 if it is neither. */
export function bodyValue(
  bytes: Buffer,
  header: string | undefined,
): { body: Json; encoding?: 'base64'; body_error?: string } {
  if (bytes.length === 0) return { body: null };
  if (!isText(bytes, header)) return { body: bytes.toString('base64'), encoding: 'base64' };
  const text = textOf(bytes, header);
  if (!isJsonType(header)) return { body: text };
  const parsed = parseJson(text);
  if (parsed.ok) return { body: parsed.output };
  return { body: text, body_error: parsed.error.detail.message };
}

const EXCERPT = 4000;
const EXCERPT_BYTES = 64 * 1024;
/** Headers that explain a failure. Cookies and credentials are not among them. */
const SHOWN =
  /^(?:content-type|content-length|retry-after(?:-ms)?|date|server|location|allow|www-authenticate|x?-?request-id|cf-ray|(?:anthropic-|x-)?ratelimit-.*|x-should-retry)$/;
const MAX_WAIT_MS = 24 * 60 * 60 * 1000;

/** Returns the delay of `Retry-After`: seconds, a date, or the millisecond form of some services. */
function retryAfterMs(headers: HttpAnswer['headers'], clock: Clock): number | undefined {
  const exact = Number(headers['retry-after-ms'] ?? Number.NaN);
  const text = headers['retry-after'] ?? '';
  const ms = Number.isFinite(exact)
    ? exact
    : /^\d+(\.\d+)?$/.test(text)
      ? Number(text) * 1000
      : Date.parse(text) - clock.now();
  return Number.isFinite(ms) ? Math.round(Math.min(Math.max(ms, 0), MAX_WAIT_MS)) : undefined;
}

/** Codes for statuses other than `http_error`. */
const CODES: Readonly<Record<number, string>> = {
  408: 'timeout',
  429: 'rate_limit',
  504: 'timeout',
};

/** Returns the beginning of any body as text. */
export async function excerptOf(answer: HttpAnswer): Promise<string> {
  const body = decodedBody(answer);
  if (!body.ok) return '';
  const { bytes } = await readBounded(body.output, EXCERPT_BYTES);
  return textOf(bytes, answer.headers['content-type']).slice(0, EXCERPT);
}

/** Turns a status of 400 and above into a fault. Reads the beginning of the body and drops the rest. */
export async function statusFault(
  answer: HttpAnswer,
  url: URL,
  clock: Clock,
  watch: TimeWatch,
): Promise<Failure> {
  const { status, statusText, headers } = answer;
  const body_excerpt = await excerptOf(answer);
  if (watch.failure?.error.code === 'cancelled') return watch.failure;
  const wait = retryAfterMs(headers, clock);
  const displayHeaders: JsonObject = Object.fromEntries(
    Object.entries(headers).filter(([name]) => SHOWN.test(name)),
  );
  const words = `\`${hostOf(url)}\` answered ${status} ${statusText}`.trim();
  return fail(CODES[status] ?? 'http_error', words, {
    status,
    host: hostOf(url),
    headers: displayHeaders,
    body_excerpt,
    sent: true,
    ...(wait !== undefined && { retry_after_ms: wait }),
  });
}
