// Translates the answer of a tool into content blocks, messages and resource contents of the
// protocol. An answer is data: each block is checked, and an invalid block is shown as text.
import { type Failure, getOwn, isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import {
  type CallToolResult,
  type ContentBlock,
  type GetPromptResult,
  isSpecType,
  ProtocolError,
  ProtocolErrorCode,
  type ReadResourceResult,
  ResourceNotFoundError,
} from '@modelcontextprotocol/server';
import type { Answers, Brief } from './answers.ts';

/** Decodes a part of an address. Returns it unchanged if its encoding is invalid. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const textBlock = (text: string): ContentBlock => ({ type: 'text', text });

/** Returns the output of the tool without the fields that the kernel adds. */
export function ownOutput(output: Json): JsonObject {
  if (!isObject(output)) return { result: output };
  const { duration_ms: _, chain: __, ...own } = output;
  return own;
}

const blockOf = (block: Json): ContentBlock =>
  isSpecType.ContentBlock(block) ? block : textBlock(JSON.stringify(block));

/** True if the schema describes an object. The kernel puts any other answer under `result`. */
const isOfObject = (schema: JsonObject): boolean =>
  schema.type === undefined ? schema.properties !== undefined : schema.type === 'object';

/** `schema` is the declared schema. A structured answer with a schema is never shortened. */
export function toolResult(
  own: JsonObject,
  schema: JsonObject | undefined,
  answers: Answers,
): CallToolResult {
  const isError = own.isError === true ? { isError: true } : {};
  const blocks = Array.isArray(own.content) ? own.content.map(blockOf) : undefined;
  if (!schema && blocks) return { content: inBounds(blocks, answers), ...isError };
  const structured = schema && !isOfObject(schema) ? (own.result ?? null) : own;
  const twin = JSON.stringify(structured);
  const brief = answers.shorten(twin, 'application/json');
  const content = blocks ? inBounds(blocks, answers) : briefly(twin, brief);
  const fits = schema !== undefined || !brief;
  return { content, ...(fits && { structuredContent: structured }), ...isError };
}

const briefly = (text: string, brief: Brief | undefined): ContentBlock[] =>
  brief ? [textBlock(JSON.stringify(brief.fields)), ...brief.blocks] : [textBlock(text)];

/** Replaces long texts with a link. */
const inBounds = (blocks: readonly ContentBlock[], answers: Answers): ContentBlock[] =>
  blocks.flatMap((block) =>
    block.type === 'text' ? briefly(block.text, answers.shorten(block.text, 'text/plain')) : block,
  );

/** Returns the message for people, then the complete fault for programs. */
export const failedResult = ({ error }: Failure, answers: Answers): CallToolResult => {
  const blocks = [error.detail.message, JSON.stringify({ ok: false, error })].map(textBlock);
  return { isError: true, content: inBounds(blocks, answers) };
};

const BAD_REQUEST: readonly string[] = ['invalid_input', 'not_found', 'ambiguous'];

/** Turns a fault into a protocol error, because prompts and resources have no error result. */
export function protocolError({ error }: Failure): ProtocolError {
  const { InvalidParams, InternalError } = ProtocolErrorCode;
  const code = BAD_REQUEST.includes(error.code) ? InvalidParams : InternalError;
  return new ProtocolError(code, `${error.code}: ${error.detail.message}`, { ...error });
}

export const resourceError = (failure: Failure, uri: string): ProtocolError =>
  failure.error.code === 'not_found' ? new ResourceNotFoundError(uri) : protocolError(failure);

export function promptResult(own: JsonObject, description: string): GetPromptResult {
  const declared = getOwn(own, 'description');
  const entries = Array.isArray(own.messages) ? own.messages : [own];
  const messages = entries.map((message) =>
    isSpecType.PromptMessage(message)
      ? message
      : ({ role: 'user', content: textBlock(JSON.stringify(message)) } as const),
  );
  return { description: typeof declared === 'string' ? declared : description, messages };
}

/** Returns the parts of a resource. Their address is always that of the request. */
function partsOf(contents: readonly Json[], uri: string, mimeType: string | undefined) {
  return contents.map((part) => {
    const whole = isObject(part)
      ? { ...(mimeType !== undefined && { mimeType }), ...part, uri }
      : part;
    if (isSpecType.TextResourceContents(whole) || isSpecType.BlobResourceContents(whole))
      return whole;
    return { uri, mimeType: 'application/json', text: JSON.stringify(part) };
  });
}

/**
 * Accepts `{text}`, `{blob}` (base64), `{contents}` or any other answer, which is written as JSON.
 */
export function resourceResult(
  own: JsonObject,
  uri: string,
  mimeType: string | undefined,
): ReadResourceResult {
  if (Array.isArray(own.contents)) return { contents: partsOf(own.contents, uri, mimeType) };
  const declared = typeof own.mime_type === 'string' ? own.mime_type : undefined;
  const type = mimeType ?? declared ?? 'application/octet-stream';
  const bytes = { uri, mimeType: type, blob: own.blob };
  if (isSpecType.BlobResourceContents(bytes)) return { contents: [bytes] };
  const plain = [own.text, own.result].find((text) => typeof text === 'string');
  const text = typeof plain === 'string' ? plain : JSON.stringify(own);
  const guessed = typeof plain === 'string' ? 'text/plain' : 'application/json';
  return { contents: [{ uri, mimeType: mimeType ?? declared ?? guessed, text }] };
}
