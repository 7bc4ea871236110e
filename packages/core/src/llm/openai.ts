// Implements Chat Completions of OpenAI: the used parts of its request body, and the event stream that many
// servers send. Calls arrive in parallel, by index, and no event marks their end: a call is
// complete if its arguments are a closed JSON object, because nothing can follow it.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  plainText,
  textAt,
} from '../base/index.ts';
import { fileMark } from './file-marks.ts';
import type {
  Block,
  FileBlock,
  Message,
  ProviderRequest,
  Stop,
  ToolDefinition,
} from './message.ts';
import { errorFault } from './provider-fault.ts';
import { type Draft, type ReplyDraft, type ReplyProtocol, stopIn } from './reply-draft.ts';
import { readOpenAiUsage } from './usage.ts';

const textOf = (content: readonly Block[]): string =>
  content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n\n');

/** The API has no mark for a failed call, so its text starts with `error: `. */
export const resultText = (content: Json, isError: boolean): string =>
  isError && typeof content === 'string' ? `error: ${content}` : plainText(content);

function writeAssistant(content: readonly Block[]): JsonObject[] {
  const text = textOf(content);
  const tool_calls = content.flatMap((block): JsonObject[] => {
    if (block.type !== 'tool_call') return [];
    const { id, name } = block;
    const called = { name, arguments: JSON.stringify(block.arguments) };
    return [{ id, type: 'function', function: called }];
  });
  if (text === '' && tool_calls.length === 0) return [];
  return [
    {
      role: 'assistant',
      content: text === '' ? null : text,
      ...(tool_calls.length > 0 && { tool_calls }),
    },
  ];
}

function writeFile({ mime, sha256, name = 'file.pdf' }: FileBlock): JsonObject {
  const url = `data:${mime};base64,${fileMark(sha256)}`;
  return mime.startsWith('image/')
    ? { type: 'image_url', image_url: { url } }
    : { type: 'file', file: { filename: name, file_data: url } };
}

/** Writes the user's texts and files, and the files of results, because a result has only text. */
function writeParts(content: readonly Block[]): JsonObject[] {
  return content.flatMap((block): JsonObject[] => {
    if (block.type === 'file') return [writeFile(block)];
    if (block.type === 'text') return block.text === '' ? [] : [{ type: 'text', text: block.text }];
    if (block.type !== 'tool_result' || !block.files) return [];
    return [{ type: 'text', text: `files of call ${block.id}:` }, ...writeParts(block.files)];
  });
}

const hasFiles = (block: Block): boolean =>
  block.type === 'file' || (block.type === 'tool_result' && block.files !== undefined);

/** Writes each result as its own message, before the text of the user. Thoughts are left out. */
export function writeOpenAiMessage({ role, content }: Message): readonly JsonObject[] {
  if (role === 'assistant') return writeAssistant(content);
  const results = content.flatMap((block): JsonObject[] => {
    if (block.type !== 'tool_result') return [];
    const text = resultText(block.content, block.is_error === true);
    return [{ role: 'tool', tool_call_id: block.id, content: text }];
  });
  if (content.some(hasFiles)) return [...results, { role: 'user', content: writeParts(content) }];
  const text = textOf(content);
  return text === '' ? results : [...results, { role: 'user', content: text }];
}

export function writeOpenAiTool({ name, description, input_schema }: ToolDefinition): JsonObject {
  const parameters: Json = isObject(input_schema) ? input_schema : { type: 'object' };
  return { type: 'function', function: { name, description, parameters } };
}

export function openAiParameters(
  request: ProviderRequest,
  messages: JsonObject[],
  tools: JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature } = request;
  const cap = request.max_tokens_parameter ?? 'max_completion_tokens';
  return {
    model,
    [cap]: max_tokens,
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
    messages: system === '' ? messages : [{ role: 'system', content: system }, ...messages],
    ...(tools.length > 0 && { tools }),
    ...(temperature !== undefined && { temperature }),
  };
}

const STOPS: Readonly<Record<string, Stop>> = {
  stop: 'end',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
};

/** Returns the text of a string, or of a list of parts, which some servers send. */
function contentText(content: Json | undefined): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map((part) => textAt(part, 'text')).join('') : '';
}

