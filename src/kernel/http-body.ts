// Reading what came back: decompressed, bounded, and as text only when it is text.
import { pipeline, type Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { fail, type Json, type Outcome, ok, parseJson } from '../base/index.ts';
import type { Answer } from './http-connect.ts';
import type { Watch } from './http-watch.ts';

export type PumpEnd = { kind: 'end' } | { kind: 'stopped' } | { kind: 'cut'; error: Error };

/**
 * Hands over the bytes of `source` in batches. What arrives in one read of the socket is one batch,
 * also when it was sent as a thousand little chunks. When `take` answers with a promise, nothing is
 * read until it settles; `false` stops. Ends when `watch` stops, whatever `take` is waiting for.
 */
export function pump(
  source: Readable,
  watch: Watch,
  take: (bytes: Buffer) => boolean | Promise<boolean>,
): Promise<PumpEnd> {
  return new Promise((resolve) => {
    let waiting: Buffer[] = [];
    let isBusy = false;
    let isScheduled = false;
    let isDone = false;
    let ended: PumpEnd | undefined;

    const finish = (end: PumpEnd): void => {
      if (isDone) return;
      isDone = true;
      resolve(end);
    };
    const settle = (goOn: boolean): void => {
      if (!goOn) finish({ kind: 'stopped' });
      else if (ended !== undefined && waiting.length === 0) finish(ended);
    };
    const drain = (): void => {
      isScheduled = false;
      if (isBusy || isDone) return;
      if (waiting.length === 0) return settle(true);
      watch.touch();
      const bytes = waiting.length === 1 ? (waiting[0] as Buffer) : Buffer.concat(waiting);
      waiting = [];
      const answer = take(bytes);
      if (typeof answer === 'boolean') return settle(answer);
      isBusy = true;
      source.pause();
      watch.hold();
      void answer.then((goOn) => {
        isBusy = false;
        if (goOn && !isDone) {
          watch.enter('idle');
          source.resume();
        }
        settle(goOn);
        drain();
      });
    };
    const close = (end: PumpEnd): void => {
      ended ??= end;
      drain();
    };
    source.on('data', (chunk: Buffer) => {
      waiting.push(chunk);
      if (isScheduled || isBusy) return;
      isScheduled = true;
      queueMicrotask(drain);
    });
    source.once('end', () => close({ kind: 'end' }));
    source.on('error', (error) => close({ kind: 'cut', error }));
    source.once('close', () => close({ kind: 'cut', error: new Error('closed early') }));
    watch.signal.addEventListener('abort', () => finish({ kind: 'stopped' }), { once: true });
    if (watch.signal.aborted) finish({ kind: 'stopped' });
  });
}

/** `deflate` means two formats in practice; the first byte tells them apart. */
function inflaterFor(first: number | undefined): Transform {
  return first !== undefined && (first & 0x0f) === 8 ? createInflate() : createInflateRaw();
}

const DECODERS: Readonly<Record<string, (first: number | undefined) => Transform>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  br: () => createBrotliDecompress(),
  deflate: inflaterFor,
};

/** Waits for the first chunk, which is put back; undefined when there is none. */
function peek(body: Readable): Promise<number | undefined> {
  return new Promise((resolve) => {
    const look = (): void => {
      const chunk = body.read() as Buffer | null;
      if (chunk === null) return;
      body.off('readable', look);
      body.unshift(chunk);
      resolve(chunk[0]);
    };
    body.on('readable', look);
    body.once('end', () => resolve(undefined));
    body.once('close', () => resolve(undefined));
  });
}

/** The body without its content encoding. What it expands to is bounded by whoever reads it. */
export async function decodedBody({ headers, body }: Answer): Promise<Outcome<Readable>> {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') return ok(body);
  const decoder = Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding] : undefined;
  if (decoder === undefined) {
    body.destroy();
    return fail('http_error', `content encoding \`${encoding}\` is not supported`, { encoding });
  }
  const first = encoding === 'deflate' ? await peek(body) : undefined;
  // Errors reach the reader through the decoder; the callback only keeps them from being thrown.
  return ok(pipeline(body, decoder(first), () => {}));
}

export interface ReadResult {
  bytes: Buffer;
  truncated: boolean;
  end: PumpEnd;
}

/** At most `max` bytes; the rest is not received. */
export async function readBounded(
  source: Readable,
  max: number,
  watch: Watch,
): Promise<ReadResult> {
  const parts: Buffer[] = [];
  let size = 0;
  const end = await pump(source, watch, (bytes) => {
    parts.push(bytes.length > max - size ? bytes.subarray(0, max - size) : bytes);
    size += bytes.length;
    return size <= max;
  });
  if (end.kind !== 'end') source.destroy();
  return { bytes: Buffer.concat(parts), truncated: size > max, end };
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json$/;
const TEXT_TYPE =
  /^(?:text\/|application\/(?:[\w.+-]+\+)?(?:xml|javascript|yaml|x-yaml|toml|sql|x-ndjson|jsonl|graphql|x-www-form-urlencoded)$|image\/svg)/;

export const mediaType = (header: string | undefined): string =>
  (header ?? '').split(';')[0]?.trim().toLowerCase() ?? '';

export const isJsonType = (header: string | undefined): boolean =>
  JSON_TYPE.test(mediaType(header));

function decoderFor(header: string | undefined): InstanceType<typeof TextDecoder> {
  const label = /charset="?([\w.:-]+)/i.exec(header ?? '')?.[1] ?? 'utf-8';
  try {
    return new TextDecoder(label);
  } catch {
    return new TextDecoder();
  }
}

export const textOf = (bytes: Uint8Array, header: string | undefined): string =>
  decoderFor(header).decode(bytes);

const isText = (bytes: Buffer, header: string | undefined): boolean => {
  const type = mediaType(header);
  if (isJsonType(header) || TEXT_TYPE.test(type)) return true;
  if (type !== '' && type !== 'application/octet-stream') return false;
  return !bytes.includes(0) && Buffer.from(bytes.toString()).equals(bytes);
};

/** A body as a value: parsed JSON, text, or base64 when it is neither. */
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
