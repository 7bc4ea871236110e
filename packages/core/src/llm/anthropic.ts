// Implements the Anthropic Messages API: the used parts of its request body, and its event stream.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  parseText,
  plainText,
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
import { errorFault } from './provider-fault.ts';
import {
  type Draft,
  type DraftField,
  type DraftKind,
  type ReplyDraft,
  type ReplyProtocol,
  stopIn,
} from './reply-draft.ts';
import { mergeReports, readAnthropicUsage } from './usage.ts';

const writeFile = ({ mime, sha256 }: FileBlock): JsonObject => ({
  type: mime.startsWith('image/') ? 'image' : 'document',
  source: { type: 'base64', media_type: mime, data: fileMark(sha256) },
});

function writeThought(block: Block & { type: 'thinking' }, data: string): JsonObject {
  return block.redacted
    ? { type: 'redacted_thinking', data }
    : { type: 'thinking', thinking: block.text, signature: data };
}

/** Returns undefined for a block that the API refuses: empty text, thoughts without the signature of this model. */
function writeBlock(block: Block, by?: string): JsonObject | undefined {
  switch (block.type) {
    case 'text':
      return block.text.trim() === '' ? undefined : { type: 'text', text: block.text };
    case 'thinking': {
      const seal = sealFor(block, by);
      return seal === undefined ? undefined : writeThought(block, seal);
    }
    case 'tool_call':
      return { type: 'tool_use', id: block.id, name: block.name, input: block.arguments };
    case 'tool_result':
      return {
        type: 'tool_result',
        tool_use_id: block.id,
        content: block.files
          ? [
              { type: 'text', text: plainText(block.content) },
              ...block.files.flatMap((file) => writeBlock(file) ?? []),
            ]
          : plainText(block.content),
        ...(block.is_error === true && { is_error: true }),
      };
    case 'file':
      return writeFile(block);
  }
}

/** Puts results first, because the API requires them directly after their calls. */
export function writeAnthropicMessage(
  { role, content }: Message,
  { sealedBy: by }: Receiver,
): readonly JsonObject[] {
  const [results, others]: [JsonObject[], JsonObject[]] = [[], []];
  for (const block of content) {
    const written = writeBlock(block, by);
    if (written) (block.type === 'tool_result' ? results : others).push(written);
  }
  const blocks = [...results, ...others];
  return blocks.length === 0 ? [] : [{ role, content: blocks }];
}

const MARK: JsonObject = { cache_control: { type: 'ephemeral' } };

function markLast(blocks: readonly JsonObject[]): JsonObject[] {
  const last = blocks.at(-1);
  return last ? [...blocks.slice(0, -1), { ...last, ...MARK }] : [];
}

/**
 * Sets cache marks on the last two user messages. This request writes the cache up to the last one, and the
 * previous request wrote it up to the other. The system text and the tools have the other two of four marks.
 */
export function markUsers(messages: readonly JsonObject[]): JsonObject[] {
  const marked = [...messages];
  for (let [at, rest] = [marked.length - 1, 2]; at >= 0 && rest > 0; at--) {
    const message = marked[at];
    if (message?.role !== 'user') continue;
    marked[at] = { ...message, content: markLast(message.content as JsonObject[]) };
    rest--;
  }
  return marked;
}

export function writeAnthropicTool(tool: ToolDefinition): JsonObject {
  const { name, description, input_schema } = tool;
  const schema: Json = isObject(input_schema) ? input_schema : { type: 'object' };
  return { name, description, input_schema: schema };
}

export function anthropicParameters(
  request: ProviderRequest,
  messages: JsonObject[],
  tools: JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature, cache = true } = request;
  return {
    model,
    max_tokens,
    stream,
    messages: cache ? markUsers(messages) : messages,
    ...(system !== '' && {
      system_prompt: cache ? markLast([{ type: 'text', text: system }]) : system,
    }),
    ...(tools.length > 0 && { tools: cache ? markLast(tools) : tools }),
    ...(temperature !== undefined && { temperature }),
  };
}

const STOPS: Readonly<Record<string, Stop>> = {
  end_turn: 'end',
  pause_turn: 'end',
  tool_use: 'tool_use',
  max_tokens: 'max_tokens',
  model_context_window_exceeded: 'max_tokens',
  refusal: 'refusal',
  stop_sequence: 'stop_sequence',
};

const KINDS: Readonly<Record<string, DraftKind>> = {
  text: 'text',
  thinking: 'thinking',
  redacted_thinking: 'thinking',
  tool_use: 'tool_call',
};

/** Block kind and field that each type of delta appends to. A delta of any other type is ignored. */
const DELTAS: Readonly<
  Record<string, { kind: DraftKind; from: string; to: DraftField } | undefined>
> = {
  text_delta: { kind: 'text', from: 'text', to: 'text' },
  input_json_delta: { kind: 'tool_call', from: 'partial_json', to: 'text' },
  thinking_delta: { kind: 'thinking', from: 'thinking', to: 'text' },
  signature_delta: { kind: 'thinking', from: 'signature', to: 'seal' },
};

/** JSON that follows the text in a delta without further fields. */
const AFTER_PIECE = '"}}';

