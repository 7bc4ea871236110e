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

const LARGE = 4096;

/** What brings the bytes. */
interface Origin {
  pause(): void;
  resume(): void;
  destroy(): void;
}

/** The side of a source where the bytes come in. They must stay as they are until they were read. */
export interface ByteFeed {
  readonly source: ByteSource;
  push(bytes: Buffer): void;
  /** The first end counts. */
  end(error?: Error): void;
}

/**
 * A source that is fed. What comes in one turn of the event loop is one batch, also when it was sent as
 * a thousand little chunks.
 */
export function createFeed(origin: Origin): ByteFeed {
  let waiting: Buffer[] = [];
  let reader: ByteReader | undefined;
  let ended: { error?: Error } | undefined;
  let [isPaused, isScheduled, isOver] = [false, false, false];

  /** Small chunks are joined, large ones are not worth the copy. */
  const handOver = ({ take }: ByteReader): void => {
    const batch = waiting;
    waiting = [];
    const [first] = batch;
    if (first === undefined) return;
    if (batch.length === 1) return take(first);
    if (first.length < LARGE) return take(Buffer.concat(batch));
    for (const [at, bytes] of batch.entries()) {
      if (isPaused || reader === undefined) {
        waiting = batch.slice(at);
        return;
      }
      take(bytes);
    }
  };
  const flush = (): void => {
    isScheduled = false;
    if (isPaused || reader === undefined) return;
    handOver(reader);
    // Taking may have paused it.
    if (ended === undefined || isPaused || reader === undefined) return;
    const last = reader;
    reader = undefined;
    isOver = true;
    last.end(ended.error);
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    queueMicrotask(flush);
  };
  return {
    push(bytes) {
      if (isOver) return;
      // Whoever is to read begins in this very turn of the event loop, or is slow.
      const isSlow = reader === undefined && waiting.length > 0 && !isScheduled;
      waiting.push(bytes);
      if (isSlow) origin.pause();
      else schedule();
    },
    end(error) {
      ended ??= error === undefined ? {} : { error };
      schedule();
    },
    source: {
      read(given) {
        reader = given;
        origin.resume();
        flush();
      },
      pause() {
        isPaused = true;
        origin.pause();
      },
      resume() {
        if (!isPaused) return;
        isPaused = false;
        origin.resume();
        flush();
      },
      destroy() {
        reader = undefined;
        waiting = [];
        if (isOver || ended !== undefined) return;
        isOver = true;
        origin.destroy();
      },
    },
  };
}

/** A stream of Node. */
export function streamSource(stream: Readable): ByteSource {
  let isStarted = false;
  const feed = createFeed({
    pause: () => stream.pause(),
    resume() {
      if (isStarted) return void stream.resume();
      isStarted = true;
      stream.on('data', (chunk: Buffer) => feed.push(chunk));
    },
    destroy: () => stream.destroy(),
  });
  const closed = (): void => feed.end(new Error('closed early'));
  stream.once('end', () => feed.end());
  stream.once('close', closed);
  stream.on('error', (error) => feed.end(error));
  if (stream.destroyed) closed();
  return feed.source;
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
