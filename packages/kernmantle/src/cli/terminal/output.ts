// Standard output and standard error, which belong to somebody else. A reader that goes away ends the
// display, not the work; data that a full disk does not take is said once and makes the command fail.
import type { Writable } from 'node:stream';

export interface Output {
  /** Data. */
  out(text: string): void;
  /** Everything else. */
  err(text: string): void;
  /** Aborts when nobody takes data any more. */
  readonly closed: AbortSignal;
}

/** Who reads has seen enough, or is gone altogether. */
const LEFT: ReadonlySet<string> = new Set(['EPIPE', 'ECONNRESET', 'ERR_STREAM_DESTROYED']);

/** `onLoss`: some data was not written although somebody wanted it. */
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
