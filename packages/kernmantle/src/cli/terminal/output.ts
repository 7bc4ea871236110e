// Writes to standard output and standard error. If the reader goes away, only the display ends, not
// the work. If data cannot be written, for example to a full disk, the user is told once and the
// command fails.
import type { Writable } from 'node:stream';

export interface Output {
  /** Writes a text to stdout, unchanged. */
  out(text: string): void;
  /** Writes a text to stderr, unchanged. */
  err(text: string): void;
  /** Aborts when the reader of stdout is gone. */
  readonly closed: AbortSignal;
}

const LEFT: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET', 'ERR_STREAM_DESTROYED']);

/** `onLoss` is called if data could not be written although a reader wanted it. */
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
    if (LEFT.has(error.code ?? '')) return;
    onLoss();
    err(`error: the output cannot be written: ${error.message} [${error.code ?? 'unknown'}]\n`);
  });
  stderr.on('error', () => {
    closed.err = true;
  });
  return { out: writer('out', stdout), err, closed: controller.signal };
}
