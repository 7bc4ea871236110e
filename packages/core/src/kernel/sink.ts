import { fail, getOwn, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { MaybePromise } from '../flow/index.ts';

/** One event of a stream as the server framed it. `data` is the joined text of its data lines. */
export interface StreamEvent {
  event?: string;
  data: string;
  id?: string;
}

export interface SinkReport {
  type: string;
  delivered: number;
  dropped: number;
  /** Reason why the sink gave up. Absent: the sink did not give up. */
  error?: string;
  [detail: string]: string | number | boolean | null | undefined | JsonObject | unknown[];
}

/**
 * A destination of a stream, which receives batches as they arrive. If `write` returns a promise, the
 * reader waits for it, which is the back-pressure. A sink never throws; it reports. `close` is called
 * exactly once, on every outcome.
 */
export interface Sink {
  type: string;
  write(events: readonly StreamEvent[]): void | Promise<void>;
  close(): Promise<SinkReport>;
}

/** Removes events, or parts of them, before a sink gets them. Each stream gets a new one. */
export interface EventFilter {
  push(event: StreamEvent): readonly StreamEvent[];
  end(): readonly StreamEvent[];
}

export function filteredSink(sink: Sink, filter: EventFilter): Sink {
  return {
    type: sink.type,
    write(events) {
      const passed = events.flatMap((event) => filter.push(event));
      return passed.length > 0 ? sink.write(passed) : undefined;
    },
    async close() {
      const rest = filter.end();
      if (rest.length > 0) await sink.write(rest);
      return await sink.close();
    },
  };
}

/** Replaces a sink that could not be created, so that the stream continues. It counts events as dropped. */
export function missingSink(type: string, error: string): Sink {
  let dropped = 0;
  return {
    type,
    write(events) {
      dropped += events.length;
    },
    close: async () => ({ type, delivered: 0, dropped, error }),
  };
}

/** Returns a sink that counts events and drops them. */
export function countingSink(type: string): Sink {
  let delivered = 0;
  return {
    type,
    write(events) {
      delivered += events.length;
    },
    close: async () => ({ type, delivered, dropped: 0 }),
  };
}

export interface SinkContext {
  projectRoot: string;
  threadId: string | undefined;
  verify: (need: { capability: string; scope?: { path?: string; host?: string } }) => Outcome<null>;
  signal: AbortSignal;
  /**
   * True if the caller has a sink of its own. `return` then collects nothing, and a sink that cannot be
   * created is reported and does not end the call.
   */
  isReadByCaller?: boolean;
  /** Filter in front of every sink except the caller's own. */
  filter?: (() => EventFilter | undefined) | undefined;
  /**
   * Called before the first byte goes into a file. From then on the file carries the marks of this
   * stream, also if the stream breaks or the process dies.
   */
  willWrite?(absolute: string): MaybePromise<Outcome<null>>;
}

/** Creates a sink from a destination of `config.stream.destinations`, merged over the sink tool's config. */
export type SinkFactory = (
  destination: JsonObject,
  context: SinkContext,
) => Outcome<Sink> | Promise<Outcome<Sink>>;

/** Reads a whole number of at least `min`, or returns the default if the field is absent. */
export function countField(
  config: JsonObject,
  name: string,
  preset: number,
  min = 1,
): Outcome<number> {
  const value = getOwn(config, name) ?? preset;
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= min
    ? ok(value)
    : fail('config_invalid', `\`${name}\` must be a whole number of at least ${min}`, {
        config_path: `config.${name}`,
      });
}

export function choiceField<Name extends string>(
  config: JsonObject,
  name: string,
  choices: readonly [Name, ...Name[]],
): Outcome<Name> {
  const value = getOwn(config, name) ?? choices[0];
  const chosen = choices.find((choice) => choice === value);
  return chosen === undefined
    ? fail('config_invalid', `\`${name}\` must be one of ${choices.join(', ')}`, {
        config_path: `config.${name}`,
      })
    : ok(chosen);
}
