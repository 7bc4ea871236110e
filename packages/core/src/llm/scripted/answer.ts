// Completes a scripted reply with defaults and with values of the request, for all protocols.
import type { Json, JsonObject } from '../../base/index.ts';
import { fillTemplate } from '../../expr/index.ts';
import type { Stop } from '../message.ts';
import { type Counts, estimateTokens } from '../usage.ts';
import type { ScriptedRequest } from './request.ts';
import type { ScriptedReply } from './script.ts';

export interface ScriptedAnswer {
  id: string;
  model: string;
  text: string;
  thinking: string;
  seal: string;
  calls: { id: string; name: string; text: string }[];
  stop: Stop;
  /** Absent if the answer reports no usage. */
  usage?: Counts;
  piece: number;
}

const half = (text: string): string => text.slice(0, Math.ceil(text.length / 2));

/** Replaces placeholders with parts of the request. A reply without `fill` is returned unchanged. */
function filled(reply: ScriptedReply, request: ScriptedRequest): ScriptedReply {
  if (reply.fill !== true) return reply;
  const { results, model, assistant_messages, number } = request;
  // A path consists of names, so each result gets a name: `result_1` is the result of the first call.
  const named = results.map((result, index) => [`result_${index + 1}`, result]);
  const context = { model, assistant_messages, number, ...Object.fromEntries(named) } as JsonObject;
  const fill = (value: Json): Json => fillTemplate(value, context);
  const text = reply.text === undefined ? undefined : fill(reply.text);
  return {
    ...reply,
    ...(text !== undefined && { text: typeof text === 'string' ? text : JSON.stringify(text) }),
    ...(reply.tool_calls && {
      tool_calls: reply.tool_calls.map((call) => ({
        ...call,
        ...(call.arguments !== undefined && {
          arguments: fill(JSON.parse(JSON.stringify(call.arguments))),
        }),
      })),
    }),
  };
}

function cutShort(answer: ScriptedAnswer): ScriptedAnswer {
  const last = answer.calls.at(-1);
  const cut = last
    ? { calls: [...answer.calls.slice(0, -1), { ...last, text: half(last.text) }] }
    : { text: half(answer.text) };
  return { ...answer, ...cut, stop: 'max_tokens' };
}

export function answerOf(reply: ScriptedReply, request: ScriptedRequest): ScriptedAnswer {
  const { text = '', thinking = '', tool_calls = [], stop, fault, usage } = filled(reply, request);
  const calls = tool_calls.map((call, index) => ({
    id: call.id ?? `call_${request.number}_${index + 1}`,
    name: call.name,
    text:
      typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments ?? {}),
  }));
  const written = text + thinking + calls.map((call) => call.text).join('');
  const answer: ScriptedAnswer = {
    id: `scripted_${request.number}`,
    model: reply.model ?? request.model,
    text,
    thinking,
    seal: reply.seal ?? 'c2NyaXB0ZWQ=',
    calls,
    stop: stop ?? (calls.length > 0 ? 'tool_use' : 'end'),
    piece: Math.max(1, reply.piece ?? 24),
    ...(fault?.missing_usage !== true && {
      usage: {
        input_tokens: usage?.input_tokens ?? estimateTokens(request.bytes),
        output_tokens: usage?.output_tokens ?? estimateTokens(Buffer.byteLength(written)),
        cache_read_tokens: usage?.cache_read_tokens ?? 0,
        cache_write_tokens: usage?.cache_write_tokens ?? 0,
      },
    }),
  };
  return fault?.max_tokens_inside_arguments === true ? cutShort(answer) : answer;
}

/** Splits a text into pieces of `size` characters. A surrogate pair stays in one piece. */
export function piecesOf(text: string, size: number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + size);
    const code = text.charCodeAt(end - 1);
    if (end < text.length && code >= 0xd800 && code <= 0xdbff) end++;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}
