// Bytes on their way in, from whatever brings them. A source hands over one read at a time and holds
// back what arrives while it is paused, its end included, so that a reader keeps no queue of its own.
import { Readable } from 'node:stream';

export interface ByteReader {
  /** The bytes are the reader's until it returns: they may stand in a buffer that is used again. */
  take(bytes: Buffer): void;
  /** Once, after the last bytes. An error means that it is not whole. */
  end(error?: Error): void;
}

export interface ByteSource {
  /** Begins. Called once. */
  read(reader: ByteReader): void;
  /** From now on nothing is handed over, until `resume`. */
  pause(): void;
  resume(): void;
  /** Nothing more is wanted; the reader hears no more either. After the end it does nothing. */
  destroy(): void;
}

const closedEarly = (): Error => new Error('closed early');

/**
 * A stream of Node. What comes in one turn of the event loop is one batch, also when it was sent as a
 * thousand little chunks.
 */
export function streamSource(stream: Readable): ByteSource {
  let waiting: Buffer[] = [];
  let reader: ByteReader | undefined;
  let ended: { error?: Error } | undefined;
  let [isPaused, isScheduled] = [false, false];

  const flush = (): void => {
    isScheduled = false;
    if (isPaused || reader === undefined) return;
    const batch = waiting;
    waiting = [];
    if (batch.length > 0)
      reader.take(batch.length === 1 ? (batch[0] as Buffer) : Buffer.concat(batch));
    // Taking may have paused it.
    if (ended === undefined || isPaused || reader === undefined) return;
    const last = reader;
    reader = undefined;
    last.end(ended.error);
  };
  const end = (error?: Error): void => {
    ended ??= error === undefined ? {} : { error };
    flush();
  };
  // Without a listener an error before the first read would be thrown.
  stream.on('error', end);
  return {
    read(given) {
      reader = given;
      stream.on('data', (chunk: Buffer) => {
        waiting.push(chunk);
        if (isScheduled || isPaused) return;
        isScheduled = true;
        queueMicrotask(flush);
      });
      stream.once('end', () => end());
      stream.once('close', () => end(closedEarly()));
      if (ended !== undefined || stream.destroyed) end(closedEarly());
    },
    pause() {
      isPaused = true;
      stream.pause();
    },
    resume() {
      isPaused = false;
      stream.resume();
      flush();
    },
    destroy() {
      reader = undefined;
      stream.destroy();
    },
  };
}

/** A source as a stream of Node, for what only works on streams. */
export function sourceStream(source: ByteSource): Readable {
  let isStarted = false;
  const stream = new Readable({
    read() {
      if (isStarted) return source.resume();
      isStarted = true;
      source.read({
        take(bytes) {
          if (!stream.push(Buffer.from(bytes))) source.pause();
        },
        end(error) {
          if (error === undefined) stream.push(null);
          else stream.destroy(error);
        },
      });
    },
    destroy(error, done) {
      source.destroy();
      done(error);
    },
  });
  return stream;
}
