// Filters messages between a connection and its transport. Unexpected messages of a server cost
// almost nothing: messages without a receiver are dropped unread, and the others are rate limited.
import { type Clock, isObject, type JsonObject, plainText } from '@kernmantle/core/base';
import {
  type JSONRPCMessage,
  ProtocolError,
  type Transport,
  type TransportSendOptions,
} from '@modelcontextprotocol/client';
import { createRate } from './pace.ts';

interface GatePorts {
  readonly clock: Clock;
  /** Methods that the server may call. All others are refused by name. */
  readonly answered: readonly string[];
  onListChanged(): void;
}

/** Reason why the answer of the server is missing. */
type Missing = 'absent' | 'too_large' | 'unreadable';
const missing = new WeakMap<object, Missing>();
const NO_ANSWER = -32_097;

/** Returns an error answer that `whyMissing` recognises by its `data` object. A server cannot send it. */
export function ownAnswer(id: string | number, why: Missing, message: string) {
  const data = {};
  missing.set(data, why);
  return { jsonrpc: '2.0', id, error: { code: NO_ANSWER, message, data } } as const;
}

/** Returns why this client made the error answer. Undefined if the server sent it. */
export const whyMissing = (error: unknown): Missing | undefined =>
  error instanceof ProtocolError && isObject(error.data) ? missing.get(error.data) : undefined;

const FORWARDED = new Set(['notifications/cancelled', 'notifications/subscriptions/acknowledged']);
const LIST_CHANGED = 'notifications/tools/list_changed';
const PROGRESS = 'notifications/progress';
/** Maximum number per second, for each kind of notification. */
const MAX_NOTES = 1000;
const MAX_REQUESTS = 50;
const MAX_MESSAGE = 2000;

type OnProgress = (progress: JsonObject) => void;
type Message = {
  id?: string | number;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: unknown;
};

const isAnswer = ({ result, error }: Message): boolean =>
  isObject(error)
    ? Number.isInteger(error['code']) && typeof error['message'] === 'string'
    : isObject(result);

export class TransportGate implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: Transport['onmessage'];
  /** Time of the last answer to an open request. */
  heardAt = 0;
  readonly hasPerRequestStream: boolean;
  readonly #inner: Transport;
  readonly #ports: GatePorts;
  readonly #mayNote: () => boolean;
  readonly #mayAsk: () => boolean;
  readonly #waiting = new Map<string | number, AbortController>();
  readonly #followed = new Map<string, OnProgress>();
  #tokens = 0;

  constructor(inner: Transport, ports: GatePorts) {
    this.#inner = inner;
    this.#ports = ports;
    this.#mayNote = createRate(MAX_NOTES, ports.clock);
    this.#mayAsk = createRate(MAX_REQUESTS, ports.clock);
    this.hasPerRequestStream = inner.hasPerRequestStream ?? false;
    // The SDK distinguishes a process from a server on the network by these two fields.
    if ('pid' in inner) Object.assign(this, { pid: inner.pid, stderr: null });
  }

  get sessionId(): string | undefined {
    return this.#inner.sessionId;
  }

  setProtocolVersion(version: string): void {
    this.#inner.setProtocolVersion?.(version);
  }

  async start(): Promise<void> {
    const handlers: Pick<Transport, 'onmessage' | 'onclose' | 'onerror'> = {
      onmessage: (message, extra) => {
        const passed = this.#passed(message as Message);
        if (passed) this.onmessage?.(passed as JSONRPCMessage, extra);
      },
      onclose: () => this.onclose?.(),
      onerror: (error) => this.onerror?.(error),
    };
    Object.assign(this.#inner, handlers);
    await this.#inner.start();
  }

  /** Calls `onProgress` for progress of the request with this token, until `forget`. */
  follow(onProgress: OnProgress): { token: string; forget(): void } {
    const token = `p${++this.#tokens}`;
    this.#followed.set(token, onProgress);
    return { token, forget: () => this.#followed.delete(token) };
  }

  #reportProgress(params: unknown): void {
    if (!isObject(params)) return;
    const { progressToken, progress, total, message } = params;
    const follower = this.#followed.get(plainText(progressToken));
    if (!follower || typeof progress !== 'number' || !this.#mayNote()) return;
    follower({
      progress,
      ...(typeof total === 'number' && { total }),
      ...(typeof message === 'string' && { message: message.slice(0, MAX_MESSAGE) }),
    });
  }

  #passed(message: Message): Message | undefined {
    const { id, method, params } = message;
    if (method === undefined) {
      if (id === undefined || !this.#waiting.delete(id)) return undefined;
      this.heardAt = this.#ports.clock.monotonic();
      return isAnswer(message)
        ? message
        : ownAnswer(id, 'absent', 'the server sent no valid answer');
    }
    if (id !== undefined)
      return this.#mayAsk() && this.#mayAnswer(id, method) ? message : undefined;
    if (method === PROGRESS) this.#reportProgress(params);
    if (method === LIST_CHANGED) this.#ports.onListChanged();
    return FORWARDED.has(method) && this.#mayNote() ? message : undefined;
  }

  #mayAnswer(id: string | number, method: string): boolean {
    if (method === 'ping' || this.#ports.answered.includes(method)) return true;
    const error = { code: -32_601, message: 'this client does not support this request' };
    void this.#inner.send({ jsonrpc: '2.0', id, error }).catch(() => undefined);
    return false;
  }

  async send(message: JSONRPCMessage, options: TransportSendOptions = {}): Promise<void> {
    const { id, method, params } = message as Message;
    if (method === undefined) return await this.#inner.send(message, options);
    if (id === undefined) {
      await this.#inner.send(message, options);
      if (method === 'notifications/cancelled') {
        this.#forget((params as { requestId?: string | number } | undefined)?.requestId);
      }
      return;
    }
    const controller = new AbortController();
    this.#waiting.set(id, controller);
    const { requestSignal: own, onRequestStreamEnd: onEnd } = options;
    own?.addEventListener('abort', () => this.#forget(id), { once: true });
    try {
      await this.#inner.send(message, {
        ...options,
        requestSignal: controller.signal,
        onRequestStreamEnd: () => (onEnd ? onEnd() : this.#giveUp(id)),
      });
    } catch (error) {
      this.#waiting.delete(id);
      throw error;
    }
  }

  /** Closes the streams of a request for which no caller waits. */
  #forget(id: string | number | undefined): void {
    if (id === undefined) return;
    this.#waiting.get(id)?.abort();
    this.#waiting.delete(id);
  }

  /** Answers a request whose stream ended without an answer. */
  #giveUp(id: string | number): void {
    if (!this.#waiting.delete(id)) return;
    this.onmessage?.(ownAnswer(id, 'absent', 'the server ended its answer before it was complete'));
  }

  async close(): Promise<void> {
    for (const id of this.#waiting.keys()) this.#forget(id);
    await this.#inner.close();
  }
}
