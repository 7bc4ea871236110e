// WebSocket frames (RFC 6455), as a client sees them: what it sends is masked, what it receives is
// not. No extensions, so the reserved bits must be clear. Lengths are checked before anything is kept.
import { fail, type Outcome, ok } from '../base/index.ts';

export type Message =
  | { kind: 'text'; text: string }
  | { kind: 'binary'; size: number }
  | { kind: 'ping'; payload: Buffer }
  | { kind: 'pong' }
  | { kind: 'close'; code: number; reason: string };

export const OPCODES = {
  continuation: 0,
  text: 1,
  binary: 2,
  close: 8,
  ping: 9,
  pong: 10,
} as const;
const MAX_FRAGMENTS = 65_536;
/** A close frame without a code. */
export const NO_CODE = 1005;

/** One whole frame, masked with four random bytes. */
export function encodeFrame(opcode: number, payload: Uint8Array, mask: Uint8Array): Buffer {
  const { length } = payload;
  const wide = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const frame = Buffer.allocUnsafe(2 + wide + 4 + length);
  frame[0] = 0x80 | opcode;
  frame[1] = 0x80 | (wide === 0 ? length : wide === 2 ? 126 : 127);
  if (wide === 2) frame.writeUInt16BE(length, 2);
  if (wide === 8) frame.writeBigUInt64BE(BigInt(length), 2);
  const start = 2 + wide + 4;
  frame.set(mask.subarray(0, 4), start - 4);
  for (let at = 0; at < length; at++) {
    frame[start + at] = (payload[at] as number) ^ (mask[at & 3] as number);
  }
  return frame;
}

export function closePayload(code: number, reason = ''): Buffer {
  const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
  payload.writeUInt16BE(code, 0);
  payload.write(reason, 2);
  return payload.subarray(0, 125);
}

interface Header {
  fin: boolean;
  opcode: number;
  size: number;
  /** Bytes the header itself takes. */
  length: number;
}

const problem = (message: string) => fail('network_error', `websocket: ${message}`, { sent: true });

/** The header at the beginning of `bytes`; undefined while it is not all there. */
function readHeader(bytes: Buffer): Outcome<Header | undefined> {
  if (bytes.length < 2) return ok(undefined);
  const [first, second] = [bytes[0] as number, bytes[1] as number];
  if ((first & 0x70) !== 0) return problem('reserved bits are set');
  if ((second & 0x80) !== 0) return problem('a frame of the server is masked');
  const short = second & 0x7f;
  const length = short < 126 ? 2 : short === 126 ? 4 : 10;
  if (bytes.length < length) return ok(undefined);
  const size =
    length === 2 ? short : length === 4 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  const header = { fin: (first & 0x80) !== 0, opcode: first & 0x0f, size, length };
  const isControl = header.opcode >= OPCODES.close;
  if (isControl && (!header.fin || size > 125)) return problem('a control frame is too long');
  return ok(header);
}

function readClose(payload: Buffer): Outcome<Message> {
  if (payload.length === 0) return ok({ kind: 'close', code: NO_CODE, reason: '' });
  if (payload.length === 1) return problem('a close frame has half a code');
  return ok({ kind: 'close', code: payload.readUInt16BE(0), reason: payload.toString('utf8', 2) });
}

function readText(payload: Buffer): Outcome<Message> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload);
    return ok({ kind: 'text', text });
  } catch {
    return problem('a text message is not valid UTF-8');
  }
}

export interface FrameReader {
  /** Adds bytes; the messages that are complete with them. After a failure nothing is read. */
  push(bytes: Buffer): { messages: Message[]; failure?: Outcome<never> & { ok: false } };
}

/** Puts frames and fragments together; a message is never longer than `maxMessage` bytes. */
export function createFrameReader(maxMessage: number): FrameReader {
  let waiting: Buffer[] = [];
  let waitingSize = 0;
  let fragments: Buffer[] = [];
  let fragmentsSize = 0;
  let fragmentsOf: number | undefined;

  function finishData(fin: boolean, payload: Buffer): Outcome<Message | undefined> {
    if (fragments.length >= MAX_FRAGMENTS) return problem('a message has too many fragments');
    // A small piece would keep the whole read of the socket alive that it came with.
    if (payload.length > 0) fragments.push(fin ? payload : Buffer.from(payload));
    fragmentsSize += payload.length;
    if (!fin) return ok(undefined);
    const whole = fragments.length === 1 ? (fragments[0] as Buffer) : Buffer.concat(fragments);
    const opcode = fragmentsOf;
    [fragments, fragmentsSize, fragmentsOf] = [[], 0, undefined];
    return opcode === OPCODES.text ? readText(whole) : ok({ kind: 'binary', size: whole.length });
  }

  function readFrame({ fin, opcode }: Header, payload: Buffer): Outcome<Message | undefined> {
    switch (opcode) {
      case OPCODES.continuation:
        if (fragmentsOf === undefined) return problem('a continuation continues nothing');
        return finishData(fin, payload);
      case OPCODES.text:
      case OPCODES.binary:
        if (fragmentsOf !== undefined) return problem('a message begins inside another');
        fragmentsOf = opcode;
        return finishData(fin, payload);
      case OPCODES.close:
        return readClose(payload);
      case OPCODES.ping:
        return ok({ kind: 'ping', payload });
      case OPCODES.pong:
        return ok({ kind: 'pong' });
      default:
        return problem(`opcode ${opcode} is unknown`);
    }
  }

  /** One frame from the front of what is waiting; undefined while it is not complete. */
  function next(): Outcome<{ message: Message | undefined } | undefined> {
    // Joined only when a header or its frame is complete: a long message in small pieces stays linear.
    if (waiting.length > 1 && (waiting[0]?.length ?? 0) < 10) waiting = [Buffer.concat(waiting)];
    const header = readHeader(waiting[0] ?? Buffer.alloc(0));
    if (!header.ok || header.output === undefined) return header.ok ? ok(undefined) : header;
    const { size, length } = header.output;
    if (size + fragmentsSize > maxMessage) {
      return fail('response_too_large', `a message is longer than ${maxMessage} bytes`, {
        max_event: maxMessage,
      });
    }
    if (waitingSize < length + size) return ok(undefined);
    const bytes = waiting.length === 1 ? (waiting[0] as Buffer) : Buffer.concat(waiting);
    const rest = bytes.subarray(length + size);
    [waiting, waitingSize] = [rest.length === 0 ? [] : [rest], rest.length];
    const message = readFrame(header.output, bytes.subarray(length, length + size));
    return message.ok ? ok({ message: message.output }) : message;
  }

  return {
    push(bytes) {
      waiting.push(bytes);
      waitingSize += bytes.length;
      const messages: Message[] = [];
      for (;;) {
        const frame = next();
        if (!frame.ok) return { messages, failure: frame };
        if (frame.output === undefined) return { messages };
        if (frame.output.message) messages.push(frame.output.message);
      }
    },
  };
}
