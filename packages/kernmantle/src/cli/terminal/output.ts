// Writes to standard output and standard error. If the reader closes its end, only the display ends,
// not the work. If a write fails, for example on a full disk, the command prints one error and fails.
import type { Writable } from 'node:stream';

export interface Output {
  /** Writes a text to stdout, unchanged. */
  out(text: string): void;
  /** Writes a text to stderr, unchanged. */
  err(text: string): void;
  /** Aborts when the reader of stdout has closed its end. */
  readonly closed: AbortSignal;
}

const READER_CLOSED: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET', 'ERR_STREAM_DESTROYED']);

/** Creates the output. `onLoss` is called if a write fails for a reader that has not closed its end. */
export function createOutput(stdout: Writable, stderr: Writable, onLoss: () => void): Output {
  const controller = new AbortController();
  const closed = { out: false, err: false };

  const writer = (name: keyof typeof closed, stream: Writable) => (text: string) => {
    if (!closed[name]) stream.write(text);
  };
  const err = writer('err', stderr);
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (closed.out) return;
    closed.out = true;
    controller.abort();
    if (READER_CLOSED.has(error.code ?? '')) return;
    onLoss();
    err(`error: the output cannot be written: ${error.message} [${error.code ?? 'unknown'}]\n`);
  });
  stderr.on('error', () => {
    closed.err = true;
  });
  return { out: writer('out', stdout), err, closed: controller.signal };
}
