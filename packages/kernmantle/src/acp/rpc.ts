// Speaks JSON-RPC 2.0 with one peer over lines of JSON. Both sides send requests and notifications. A bad line is
// answered with an error and never ends the connection.
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import {
  type Failure,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  masked,
  type Outcome,
  ok,
  parseJson,
  plainText,
} from '@kernmantle/core/base';
import { linesOf } from '../input-lines.ts';

/** Codes of JSON-RPC and of the Agent Client Protocol. */
export const RPC = {
  parse: -32_700,
  invalidRequest: -32_600,
  noMethod: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  authRequired: -32_000,
  notFound: -32_002,
} as const;

/** Fails with the number of a JSON-RPC error. The other fields are its `data`. */
export const refuse = (rpc: number, message: string, data: JsonObject = {}): Failure =>
  fail('invalid_input', message, { ...data, rpc });

type Method = (params: JsonObject) => Promise<Outcome<Json>>;

interface RpcPorts {
  readonly input: Readable;
  readonly output: Writable;
  readonly methods: Readonly<Record<string, Method>>;
  /** Receives an unexpected exception. The peer gets an internal error without its text. */
  onError(error: unknown): void;
}

export type Rpc = ReturnType<typeof createRpc>;

const MAX_LINE = 8 * 1024 * 1024;
/** Maximum number of requests of the peer that are at work. */
const MAX_OPEN = 256;
/** Unread output after which notifications are dropped, so that a peer that does not read fills no memory. */
const MAX_UNREAD = 32 * 1024 * 1024;

function errorOf({ error }: Failure): JsonObject {
  const { message, rpc, ...data } = error.detail;
  const code = typeof rpc === 'number' ? rpc : RPC.internal;
  const more = typeof rpc === 'number' ? data : { code: error.code };
  return { code, message: masked(message), ...(Object.keys(more).length > 0 && { data: more }) };
}

export function createRpc({ input, output, methods, onError }: RpcPorts) {
  const requests = new Map<number, (answer: Outcome<Json>) => void>();
  let [last, open, isClosed] = [0, 0, false];
  const lost = fail('cancelled', 'the client has closed the connection');

  function write(message: JsonObject): void {
    output.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }
  function answer(id: Json, outcome: Outcome<Json>): void {
    write(outcome.ok ? { id, result: outcome.output } : { id, error: errorOf(outcome) });
  }
  async function serve(id: Json, method: Method, params: JsonObject): Promise<void> {
    open += 1;
    try {
      const outcome = await method(params);
      if (id !== null) answer(id, outcome);
    } catch (error) {
      onError(error);
      if (id !== null) answer(id, refuse(RPC.internal, 'internal error'));
    } finally {
      open -= 1;
    }
  }
  /** Settles a request of this side. An answer to an unknown request is ignored. */
  function settle(message: JsonObject): void {
    const id = typeof message.id === 'number' ? message.id : 0;
    const resolve = requests.get(id);
    requests.delete(id);
    const { result, error } = message;
    resolve?.(
      error === undefined
        ? ok(result ?? null)
        : fail('unavailable', plainText(getOwn(error, 'message'))),
    );
  }
  function handle(line: string | undefined): void {
    const parsed = line === undefined ? undefined : parseJson(line);
    if (!parsed?.ok) {
      const why = parsed ? 'the line is not JSON' : `a line has at most ${MAX_LINE} bytes`;
      answer(null, refuse(RPC.parse, why));
      return;
    }
    const message = parsed.output;
    const id = getOwn(message, 'id') ?? null;
    const name = getOwn(message, 'method');
    const isId = id === null || typeof id === 'string' || Number.isSafeInteger(id);
    if (!isObject(message) || message.jsonrpc !== '2.0' || !isId) {
      answer(
        isId ? id : null,
        refuse(RPC.invalidRequest, 'the line is not a JSON-RPC 2.0 message'),
      );
    } else if (typeof name === 'string') {
      const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
      const params = message.params ?? {};
      if (method && isObject(params) && open < MAX_OPEN) void serve(id, method, params);
      else if (id !== null) {
        const problem = !method
          ? refuse(RPC.noMethod, `method \`${name.slice(0, 100)}\` not found`)
          : isObject(params)
            ? refuse(RPC.invalidRequest, `${MAX_OPEN} requests are at work; wait for an answer`)
            : refuse(RPC.invalidParams, '`params` must be an object');
        answer(id, problem);
      }
    } else if ('result' in message || 'error' in message) settle(message);
    else answer(id, refuse(RPC.invalidRequest, 'a message needs `method`, `result` or `error`'));
  }

  return {
    /** Returns false for a notification that was dropped, because the peer does not read. */
    notify(method: string, params: JsonObject): boolean {
      if (output.writableLength > MAX_UNREAD) return false;
      write({ method, params });
      return true;
    },
    /** Sends a request. Fails with `cancelled` after a lost connection, or if the signal aborts. */
    async request(method: string, params: JsonObject, signal: AbortSignal): Promise<Outcome<Json>> {
      if (isClosed || signal.aborted) return lost;
      const id = ++last;
      const { promise, resolve } = Promise.withResolvers<Outcome<Json>>();
      const cancel = (): void => {
        if (!requests.delete(id)) return;
        write({ method: '$/cancel_request', params: { requestId: id } });
        resolve(fail('cancelled', 'the request was called off'));
      };
      requests.set(id, resolve);
      signal.addEventListener('abort', cancel, { once: true });
      write({ id, method, params });
      try {
        return await promise;
      } finally {
        signal.removeEventListener('abort', cancel);
      }
    },
    /** Reads until the end of the input. */
    async run(): Promise<void> {
      for await (const line of linesOf(input, MAX_LINE)) {
        if (line?.trim() !== '') handle(line);
        // A peer that sends without reading must not fill the memory with answers.
        if (output.writableLength > MAX_UNREAD) await once(output, 'drain').catch(() => {});
      }
      isClosed = true;
      for (const resolve of requests.values()) resolve(lost);
      requests.clear();
    },
  };
}
