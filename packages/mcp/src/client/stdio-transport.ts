// Exchanges messages with a process, one per line. Invalid lines are skipped. An oversized answer
// is replaced by an error answer, so that the caller does not wait for it.
import { isObject, type Json, type JsonObject, parseJson } from '@kernmantle/core/base';
import type { KeptProcess } from '@kernmantle/core/kernel';
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client';
import { createLineReader, idOfAnswer } from './message-lines.ts';
import { ownAnswer } from './transport-gate.ts';

/** Maximum number of bytes that the process has not read. */
const MAX_UNREAD = 32 * 1024 * 1024;

const isMessage = (value: Json): value is JsonObject =>
  isObject(value) && value['jsonrpc'] === '2.0';

/** Implements the SDK's transport, but starts no second process as a probe. */
export class ProcessTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly stderr = null;
  readonly pid: number;
  readonly #process: KeptProcess;
  readonly #maxBytes: number;

  constructor(process: KeptProcess, maxBytes: number) {
    this.#process = process;
    this.#maxBytes = maxBytes;
    this.pid = process.pid;
  }

  async start(): Promise<void> {
    const { stdout, closed } = this.#process;
    const read = createLineReader(this.#maxBytes, {
      line: (text) => {
        const parsed = parseJson(text);
        if (parsed.ok && isMessage(parsed.output)) {
          this.onmessage?.(parsed.output as unknown as JSONRPCMessage);
        } else if (!parsed.ok) {
          const id = idOfAnswer(text, text);
          this.#answer(id, 'unreadable', `an answer is ${parsed.error.detail.message}`);
        }
      },
      long: (head, tail, isOver) => {
        const id = idOfAnswer(head, tail);
        this.#answer(id, 'too_large', `an answer is longer than ${this.#maxBytes} bytes`);
        if (id === undefined || isOver) void this.close();
      },
    });
    stdout.on('data', read);
    void closed.then(() => this.onclose?.());
  }

  #answer(
    id: string | number | undefined,
    why: Parameters<typeof ownAnswer>[1],
    message: string,
  ): void {
    if (id !== undefined) this.onmessage?.(ownAnswer(id, why, message));
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const { stdin } = this.#process;
    if (!stdin.writable) throw new Error('the process has closed its input');
    if (stdin.writableLength > MAX_UNREAD) throw new Error('the process does not read its input');
    stdin.write(`${JSON.stringify(message)}\n`);
  }

  async close(): Promise<void> {
    await this.#process.close();
  }
}
