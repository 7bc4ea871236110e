// Frames protocol messages and reads their fields, which are untrusted data. The framing never waits without
// limit and stores one message at most. Other bytes are reported and skipped.
import { isObject, type Json } from '@kernmantle/core/base';
import type { LspPosition, TextChange } from './document.ts';

const MAX_HEADER = 4096;
const MAX_MESSAGE = 32 * 1024 * 1024;
const BREAK = Buffer.from('\r\n\r\n');

/** Creates the framing of a stream. `take` receives each message, `complain` the reason if one was skipped. */
export function createFraming(take: (text: string) => void, complain: (why: string) => void) {
  let pending: Buffer = Buffer.alloc(0);
  /** Parts of the current message. They are joined once, when it is complete. */
  let parts: Uint8Array[] = [];
  let missing = 0;
  let skipping = 0;

  function readBody(chunk: Buffer): Buffer {
    const part = chunk.subarray(0, missing);
    parts.push(part);
    missing -= part.length;
    if (missing === 0) {
      const text = Buffer.concat(parts).toString('utf8');
      parts = [];
      take(text);
    }
    return chunk.subarray(part.length);
  }

  /** Returns the bytes after the header; `undefined` if the header is not complete. */
  function readHeader(bytes: Buffer): Buffer | undefined {
    const end = bytes.indexOf(BREAK);
    if (end === -1) {
      if (bytes.length <= MAX_HEADER) return undefined;
      complain('bytes without a header were skipped');
      // The last bytes may be the start of the break.
      return bytes.subarray(bytes.length - BREAK.length + 1);
    }
    const header = bytes.subarray(Math.max(0, end - MAX_HEADER), end).toString('latin1');
    const [, length] =
      /(?:^|\n)content-length:[ \t]*(\d{1,15})[ \t]*(?:\r?$|\r\n)/i.exec(header) ?? [];
    const rest = bytes.subarray(end + BREAK.length);
    if (length === undefined) complain('a header without `Content-Length` was skipped');
    else if (Number(length) > MAX_MESSAGE) {
      complain(`a message of ${length} bytes is longer than ${MAX_MESSAGE} and was skipped`);
      skipping = Number(length);
    } else if (Number(length) === 0) take('');
    else missing = Number(length);
    return rest;
  }

  function readSome(bytes: Buffer): Buffer | undefined {
    if (skipping > 0) {
      const skipped = Math.min(skipping, bytes.length);
      skipping -= skipped;
      return bytes.subarray(skipped);
    }
    return missing > 0 ? readBody(bytes) : readHeader(bytes);
  }

  return {
    push(chunk: Uint8Array): void {
      let bytes: Buffer =
        pending.length === 0 ? Buffer.from(chunk) : Buffer.concat([pending, chunk]);
      pending = Buffer.alloc(0);
      while (bytes.length > 0) {
        const rest = readSome(bytes);
        bytes = rest ?? bytes;
        // Bytes that are waiting for more input are not examined again.
        const isShort = bytes.length < BREAK.length && missing === 0 && skipping === 0;
        if (rest === undefined || isShort) {
          pending = bytes;
          return;
        }
      }
    },
  };
}

export function frame(message: unknown): string {
  const text = JSON.stringify(message);
  return `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

export const ERROR = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  early: -32002,
} as const;

/** A refused request. The server catches it and answers with its code. */
export class Refusal extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export function textField(from: Json | undefined, name: string): string {
  const value = isObject(from) ? from[name] : undefined;
  if (typeof value !== 'string') throw new Refusal(ERROR.params, `\`${name}\` must be a text`);
  return value;
}

export function placeField(from: Json | undefined): LspPosition {
  const { line, character } = isObject(from) ? from : {};
  if (!Number.isInteger(line) || !Number.isInteger(character)) {
    throw new Refusal(ERROR.params, 'a position needs `line` and `character`');
  }
  return { line: line as number, character: character as number };
}

export function changeOf(change: Json): TextChange {
  const text = textField(change, 'text');
  const range = isObject(change) ? change['range'] : undefined;
  if (!isObject(range)) return { text };
  return { text, range: { start: placeField(range['start']), end: placeField(range['end']) } };
}

export function versionOf(document: Json | undefined): number {
  const version = isObject(document) ? document['version'] : undefined;
  return typeof version === 'number' ? version : 0;
}
