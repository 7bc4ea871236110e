// What is open over HTTP, by client: requests that are answered and streams that go on. A client whose
// token was taken away loses all of it at once, and one that does not read what it asked for is cut off.

/** So much may wait for a client that does not read; one message more is not cut in two. */
const MAX_WAITING = 8 * 1024 * 1024;

export interface Exchange {
  /** Aborts when the other side is gone, or this one ends it. */
  readonly signal: AbortSignal;
  /** Called once, when nothing of it is left. */
  after(done: () => void): void;
  /** The answer as it is sent. A stream keeps the exchange open until it ends. */
  answer(response: Response): Response;
  end(): void;
}

const isStream = ({ headers }: Response): boolean =>
  headers.get('content-type')?.startsWith('text/event-stream') ?? false;

/** Hands a stream on, bounded; `onEnd` is told once, and `stop` ends it from here. */
function passOn(body: ReadableStream<Uint8Array>, stop: AbortSignal, onEnd: () => void) {
  const reader = body.getReader();
  const letGo = (): void => {
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
        stop.addEventListener('abort', letGo, { once: true });
        if (stop.aborted) letGo();
        void copy(out).catch((error: unknown) => {
          letGo();
          // It may be closed by now: then nobody is there to be told.
          try {
            out.error(error);
          } catch {}
        });
      },
      cancel: letGo,
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
            // Also when the other side is gone: whoever writes to it may not have begun to read here.
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
    /** Cuts off what a client has open; without a name, what anybody has. */
    cut(client?: string): void {
      for (const [exchange, owner] of open) {
        if (client === undefined || owner === client) stops.get(exchange)?.abort();
      }
    },
  };
}
