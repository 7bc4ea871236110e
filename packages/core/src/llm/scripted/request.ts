// Describes a request to a scripted provider in one form for all protocols, for its script.
import { getOwn, type Json, type JsonObject, listAt, parseJson, textAt } from '../../base/index.ts';
import type { Protocol } from '../message.ts';
import type { ScriptedMatch } from './script.ts';

export interface ScriptedRequest {
  /** Number of the request, from 1. */
  number: number;
  protocol: Protocol;
  headers: Readonly<Record<string, string>>;
  body: JsonObject;
  bytes: number;
  model: string;
  stream: boolean;
  assistant_messages: number;
  /** Results of the calls that this request answers. JSON texts are parsed. */
  results: Json[];
}

/** Collects all texts of a value in order. */
function textsIn(value: Json | undefined, into: string[] = []): string[] {
  if (typeof value === 'string') into.push(value);
  else if (typeof value === 'object' && value !== null) {
    for (const child of Object.values(value)) textsIn(child, into);
  }
  return into;
}

const holds = (value: Json | undefined, text: string): boolean =>
  textsIn(value).some((part) => part.includes(text));

const parsed = (content: Json | undefined): Json => {
  const parts = Array.isArray(content) ? content.map((part) => textAt(part, 'text')) : [];
  const text = typeof content === 'string' ? content : parts.join('');
  const value = parseJson(text);
  return value.ok ? value.output : text;
};

/** Items of Responses that a model wrote. The items of one reply follow each other. */
const isReplied = (item: Json): boolean =>
  ['function_call', 'reasoning'].includes(textAt(item, 'type')) ||
  textAt(item, 'role') === 'assistant';

/** Returns the results at the end of the conversation. */
function resultsOf(protocol: Protocol, messages: readonly Json[]): Json[] {
  if (protocol === 'responses') {
    return messages
      .slice(messages.findLastIndex(isReplied) + 1)
      .filter((item) => textAt(item, 'type') === 'function_call_output')
      .map((item) => parsed(getOwn(item, 'output')));
  }
  if (protocol === 'anthropic') {
    return listAt(messages.at(-1), 'content')
      .filter((block) => textAt(block, 'type') === 'tool_result')
      .map((block) => parsed(getOwn(block, 'content')));
  }
  const lastTurn = messages.findLastIndex((message) => textAt(message, 'role') === 'assistant');
  return messages
    .slice(lastTurn + 1)
    .filter((message) => textAt(message, 'role') === 'tool')
    .map((message) => parsed(getOwn(message, 'content')));
}

const messagesIn = (body: JsonObject): readonly Json[] => [
  ...listAt(body, 'messages'),
  ...listAt(body, 'input'),
];

export function describeRequest(
  number: number,
  protocol: Protocol,
  headers: ScriptedRequest['headers'],
  body: JsonObject,
  bytes: number,
): ScriptedRequest {
  const messages = messagesIn(body);
  return {
    number,
    protocol,
    headers,
    body,
    bytes,
    model: textAt(body, 'model'),
    stream: getOwn(body, 'stream') === true,
    assistant_messages: messages.filter(
      (message, at) => isReplied(message) && !isReplied(messages[at - 1] ?? null),
    ).length,
    results: resultsOf(protocol, messages),
  };
}

export function matches(request: ScriptedRequest, match: ScriptedMatch = {}): boolean {
  const { body, model, protocol, assistant_messages } = request;
  const messages = messagesIn(body);
  const system = getOwn(body, 'system') ?? getOwn(body, 'instructions') ?? null;
  return (
    (match.model === undefined || match.model === model) &&
    (match.protocol === undefined || match.protocol === protocol) &&
    (match.assistant_messages === undefined || match.assistant_messages === assistant_messages) &&
    (match.last === undefined || holds(messages.at(-1), match.last)) &&
    (match.text === undefined || holds([system, ...messages], match.text))
  );
}
