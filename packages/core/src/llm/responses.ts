// Implements the Responses API of OpenAI: the used parts of its request body, and its event stream. No request refers
// to state at the provider. A call is complete with `response.output_item.done`, whatever its deltas were.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  listAt,
  parseObject,
  textAt,
} from '../base/index.ts';
import { fileMark } from './file-marks.ts';
import {
  type Block,
  type FileBlock,
  type Message,
  type ProviderRequest,
  type Receiver,
  type Stop,
  sealFor,
  type ToolDefinition,
} from './message.ts';
import { resultText } from './openai.ts';
import { errorFault } from './provider-fault.ts';
import {
  type Draft,
  type DraftKind,
  type ReplyDraft,
  type ReplyProtocol,
  stopIn,
} from './reply-draft.ts';
import { readOpenAiUsage } from './usage.ts';

function writeFile({ mime, sha256, name = 'file.pdf' }: FileBlock): JsonObject {
  const url = `data:${mime};base64,${fileMark(sha256)}`;
  return mime.startsWith('image/')
    ? { type: 'input_image', image_url: url }
    : { type: 'input_file', filename: name, file_data: url };
}

/** Writes texts and files of the user, or of a result. */
const writeParts = (content: readonly Block[]): JsonObject[] =>
  content.flatMap((block): JsonObject[] => {
    if (block.type === 'file') return [writeFile(block)];
    const isText = block.type === 'text' && block.text !== '';
    return isText ? [{ type: 'input_text', text: block.text }] : [];
  });

function writeResult(block: Block & { type: 'tool_result' }): JsonObject {
  const text = resultText(block.content, block.is_error === true);
  const output = block.files ? [{ type: 'input_text', text }, ...writeParts(block.files)] : text;
  return { type: 'function_call_output', call_id: block.id, output };
}

/** Returns undefined for a block that is not sent: empty text, thoughts that this model did not seal. */
function writeItem(block: Block, to: Receiver): JsonObject | undefined {
  if (block.type === 'tool_call') {
    const { id, name } = block;
    return { type: 'function_call', call_id: id, name, arguments: JSON.stringify(block.arguments) };
  }
  if (block.type === 'text' && block.text !== '') {
    const content = [{ type: 'output_text', text: block.text }];
    return { type: 'message', role: 'assistant', content };
  }
  const seal = block.type === 'thinking' ? sealFor(block, to.sealedBy) : undefined;
  if (block.type !== 'thinking' || seal === undefined) return undefined;
  const summary = block.text === '' ? [] : [{ type: 'summary_text', text: block.text }];
  return { type: 'reasoning', summary, encrypted_content: seal };
}

/** Writes each result as an item before the user's text. The API refuses a thought without an item after it. */
export function writeResponsesMessage(
  { role, content }: Message,
  to: Receiver,
): readonly JsonObject[] {
  if (role === 'assistant') {
    const items = content.flatMap((block): JsonObject[] => {
      const item = writeItem(block, to);
      return item ? [item] : [];
    });
    return items.slice(0, items.findLastIndex(({ type }) => type !== 'reasoning') + 1);
  }
  const results = content.filter((block) => block.type === 'tool_result').map(writeResult);
  const parts = writeParts(content);
  return parts.length === 0 ? results : [...results, { type: 'message', role, content: parts }];
}

export function writeResponsesTool({
  name,
  description,
  input_schema,
}: ToolDefinition): JsonObject {
  const parameters: Json = isObject(input_schema) ? input_schema : { type: 'object' };
  return { type: 'function', name, description, parameters, strict: false };
}

export function responsesParameters(
  request: ProviderRequest,
  messages: JsonObject[],
  tools: JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature, cache_key, reasoning } = request;
  return {
    model,
    max_output_tokens: max_tokens,
    stream,
    ...(system !== '' && { instructions: system }),
    messages,
    ...(tools.length > 0 && { tools, parallel_tool_calls: true }),
    ...(reasoning !== 'off' && { include: ['reasoning.encrypted_content'] }),
    ...(reasoning !== undefined && reasoning !== 'off' && { reasoning: { effort: reasoning } }),
    ...(cache_key !== undefined && { prompt_cache_key: cache_key }),
    ...(temperature !== undefined && { temperature }),
  };
}

const KINDS: Readonly<Record<string, DraftKind>> = {
  message: 'text',
  reasoning: 'thinking',
  function_call: 'tool_call',
};

/** Kind of item that each type of delta extends. */
const DELTAS: Readonly<Record<string, DraftKind>> = {
  'response.output_text.delta': 'text',
  'response.refusal.delta': 'text',
  'response.reasoning_summary_text.delta': 'thinking',
  'response.reasoning_text.delta': 'thinking',
  'response.function_call_arguments.delta': 'tool_call',
};

const STOPS: Readonly<Record<string, Stop>> = {
  max_output_tokens: 'max_tokens',
  content_filter: 'refusal',
};

function disorder(reply: ReplyDraft, what: string): undefined {
  const message = `the stream is out of order: ${what}`;
  reply.fault ??= fail('stream_incomplete', message, { reason: 'garbage' });
}

function headOf(item: Json | undefined): Pick<Draft, 'kind' | 'id' | 'name'> {
  const type = textAt(item, 'type');
  const kind = (Object.hasOwn(KINDS, type) && KINDS[type]) || 'other';
  return { kind, id: textAt(item, 'call_id'), name: textAt(item, 'name') };
}

