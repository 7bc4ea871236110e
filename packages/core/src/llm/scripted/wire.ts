// Turns an answer into the bytes to send, with the simulated faults.
import { getOwn } from '../../base/index.ts';
import type { Protocol } from '../message.ts';
import type { ScriptedAnswer } from './answer.ts';
import { WORDINGS } from './protocols.ts';
import type { ScriptedRequest } from './request.ts';
import type { ScriptedFault } from './script.ts';

export interface Wire {
  status: number;
  headers: Record<string, string>;
  pieces: Buffer[];
  end: 'end' | 'cut' | 'stall';
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  500: 'api_error',
  503: 'overloaded_error',
  529: 'overloaded_error',
};

export function errorWire(
  protocol: Protocol,
  status: number,
  { error, retry_after }: ScriptedFault = {},
): Wire {
  const type = error?.type ?? ERROR_TYPES[status] ?? 'api_error';
  const message = error?.message ?? `scripted ${status}`;
  const body = WORDINGS[protocol].error(type, message);
  return {
    status,
    headers: {
      'content-type': 'application/json',
      ...(retry_after !== undefined && { 'retry-after': String(retry_after) }),
    },
    pieces: [Buffer.from(JSON.stringify(body))],
    end: 'end',
  };
}

/** Returns the first `count` bytes. The last piece may be cut. */
function firstBytes(pieces: readonly Buffer[], count: number): Buffer[] {
  const output: Buffer[] = [];
  for (const piece of pieces) {
    if (count <= 0) break;
    output.push(piece.subarray(0, count));
    count -= piece.length;
  }
  return output;
}

const GARBAGE = Buffer.from('\u0000\u0007data: {"type": garb\n\ndata: }age{\n\n');

function withGarbage(pieces: readonly Buffer[], at: number): Buffer[] {
  const bytes = Buffer.concat(pieces);
  return [bytes.subarray(0, at), GARBAGE, bytes.subarray(at)];
}

/** Applies the first byte fault that is set: cut, stall or garbage. */
function spoil(pieces: Buffer[], fault: ScriptedFault): Pick<Wire, 'pieces' | 'end'> {
  const { cut_at_byte, stall_at_byte, garbage_at_byte } = fault;
  if (cut_at_byte !== undefined) return { pieces: firstBytes(pieces, cut_at_byte), end: 'cut' };
  if (stall_at_byte !== undefined)
    return { pieces: firstBytes(pieces, stall_at_byte), end: 'stall' };
  if (garbage_at_byte !== undefined)
    return { pieces: withGarbage(pieces, garbage_at_byte), end: 'end' };
  return { pieces, end: 'end' };
}

function framesOf(
  answer: ScriptedAnswer,
  { protocol, body }: ScriptedRequest,
  fault: ScriptedFault,
): string[] {
  const includeUsage = getOwn(getOwn(body, 'stream_options'), 'include_usage') === true;
  const { frames: framesFor, frame, error } = WORDINGS[protocol];
  const frames = framesFor(answer, includeUsage);
  if (fault.error !== undefined) {
    const { type = 'api_error', message = 'scripted error' } = fault.error;
    return [...frames.slice(0, fault.after_events ?? 1), frame(error(type, message))];
  }
  return fault.no_end_marker === true ? frames.slice(0, -1) : frames;
}

export function wireOf(
  answer: ScriptedAnswer,
  request: ScriptedRequest,
  fault: ScriptedFault = {},
): Wire {
  if (fault.status !== undefined) return errorWire(request.protocol, fault.status, fault);
  const { stream, protocol } = request;
  const type = stream ? 'text/event-stream' : 'application/json';
  const pieces = stream
    ? framesOf(answer, request, fault).map((frame) => Buffer.from(frame))
    : [Buffer.from(JSON.stringify(WORDINGS[protocol].body(answer)))];
  return {
    status: 200,
    headers: { 'content-type': fault.content_type ?? type, 'cache-control': 'no-cache' },
    ...spoil(pieces, fault),
  };
}