function disorder(reply: ReplyDraft, what: string): undefined {
  const message = `the stream is out of order: ${what}`;
  reply.fault ??= fail('stream_incomplete', message, { reason: 'garbage' });
}

function addBlock(reply: ReplyDraft, block: JsonObject): Draft | undefined {
  const type = textAt(block, 'type');
  const kind = (Object.hasOwn(KINDS, type) && KINDS[type]) || 'other';
  const draft = reply.begin(kind, textAt(block, 'id'), textAt(block, 'name'));
  if (!draft) return undefined;
  draft.isRedacted = type === 'redacted_thinking';
  reply.append(draft, 'seal', textAt(block, draft.isRedacted ? 'data' : 'signature'));
  reply.append(draft, 'text', textAt(block, kind === 'thinking' ? 'thinking' : 'text'));
  return draft;
}

/** Returns the open block of an event. Without one it sets the fault of the reply and returns undefined. */
function openBlock(reply: ReplyDraft, { index }: JsonObject, what: string): Draft | undefined {
  const draft = typeof index === 'number' ? reply.open.get(index) : undefined;
  return draft ?? disorder(reply, `${what} a block that is not open`);
}

const EVENTS: Readonly<Record<string, (reply: ReplyDraft, event: JsonObject) => void>> = {
  message_start(reply, event) {
    if (reply.isStarted) return disorder(reply, 'a second message');
    reply.isStarted = true;
    const message = getOwn(event, 'message');
    reply.model = textAt(message, 'model').slice(0, 200);
    reply.reported = readAnthropicUsage(getOwn(message, 'usage'));
  },
  content_block_start(reply, { index, content_block: block }) {
    if (typeof index !== 'number' || !isObject(block)) {
      return disorder(reply, 'a block without its index');
    }
    const draft = addBlock(reply, block);
    if (!draft) return;
    const input = getOwn(block, 'input');
    if (isObject(input) && Object.keys(input).length > 0) draft.given = input;
    reply.open.set(index, draft);
  },
  content_block_delta(reply, event) {
    const draft = openBlock(reply, event, 'a delta for');
    if (!draft) return;
    const delta = getOwn(event, 'delta');
    const type = textAt(delta, 'type');
    const rule = Object.hasOwn(DELTAS, type) ? DELTAS[type] : undefined;
    if (!rule || draft.kind === 'other') return;
    const { kind, from, to } = rule;
    if (kind !== draft.kind) return disorder(reply, `a \`${type}\` for a ${draft.kind} block`);
    const before = `{"type":"content_block_delta","index":${JSON.stringify(event.index)},"delta":{"type":"${type}","${from}":"`;
    reply.usual = { draft, to, before };
    reply.append(draft, to, textAt(delta, from));
  },
  content_block_stop(reply, event) {
    const draft = openBlock(reply, event, 'the end of');
    if (!draft) return;
    draft.isClosed = true;
    reply.open.delete(event.index as number);
  },
  message_delta(reply, event) {
    reply.stop = stopIn(STOPS, getOwn(getOwn(event, 'delta'), 'stop_reason')) ?? reply.stop;
    const counts = readAnthropicUsage(getOwn(event, 'usage'));
    if (counts.output_tokens !== undefined) reply.isFinal = true;
    reply.reported = mergeReports(reply.reported, counts);
  },
  message_stop(reply) {
    reply.isDone = true;
  },
  error(reply, event) {
    reply.fault ??= errorFault(getOwn(event, 'error'));
  },
};

export const anthropicReply: ReplyProtocol = {
  // A fast path for a delta that differs from the previous one only in its text. If the part between the
  // same beginning and end is one JSON string, the event is the previous object with that string. Any
  // other event is parsed.
  takeText(reply, data) {
    const { usual } = reply;
    if (usual === undefined) return false;
    const { before } = usual;
    // `startsWith` compares character by character; `===` on two texts is faster.
    if (data.slice(0, before.length) !== before) return false;
    const [from, to] = [before.length - 1, data.length - AFTER_PIECE.length + 1];
    if (to <= from + 1 || !data.endsWith(AFTER_PIECE)) return false;
    const piece = parseText(data.slice(from, to));
    if (piece !== undefined) reply.append(usual.draft, usual.to, piece);
    return piece !== undefined;
  },
  take(reply, event, name = '') {
    const type = textAt(event, 'type') || name;
    reply.usual = undefined;
    // An event of any other type, such as `ping`, is ignored.
    if (Object.hasOwn(EVENTS, type)) EVENTS[type]?.(reply, event);
  },
  takeBody(reply, body) {
    const { content } = body;
    if (!Array.isArray(content)) return '`content`';
    for (const block of content) {
      const draft = isObject(block) ? addBlock(reply, block) : undefined;
      if (!draft) continue;
      draft.isClosed = true;
      if (draft.kind !== 'tool_call') continue;
      const input = getOwn(block, 'input');
      if (isObject(input)) draft.given = input;
      else reply.append(draft, 'text', JSON.stringify(input ?? null));
    }
    reply.reported = readAnthropicUsage(getOwn(body, 'usage'));
    reply.stop = stopIn(STOPS, getOwn(body, 'stop_reason'));
    return undefined;
  },
};
