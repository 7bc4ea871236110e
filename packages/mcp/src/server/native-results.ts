// What a tool answered, in the words of the protocol: content blocks, messages, contents of a resource.
// What a tool says is data: each block is checked, and what is none is shown as the text it is.
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

/** A part of an address as text; what is no encoding is what it is. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const textBlock = (text: string): ContentBlock => ({ type: 'text', text });

/** The tool's own fields, without what the kernel adds to every answer. */
export function ownOutput(output: Json): JsonObject {
  if (!isObject(output)) return { result: output };
  const { duration_ms: _, chain: __, ...own } = output;
  return own;
}

const blockOf = (block: Json): ContentBlock =>
  isSpecType.ContentBlock(block) ? block : textBlock(JSON.stringify(block));

/** A schema of something else than an object: the kernel put such an answer under `result`. */
const isOfObject = (schema: JsonObject): boolean =>
  schema.type === undefined ? schema.properties !== undefined : schema.type === 'object';

/** `schema`: what its answer looks like, when it says so: then that is never shortened, only its twin. */
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

/** Texts that are too long are read from a link. */
const inBounds = (blocks: readonly ContentBlock[], answers: Answers): ContentBlock[] =>
  blocks.flatMap((block) =>
    block.type === 'text' ? briefly(block.text, answers.shorten(block.text, 'text/plain')) : block,
  );

/** The words first, for people; then all of it, for programs. */
export const failedResult = ({ error }: Failure, answers: Answers): CallToolResult => {
  const blocks = [error.detail.message, JSON.stringify({ ok: false, error })].map(textBlock);
  return { isError: true, content: inBounds(blocks, answers) };
};

const BAD_REQUEST: readonly string[] = ['invalid_input', 'not_found', 'ambiguous'];

/** A prompt or a resource has no result that is an error. */
export function protocolError({ error }: Failure): ProtocolError {
  const { InvalidParams, InternalError } = ProtocolErrorCode;
  const code = BAD_REQUEST.includes(error.code) ? InvalidParams : InternalError;
  return new ProtocolError(code, `${error.code}: ${error.detail.message}`, { ...error });
}

export const resourceError = (failure: Failure, uri: string): ProtocolError =>
  failure.error.code === 'not_found' ? new ResourceNotFoundError(uri) : protocolError(failure);

export function promptResult(own: JsonObject, description: string): GetPromptResult {
  const said = getOwn(own, 'description');
  const given = Array.isArray(own.messages) ? own.messages : [own];
  const messages = given.map((message) =>
    isSpecType.PromptMessage(message)
      ? message
      : ({ role: 'user', content: textBlock(JSON.stringify(message)) } as const),
  );
  return { description: typeof said === 'string' ? said : description, messages };
}

/** What a tool says of the parts of a resource; the address is ours. */
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

/** `{text}`, `{blob}` (base64), `{contents}` or any other answer, which is JSON then. */
export function resourceResult(
  own: JsonObject,
  uri: string,
  mimeType: string | undefined,
): ReadResourceResult {
  if (Array.isArray(own.contents)) return { contents: partsOf(own.contents, uri, mimeType) };
  const said = typeof own.mime_type === 'string' ? own.mime_type : undefined;
  const type = mimeType ?? said ?? 'application/octet-stream';
  const bytes = { uri, mimeType: type, blob: own.blob };
  if (isSpecType.BlobResourceContents(bytes)) return { contents: [bytes] };
  const plain = [own.text, own.result].find((text) => typeof text === 'string');
  const text = typeof plain === 'string' ? plain : JSON.stringify(own);
  const guessed = typeof plain === 'string' ? 'text/plain' : 'application/json';
  return { contents: [{ uri, mimeType: mimeType ?? said ?? guessed, text }] };
}
