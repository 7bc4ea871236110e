// Puts the bytes of files into the text of a request at sending. Until then the text has a mark for each file, so
// that neither the conversation nor the caches of requests hold base64. INVARIANT: no model and no author of a text
// knows a mark, because it contains a number that this process has drawn and that no request contains.
import { randomUUID } from 'node:crypto';

/** The bytes of the files of one request, by hash in hex. */
export type FileBytes = ReadonlyMap<string, Uint8Array>;

const HASH = 64;
let drawn: string | undefined;

function prefix(): string {
  drawn ??= `file:${randomUUID()}:`;
  return drawn;
}

/** Returns the text that stands for the base64 of a file. */
export const fileMark = (sha256: string): string => `${prefix()}${sha256}`;

/** Splits a text at its marks: texts at even positions, hashes at odd ones. */
function split(text: string): string[] {
  const [first = '', ...rest] = text.split(prefix());
  return [first, ...rest.flatMap((part) => [part.slice(0, HASH), part.slice(HASH)])];
}

const NO_BYTES = new Uint8Array();
const base64Length = (bytes: number): number => 4 * Math.ceil(bytes / 3);

/** Returns the body of a request with its files. The only copy of their base64 is the returned buffer. */
export function putFiles(text: string, files: FileBytes): Buffer {
  const parts = split(text);
  const bytesAt = (at: number): Uint8Array => files.get(parts[at] ?? '') ?? NO_BYTES;
  const lengths = parts.map((part, at) =>
    at % 2 === 0 ? Buffer.byteLength(part) : base64Length(bytesAt(at).length),
  );
  const body = Buffer.allocUnsafe(lengths.reduce((sum, length) => sum + length, 0));
  let position = 0;
  for (const [at, part] of parts.entries()) {
    position +=
      at % 2 === 0 ? body.write(part, position) : writeBase64(body, position, bytesAt(at));
  }
  return body;
}

/** Returns a function that puts files into a single text, for a tool that is not sent as one body. */
export const fillFiles =
  (files: FileBytes) =>
  (text: string): string =>
    text.includes(prefix()) ? putFiles(text, files).toString() : text;

/** Number of bytes that are encoded at once. It is a multiple of three, so the pieces can be joined. */
const PIECE = 3 * 64 * 1024;

function writeBase64(body: Buffer, start: number, bytes: Uint8Array): number {
  let position = start;
  for (let at = 0; at < bytes.length; at += PIECE) {
    const piece = Buffer.from(
      bytes.buffer,
      bytes.byteOffset + at,
      Math.min(PIECE, bytes.length - at),
    );
    position += body.write(piece.toString('base64'), position, 'latin1');
  }
  return position - start;
}
