// Tracks open requests and streams over HTTP, by client. They all end when the token of the client is
// removed. A client that does not read its answers is disconnected.

/** Maximum number of unread bytes of a client. The last message is never cut. */
const MAX_WAITING = 8 * 1024 * 1024;

export interface Exchange {
  /** Aborts when either side ends the exchange. */
  readonly signal: AbortSignal;
  /** Registers a callback for the end of the exchange. It is called once. */
  after(done: () => void): void;
  /** Returns the response to send. A stream keeps the exchange open until the stream ends. */
  answer(response: Response): Response;
  end(): void;
}

const isStream = ({ headers }: Response): boolean =>
  headers.get('content-type')?.startsWith('text/event-stream') ?? false;

/** Forwards a stream with a bounded buffer. `onEnd` is called once, and `stop` ends the stream. */
function passOn(body: ReadableStream<Uint8Array>, stop: AbortSignal, onEnd: () => void) {
  const reader = body.getReader();
  const stopReading = (): void => {
    onEnd();
    reader.cancel().catch(() => {});
  };
  const copy = async (out: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if ((out.desiredSize ?? 0) < 0) throw new Error('the client does not read');
      out.enqueue(value);
    }
    out.close();
    onEnd();
  };
  return new ReadableStream<Uint8Array>(
    {
      start(out) {
        stop.addEventListener('abort', stopReading, { once: true });
        if (stop.aborted) stopReading();
        void copy(out).catch((error: unknown) => {
          stopReading();
          // The stream can be closed already, without a reader.
          try {
            out.error(error);
          } catch {}
        });
      },
      cancel: stopReading,
    },
    new ByteLengthQueuingStrategy({ highWaterMark: MAX_WAITING }),
  );
}

export function createExchanges() {
  const open = new Map<Exchange, string>();
  const stops = new Map<Exchange, AbortController>();

  return {
    open(client: string, gone: AbortSignal): Exchange {
      const stop = new AbortController();
      const waiting: (() => void)[] = [];
      const exchange: Exchange = {
        signal: AbortSignal.any([gone, stop.signal]),
        after: (done) => void waiting.push(done),
        answer(response) {
          if (response.body && isStream(response)) {
            const { status, headers } = response;
            // The writer must stop even if the client is gone before it starts to read.
            const body = passOn(response.body, exchange.signal, exchange.end);
            return new Response(body, { status, headers });
          }
          exchange.end();
          return response;
        },
        end() {
          open.delete(exchange);
          stops.delete(exchange);
          for (const done of waiting.splice(0)) done();
        },
      };
      open.set(exchange, client);
      stops.set(exchange, stop);
      return exchange;
    },
    countOf: (client: string): number =>
      [...open.values()].filter((owner) => owner === client).length,
    clients: (): ReadonlySet<string> => new Set(open.values()),
    /** Ends all exchanges of a client, or of all clients. */
    cut(client?: string): void {
      for (const [exchange, owner] of open) {
        if (client === undefined || owner === client) stops.get(exchange)?.abort();
      }
    },
  };
}
