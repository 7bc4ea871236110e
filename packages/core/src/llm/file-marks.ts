// Puts the bytes of files into the text of a request at sending. Until then the text has a mark for each file, so
// that neither the conversation nor the caches of requests hold base64. INVARIANT: no model and no author of a text
// knows a mark, because it contains a number that this process has drawn and that no request contains.
import { randomUUID } from 'node:crypto';
import type { StreamedBody } from '../kernel/index.ts';

/** The files of one request, by hash in hex. One file is in memory at a time. */
export interface FileSource {
  readonly sizes: ReadonlyMap<string, number>;
  /** Returns as many bytes as `sizes` says. */
  read(sha256: string): Promise<Uint8Array>;
}

const HASH = 64;
let drawn: string | undefined;

function prefix(): string {
  drawn ??= `file:${randomUUID()}:`;
  return drawn;
}

/** Returns the text that stands for the base64 of a file. */
export const fileMark = (sha256: string): string => `${prefix()}${sha256}`;

const base64Length = (bytes: number): number => 4 * Math.ceil(bytes / 3);

/** Returns the body of a request with its files. It is made while it is sent, so no copy of it is in memory. */
export function putFiles(text: string, { sizes, read }: FileSource): StreamedBody {
  const [first = '', ...rest] = text.split(prefix());
  const parts = rest.map((part) => [part.slice(0, HASH), part.slice(HASH)] as const);
  let bytes = Buffer.byteLength(first);
  for (const [hash, after] of parts) {
    bytes += base64Length(sizes.get(hash) ?? 0) + Buffer.byteLength(after);
  }
  return {
    bytes,
    text,
    async *[Symbol.asyncIterator]() {
      yield first;
      for (const [hash, after] of parts) {
        if (sizes.has(hash)) yield* base64Pieces(await read(hash));
        yield after;
      }
    },
  };
}

/**
 * Number of bytes that are encoded at once. It is a multiple of three, so the pieces can be joined. Larger texts are
 * large objects of the heap, which only a full collection frees.
 */
const PIECE = 3 * 16 * 1024;

function* base64Pieces(bytes: Uint8Array): Generator<string> {
  for (let at = 0; at < bytes.length; at += PIECE) {
    const size = Math.min(PIECE, bytes.length - at);
    yield Buffer.from(bytes.buffer, bytes.byteOffset + at, size).toString('base64');
  }
}
