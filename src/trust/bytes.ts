import { createHash } from 'node:crypto';

export const toBase64Url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url');

/** Only the one spelling that `toBase64Url` writes: two texts never mean the same bytes. */
export function fromBase64Url(text: string, length?: number): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  if (length !== undefined && bytes.length !== length) return undefined;
  return bytes.toString('base64url') === text ? bytes : undefined;
}

export const sha256 = (...parts: (string | Uint8Array)[]): Buffer => {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
};

/** A length before each part, so that no two lists of parts give the same bytes. */
export function frame(tag: string, ...parts: readonly Uint8Array[]): Buffer {
  const pieces: Uint8Array[] = [Buffer.from(`${tag}\0`)];
  for (const part of parts) {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(part.length);
    pieces.push(length, part);
  }
  return Buffer.concat(pieces);
}
