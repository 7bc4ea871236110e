import type { JsonObject, Outcome } from '../base/index.ts';

/** One event of a stream as the wire framed it; `data` is the joined text of its data lines. */
export interface StreamEvent {
  event?: string;
  data: string;
  id?: string;
}

export interface SinkReport {
  type: string;
  delivered: number;
  dropped: number;
  /** Why the sink gave up, when it did. */
  error?: string;
  [detail: string]: string | number | boolean | null | undefined | JsonObject | unknown[];
}

/**
 * Where a stream is delivered. `write` may return a promise: the reader waits for it, which is the
 * back-pressure. A sink never throws at its caller; it reports. `close` is called exactly once, on
 * every outcome.
 */
export interface Sink {
  type: string;
  write(event: StreamEvent): void | Promise<void>;
  /** The same for several events at once, for sinks that always answer at once. */
  writeAll?(events: readonly StreamEvent[]): void;
  close(): Promise<SinkReport>;
}

export interface SinkContext {
  projectRoot: string;
  threadId: string | undefined;
  verify: (need: { capability: string; scope?: { path?: string; host?: string } }) => Outcome<null>;
  signal: AbortSignal;
  /** The caller has a sink of its own: what `return` would collect nobody looks at. */
  isReadByCaller?: boolean;
  /**
   * To be called before the first byte goes into a file: from then on its content is known to be of
   * this stream, also when the stream breaks or the process dies.
   */
  willWrite?(absolute: string): Outcome<null>;
}

/** Makes a sink from a destination of `config.stream.destinations`, merged over the sink tool's config. */
export type SinkFactory = (
  destination: JsonObject,
  context: SinkContext,
) => Outcome<Sink> | Promise<Outcome<Sink>>;
