// Captures the output of a child. Its beginning is kept in memory. If there is more, the whole output
// goes to a file, so that nothing is lost.
import { mkdirSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { createRedactor, type JsonObject, pathWithin } from '../../base/index.ts';

export interface Captured {
  text: string;
  /** Number of all bytes that the child wrote, including lost ones. */
  bytes: number;
  truncated: boolean;
  /** File with the whole output, if `text` does not contain it. */
  file?: string;
  /** Number of bytes that neither `text` nor the file contains. */
  lost: number;
}

export interface CaptureOptions {
  maxBytes: number;
  secrets: readonly string[];
  /** Returns the path for output that does not fit. Absent: the rest is dropped and counted. */
  file?: () => string;
  maxFileBytes?: number;
  /** Receives the output as text without secrets. Must not throw. */
  onText?: ((text: string) => void) | undefined;
}

const MAX_FILE_BYTES = 256 * 1024 * 1024;

async function openFile(path: string | undefined): Promise<FileHandle | undefined> {
  if (path === undefined) return undefined;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return await open(path, 'wx', 0o600);
  } catch {
    return undefined; // output that does not fit then counts as lost
  }
}

function createStore(options: CaptureOptions) {
  const { maxBytes, maxFileBytes = MAX_FILE_BYTES } = options;
  let path: string | undefined;
  const chunks: Uint8Array[] = [];
  let [size, bytes, written] = [0, 0, 0];
  let file: FileHandle | undefined;
  let overflowed = false;

  async function toFile(chunk: Uint8Array): Promise<void> {
    if (!file || written + chunk.length > maxFileBytes) return;
    try {
      await file.appendFile(chunk);
      written += chunk.length;
    } catch {
      await file.close().catch(() => undefined); // the disk is full, so the rest counts as lost
      file = undefined;
    }
  }

  return {
    async add(chunk: Uint8Array): Promise<void> {
      bytes += chunk.length;
      if (!overflowed && bytes > maxBytes) {
        overflowed = true;
        path = options.file?.();
        file = await openFile(path);
        await toFile(Buffer.concat(chunks));
      }
      if (overflowed) await toFile(chunk);
      const fits = chunk.subarray(0, maxBytes - size);
      if (fits.length > 0) chunks.push(fits);
      size += fits.length;
    },
    async end(): Promise<Captured> {
      await file?.close().catch(() => undefined);
      // A partial character at the cut is left out.
      const text = new TextDecoder().decode(Buffer.concat(chunks), { stream: overflowed });
      const lost = overflowed ? bytes - Math.max(written, size) : 0;
      const where = written > 0 && path !== undefined ? { file: path } : {};
      return { text, bytes, truncated: overflowed, lost, ...where };
    },
  };
}

/** Reads a stream to its end with back-pressure. A stream that breaks ends there. Never throws. */
export async function capture(stream: Readable, options: CaptureOptions): Promise<Captured> {
  const redacted = createRedactor(options.secrets, { areBytes: true }).stream();
  const store = createStore(options);
  const decoder = new TextDecoder();
  const take = (text: string, isLast = false): Promise<void> => {
    const bytes = Buffer.from(text, 'latin1');
    options.onText?.(decoder.decode(bytes, { stream: !isLast }));
    return store.add(bytes);
  };
  try {
    for await (const chunk of stream) {
      // One character per byte, so that no decoding changes the content.
      await take(redacted.push(Buffer.from(chunk).toString('latin1')));
    }
  } catch {
    // The stream was destroyed or cut off. The output that arrived before counts.
  }
  await take(redacted.end(), true);
  return await store.end();
}

/**
 * Returns the fields that report a truncation, with the file's path in the project. Empty if nothing was cut.
 */
export function truncationMark(name: string, captured: Captured, projectRoot: string): JsonObject {
  if (!captured.truncated) return {};
  const { bytes, lost } = captured;
  const file = captured.file && pathWithin(projectRoot, captured.file);
  return { [name]: { bytes, ...(file ? { file } : {}), ...(lost > 0 ? { lost } : {}) } };
}
