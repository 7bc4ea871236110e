// Reading what came back: decompressed, bounded, and as text only when it is text.
import { pipeline, type Readable, type Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';
import { fail, type Json, type Outcome, ok, parseJson } from '../../base/index.ts';
import type { HttpAnswer } from './connect.ts';
import { type ByteSource, sourceStream, streamSource } from './source.ts';
import type { TimeWatch } from './time-limits.ts';

export type PumpEnd = { kind: 'end' } | { kind: 'stopped' } | { kind: 'cut'; error: Error };

/**
 * Hands over the bytes of `source`, one read at a time; they are gone when `take` returns. When it
 * answers with a promise, nothing is read until that settles; `false` stops. Ends when `watch` stops,
 * whatever `take` is waiting for.
 */
export function pump(
  source: ByteSource,
  watch: TimeWatch,
  take: (bytes: Buffer) => boolean | Promise<boolean>,
): Promise<PumpEnd> {
  return new Promise((resolve) => {
    let isDone = false;
    const finish = (end: PumpEnd): void => {
      if (isDone) return;
      isDone = true;
      forget();
      resolve(end);
    };
    const goOn = (isWanted: boolean): void => {
      if (!isWanted) finish({ kind: 'stopped' });
      if (isDone) return;
      watch.enter('idle');
      source.resume();
    };
    const forget = watch.onStop(() => finish({ kind: 'stopped' }));
    if (watch.failure() !== undefined) return finish({ kind: 'stopped' });
    source.read({
      take(bytes) {
        if (isDone) return;
        watch.touch();
        const answer = take(bytes);
        if (answer === true) return;
        if (answer === false) return finish({ kind: 'stopped' });
        source.pause();
        watch.hold();
        void answer.then(goOn);
      },
      end: (error) => finish(error === undefined ? { kind: 'end' } : { kind: 'cut', error }),
    });
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
export async function decodedBody({ headers, body }: HttpAnswer): Promise<Outcome<ByteSource>> {
  const encoding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding === 'identity' || encoding === '') return ok(body);
  const decoder = Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding] : undefined;
  if (decoder === undefined) {
    body.destroy();
    return fail('http_error', `content encoding \`${encoding}\` is not supported`, { encoding });
  }
  const stream = sourceStream(body);
  const first = encoding === 'deflate' ? await peek(stream) : undefined;
  // Errors reach the reader through the decoder; the callback only keeps them from being thrown.
  return ok(streamSource(pipeline(stream, decoder(first), () => {})));
}

export interface ReadResult {
  bytes: Buffer;
  truncated: boolean;
  end: PumpEnd;
}

/** At most `max` bytes; the rest is not received. */
export async function readBounded(
  source: ByteSource,
  max: number,
  watch: TimeWatch,
): Promise<ReadResult> {
  const parts: Buffer[] = [];
  let size = 0;
  const end = await pump(source, watch, (bytes) => {
    parts.push(Buffer.from(bytes.length > max - size ? bytes.subarray(0, max - size) : bytes));
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