/** Appends to the first text or thought of a reply, which it creates if there is none. */
function addText(reply: ReplyDraft, kind: 'text' | 'thinking', piece: string): void {
  if (piece === '') return;
  const draft = reply.blocks.find((block) => block.kind === kind) ?? reply.begin(kind);
  if (draft) reply.append(draft, 'text', piece);
}

/** A delta with a name and another id starts another call, even if the server sends every index as 0. */
const isAnother = (draft: Draft, id: string, name: string): boolean =>
  name !== '' && id !== '' && draft.id !== '' && draft.id !== id;

function callFor(reply: ReplyDraft, index: Json | undefined, id: string, name: string) {
  const { open, blocks } = reply;
  const present = typeof index === 'number' ? open.get(index) : reply.latest;
  if (present && !isAnother(present, id, name)) {
    if (present.name === '') present.name = name.slice(0, 512);
    if (present.id === '') present.id = id.slice(0, 512);
    return present;
  }
  const draft = reply.begin('tool_call', id, name);
  if (!draft) return undefined;
  open.set(typeof index === 'number' ? index : open.size, draft);
  // Text before the calls is complete.
  for (const block of blocks) if (block.kind !== 'tool_call') block.isClosed = true;
  return draft;
}

function addCall(reply: ReplyDraft, delta: JsonObject, index: Json | undefined): Draft | undefined {
  const fields = getOwn(delta, 'function');
  const call = callFor(reply, index, textAt(delta, 'id'), textAt(fields, 'name'));
  if (!call) return undefined;
  reply.latest = call;
  const value = getOwn(fields, 'arguments');
  // Some servers send the arguments as a JSON object.
  if (isObject(value)) call.given = value;
  else if (typeof value === 'string') reply.append(call, 'text', value);
  return call;
}

/** Adds the fields that a delta and a whole message share. Servers have two names for thoughts. */
function addWords(reply: ReplyDraft, delta: Json | undefined): void {
  const refusal = textAt(delta, 'refusal');
  if (refusal !== '') reply.isRefused = true;
  addText(reply, 'thinking', textAt(delta, 'reasoning_content') || textAt(delta, 'reasoning'));
  addText(reply, 'text', contentText(getOwn(delta, 'content')) + refusal);
}

export const openAiReply: ReplyProtocol = {
  takeText(reply, data) {
    if (data.trim() !== '[DONE]') return false;
    reply.isDone = true;
    return true;
  },
  take(reply, event, name) {
    const error = getOwn(event, 'error');
    if ((error !== undefined && error !== null) || name === 'error') {
      reply.fault = errorFault(error ?? event);
      return;
    }
    reply.model ||= textAt(event, 'model').slice(0, 200);
    const usage = getOwn(event, 'usage');
    if (isObject(usage)) reply.reported = readOpenAiUsage(usage);
    const [choice] = listAt(event, 'choices');
    if (choice === undefined || (getOwn(choice, 'index') ?? 0) !== 0) return;
    const delta = getOwn(choice, 'delta');
    addWords(reply, delta);
    for (const call of listAt(delta, 'tool_calls')) {
      if (isObject(call)) addCall(reply, call, getOwn(call, 'index'));
    }
    reply.stop = stopIn(STOPS, getOwn(choice, 'finish_reason')) ?? reply.stop;
  },
  finish(reply) {
    for (const block of reply.blocks) if (block.kind === 'tool_call') block.isClosed = true;
    // Counts before the end of the answer are preliminary.
    reply.isFinal = reply.reported.output_tokens !== undefined && reply.stop !== undefined;
    if (reply.isRefused) reply.stop = 'refusal';
  },
  takeBody(reply, body) {
    const [choice] = listAt(body, 'choices');
    const message = getOwn(choice, 'message');
    if (!isObject(message)) return '`choices[0].message`';
    addWords(reply, message);
    for (const [index, call] of listAt(message, 'tool_calls').entries()) {
      const added = addCall(reply, isObject(call) ? call : {}, index);
      if (added) added.isClosed = true;
    }
    reply.stop = reply.isRefused ? 'refusal' : stopIn(STOPS, getOwn(choice, 'finish_reason'));
    reply.reported = readOpenAiUsage(getOwn(body, 'usage'));
    return undefined;
  },
};