function addItem(reply: ReplyDraft, item: Json | undefined): Draft | undefined {
  const { kind, id, name } = headOf(item);
  return reply.begin(kind, id, name);
}

const joined = (parts: readonly Json[], field: string): string =>
  parts.map((part) => textAt(part, field)).join('');

/** Completes a block with its item. The item is the authority about a call. Its deltas only show progress. */
function endItem(reply: ReplyDraft, draft: Draft, item: Json | undefined): void {
  const { kind, id, name } = headOf(item);
  if (kind !== draft.kind || id !== draft.id || name !== draft.name) {
    return disorder(reply, 'the end of another item');
  }
  const parts = listAt(item, 'content');
  if (parts.some((part) => textAt(part, 'type') === 'refusal')) reply.isRefused = true;
  const texts = draft.kind === 'thinking' ? [...listAt(item, 'summary'), ...parts] : parts;
  if (draft.kind === 'tool_call') {
    const text = textAt(item, 'arguments');
    if (draft.text !== text) {
      draft.text = '';
      reply.append(draft, 'text', text);
    }
  } else if (draft.text === '') {
    reply.append(draft, 'text', joined(texts, 'text') + joined(parts, 'refusal'));
  }
  if (draft.kind === 'thinking') reply.append(draft, 'seal', textAt(item, 'encrypted_content'));
  const status = textAt(item, 'status');
  const isWhole = status === '' && parseObject(draft.text) !== undefined;
  draft.isClosed = draft.kind !== 'tool_call' || status === 'completed' || isWhole;
}

/** Reads the last state of the response. `failed` is a fault. */
function endResponse(reply: ReplyDraft, response: Json | undefined, status: string): void {
  const reported = readOpenAiUsage(getOwn(response, 'usage'));
  if (reported.output_tokens !== undefined) [reply.reported, reply.isFinal] = [reported, true];
  reply.model = textAt(response, 'model').slice(0, 200) || reply.model;
  if (status === 'failed') {
    reply.fault ??= errorFault(getOwn(response, 'error') ?? undefined);
    return;
  }
  const reason = getOwn(getOwn(response, 'incomplete_details'), 'reason');
  reply.stop = stopIn(STOPS, status === 'incomplete' ? reason : '') ?? 'end';
  if (reply.isRefused) reply.stop = 'refusal';
  reply.isDone = true;
}

/** Returns the open block of an event. Without one it sets the fault of the reply and returns undefined. */
function openItem(reply: ReplyDraft, event: JsonObject, type: string): Draft | undefined {
  const { output_index: index } = event;
  const draft = typeof index === 'number' ? reply.open.get(index) : undefined;
  return draft ?? disorder(reply, `\`${type}\` for an item that is not open`);
}

function addDelta(reply: ReplyDraft, event: JsonObject, type: string): void {
  const draft = openItem(reply, event, type);
  if (!draft || draft.kind === 'other') return;
  if (draft.kind !== DELTAS[type]) return disorder(reply, `\`${type}\` for another kind of item`);
  if (type === 'response.refusal.delta') reply.isRefused = true;
  reply.append(draft, 'text', textAt(event, 'delta'));
}

const EVENTS: Readonly<
  Record<string, (reply: ReplyDraft, event: JsonObject, type: string) => void>
> = {
  'response.created'(reply, { response }) {
    reply.model = textAt(response, 'model').slice(0, 200);
  },
  'response.output_item.added'(reply, { output_index: index, item }) {
    if (typeof index !== 'number' || !isObject(item) || reply.open.has(index)) {
      return disorder(reply, 'an item without an index of its own');
    }
    const draft = addItem(reply, item);
    if (draft) reply.open.set(index, draft);
  },
  'response.output_item.done'(reply, event, type) {
    const draft = openItem(reply, event, type);
    if (!draft) return;
    endItem(reply, draft, event.item);
    reply.open.delete(event.output_index as number);
  },
  // A thought can have several summaries.
  'response.reasoning_summary_part.added'(reply, event, type) {
    const draft = openItem(reply, event, type);
    if (draft && draft.text !== '') reply.append(draft, 'text', '\n\n');
  },
  'response.refusal.done'(reply) {
    reply.isRefused = true;
  },
  'response.completed': (reply, { response }) => endResponse(reply, response, 'completed'),
  'response.incomplete': (reply, { response }) => endResponse(reply, response, 'incomplete'),
  'response.failed': (reply, { response }) => endResponse(reply, response, 'failed'),
  error(reply, { error, code = null, message = null }) {
    reply.fault ??= errorFault(isObject(error) ? error : { code, message });
  },
};

export const responsesReply: ReplyProtocol = {
  // Some servers send the end marker of Chat Completions besides their own.
  takeText: (_reply, data) => data.trim() === '[DONE]',
  take(reply, event, name = '') {
    const type = textAt(event, 'type') || name;
    if (Object.hasOwn(DELTAS, type)) addDelta(reply, event, type);
    // An event of any other type is ignored.
    else if (Object.hasOwn(EVENTS, type)) EVENTS[type]?.(reply, event, type);
  },
  finish(reply) {
    if (reply.isRefused) reply.stop = 'refusal';
  },
  takeBody(reply, body) {
    const { output } = body;
    if (!Array.isArray(output)) return '`output`';
    for (const item of output) {
      const draft = addItem(reply, item);
      if (draft) endItem(reply, draft, item);
    }
    endResponse(reply, body, textAt(body, 'status'));
    return undefined;
  },
};
