// The Anthropic Messages API, as far as our parameters go into its body.
import {
  type Failure,
  fail,
  freezeJson,
  getOwn,
  growJson,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseText,
  plainText,
  textAt,
} from '../base/index.ts';
import type {
  Block,
  Message,
  MessageList,
  ProviderRequest,
  Stop,
  StreamState,
  ToolDefinition,
} from './message.ts';
import { errorFault } from './provider-fault.ts';
import { createDrafts, type Draft, type DraftKind, type Drafts } from './reply-draft.ts';
import { mergeReports, type Reported, readAnthropicUsage } from './usage.ts';

/** Undefined for what the API would refuse: empty text, thoughts without their signature. */
function writeBlock(block: Block): JsonObject | undefined {
  switch (block.type) {
    case 'text':
      return block.text.trim() === '' ? undefined : { type: 'text', text: block.text };
    case 'thinking':
      if (block.redacted !== undefined) return { type: 'redacted_thinking', data: block.redacted };
      if (block.signature === undefined) return undefined;
      return { type: 'thinking', thinking: block.text, signature: block.signature };
    case 'tool_call':
      return { type: 'tool_use', id: block.id, name: block.name, input: block.arguments };
    case 'tool_result':
      return {
        type: 'tool_result',
        tool_use_id: block.id,
        content: plainText(block.content),
        ...(block.is_error === true && { is_error: true }),
      };
  }
}

/** Results come first: the API wants them right behind the calls they answer. */
export function writeAnthropicMessage({ role, content }: Message): readonly JsonObject[] {
  const results = content.filter(({ type }) => type === 'tool_result');
  const others = content.filter(({ type }) => type !== 'tool_result');
  const blocks = [...results, ...others].flatMap((block) => writeBlock(block) ?? []);
  return blocks.length === 0 ? [] : [{ role, content: blocks }];
}

const MARK: JsonObject = { cache_control: { type: 'ephemeral' } };

/** What is marked is marked in more than one request, and is the same text every time. */
const marked = new WeakMap<JsonObject, JsonObject>();

function markOnce(thing: JsonObject, mark: (thing: JsonObject) => JsonObject): JsonObject {
  const before = marked.get(thing);
  if (before) return before;
  const made = freezeJson(mark(thing));
  marked.set(thing, made);
  return made;
}

const markBlock = (block: JsonObject): JsonObject => ({ ...block, ...MARK });

function markLast(blocks: readonly JsonObject[]): JsonObject[] {
  const last = blocks.at(-1);
  return last === undefined ? [] : [...blocks.slice(0, -1), markOnce(last, markBlock)];
}

const markMessage = (message: JsonObject): JsonObject => ({
  ...message,
  content: markLast(message.content as JsonObject[]),
});

/** Marks the last messages of the user; answers how many marks are left. */
function markUsers(messages: JsonObject[], marks: number): number {
  let left = marks;
  for (let at = messages.length - 1; at >= 0 && left > 0; at--) {
    const message = messages[at] as JsonObject;
    if (message.role !== 'user') continue;
    messages[at] = markOnce(message, markMessage);
    left--;
  }
  return left;
}

/**
 * Of at most four marks, two are on system text and tools, which never change, and two on the last
 * two messages of the user: one that this request writes, one that the request before it wrote.
 */
export function anthropicMessages({ settled, last }: MessageList, cache: boolean): Json[] {
  if (!cache) return growJson(settled, last);
  const list = [...last];
  if (markUsers(list, 2) === 0) return growJson(settled, list);
  const all = [...(settled as JsonObject[]), ...last];
  markUsers(all, 2);
  return all;
}

export function writeAnthropicTool(tool: ToolDefinition): JsonObject {
  const { name, description, input_schema } = tool;
  const schema: Json = isObject(input_schema) ? input_schema : { type: 'object' };
  return { name, description, input_schema: schema };
}

export function anthropicParameters(
  request: ProviderRequest,
  messages: Json[],
  tools: readonly JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature, cache = true } = request;
  return {
    model,
    max_tokens,
    stream,
    messages,
    ...(system !== '' && {
      system_prompt: cache ? [markBlock({ type: 'text', text: system })] : system,
    }),
    ...(tools.length > 0 && { tools: cache ? markLast(tools) : [...tools] }),
    ...(temperature !== undefined && { temperature }),
  };
}

// The event stream of the Anthropic Messages API. Blocks are begun, filled by deltas and stopped, one
// after another; counts come at the beginning and, cumulative, before the end.

const STOPS: Readonly<Record<string, Stop>> = {
  end_turn: 'end',
  pause_turn: 'end',
  tool_use: 'tool_use',
  max_tokens: 'max_tokens',
  model_context_window_exceeded: 'max_tokens',
  refusal: 'refusal',
  stop_sequence: 'stop_sequence',
};

export const anthropicStop = (reason: Json | undefined): Stop | undefined => {
  if (typeof reason !== 'string') return undefined;
  return Object.hasOwn(STOPS, reason) ? STOPS[reason] : 'end';
};

const KINDS: Readonly<Record<string, DraftKind>> = {
  text: 'text',
  thinking: 'thinking',
  redacted_thinking: 'thinking',
  tool_use: 'tool_call',
};

/** Which field of which kind of block a delta adds to. Other deltas carry nothing we keep. */
const DELTAS: Readonly<
  Record<string, { kind: DraftKind; from: string; to: 'text' | 'signature' } | undefined>
> = {
  text_delta: { kind: 'text', from: 'text', to: 'text' },
  input_json_delta: { kind: 'tool_call', from: 'partial_json', to: 'text' },
  thinking_delta: { kind: 'thinking', from: 'thinking', to: 'text' },
  signature_delta: { kind: 'thinking', from: 'signature', to: 'signature' },
};

/** A delta as it is usually written, around its piece of text. */
const beforePiece = (index: number, type: string, field: string): string =>
  `{"type":"content_block_delta","index":${index},"delta":{"type":"${type}","${field}":"`;
const AFTER_PIECE = '"}}';

/** What the last delta added to, and how one more like it begins. */
interface Usual {
  draft: Draft;
  to: 'text' | 'signature';
  before: string;
}

const disorder = (what: string): Failure =>
  fail('stream_incomplete', `the stream is out of order: ${what}`, { reason: 'garbage' });

/** The blocks of one answer: begun, filled and closed by their index. */
function createBlocks(drafts: Drafts, onText: (piece: string) => void) {
  const open = new Map<number, Draft>();
  let usual: Usual | undefined;

  function append(draft: Draft, to: 'text' | 'signature' | 'redacted', piece: string) {
    if (piece === '') return ok(null);
    const added = drafts.append(draft, to, piece);
    if (added.ok && draft.kind === 'text') onText(piece);
    return added;
  }

  function begin(event: JsonObject): Outcome<null> {
    const block = getOwn(event, 'content_block');
    const index = getOwn(event, 'index');
    if (typeof index !== 'number' || !isObject(block)) return disorder('a block without its index');
    const type = textAt(block, 'type');
    const kind = (Object.hasOwn(KINDS, type) && KINDS[type]) || 'other';
    const input = getOwn(block, 'input');
    const given = isObject(input) && Object.keys(input).length > 0 ? input : undefined;
    const begun = drafts.begin(kind, {
      id: textAt(block, 'id'),
      name: textAt(block, 'name'),
      ...(given && { given }),
    });
    if (!begun.ok) return begun;
    open.set(index, begun.output);
    usual = undefined;
    const redacted = append(begun.output, 'redacted', textAt(block, 'data'));
    if (!redacted.ok) return redacted;
    const signed = append(begun.output, 'signature', textAt(block, 'signature'));
    if (!signed.ok) return signed;
    return append(begun.output, 'text', textAt(block, kind === 'thinking' ? 'thinking' : 'text'));
  }

  function extend(event: JsonObject): Outcome<null> {
    const index = getOwn(event, 'index');
    const draft = typeof index === 'number' ? open.get(index) : undefined;
    if (typeof index !== 'number' || !draft)
      return disorder('a delta for a block that is not open');
    const delta = getOwn(event, 'delta');
    const type = textAt(delta, 'type');
    const rule = Object.hasOwn(DELTAS, type) ? DELTAS[type] : undefined;
    if (!rule || draft.kind === 'other') return ok(null);
    if (rule.kind !== draft.kind) return disorder(`a \`${type}\` for a ${draft.kind} block`);
    const before = beforePiece(index, type, rule.from);
    usual = { draft, to: rule.to, before };
    return append(draft, rule.to, textAt(delta, rule.from));
  }

  // What stands between the known beginning and end is one JSON string or this is another event:
  // then the whole is the object that those say, and nothing else can be in it.
  function takeAlike(data: string): Outcome<null> | undefined {
    if (usual === undefined || !data.startsWith(usual.before)) return undefined;
    const [from, to] = [usual.before.length - 1, data.length - AFTER_PIECE.length + 1];
    if (to <= from + 1 || !data.endsWith(AFTER_PIECE)) return undefined;
    const piece = parseText(data.slice(from, to));
    return piece === undefined ? undefined : append(usual.draft, usual.to, piece);
  }

  function close(event: JsonObject): Outcome<null> {
    usual = undefined;
    const index = getOwn(event, 'index');
    const draft = typeof index === 'number' ? open.get(index) : undefined;
    if (typeof index !== 'number' || !draft) {
      return disorder('the end of a block that is not open');
    }
    draft.isClosed = true;
    open.delete(index);
    return ok(null);
  }

  return { begin, extend, takeAlike, close };
}

export function createAnthropicStream(
  onText: (piece: string) => void,
  maxCharacters?: number,
): StreamState {
  const drafts = createDrafts(maxCharacters);
  const blocks = createBlocks(drafts, onText);
  let reported: Reported = {};
  let isFinal = false;
  let isStarted = false;
  let isDone = false;
  let stop: Stop | undefined;
  let model = '';

  function start(event: JsonObject): Outcome<null> {
    if (isStarted) return disorder('a second message');
    isStarted = true;
    const message = getOwn(event, 'message');
    model = textAt(message, 'model').slice(0, 200);
    reported = mergeReports(reported, readAnthropicUsage(getOwn(message, 'usage')));
    return ok(null);
  }

  function update(event: JsonObject): Outcome<null> {
    stop = anthropicStop(getOwn(getOwn(event, 'delta'), 'stop_reason')) ?? stop;
    const counts = readAnthropicUsage(getOwn(event, 'usage'));
    if (counts.output_tokens !== undefined) isFinal = true;
    reported = mergeReports(reported, counts);
    return ok(null);
  }

  const take: Readonly<Record<string, (event: JsonObject) => Outcome<null>>> = {
    message_start: start,
    content_block_start: blocks.begin,
    content_block_delta: blocks.extend,
    content_block_stop: blocks.close,
    message_delta: update,
    message_stop() {
      isDone = true;
      return ok(null);
    },
    error: (event) => errorFault(getOwn(event, 'error')),
  };

  return {
    drafts,
    takeAlike: blocks.takeAlike,
    take(event, name) {
      const type = textAt(event, 'type') || (name ?? '');
      // `ping`, and whatever is invented later.
      return Object.hasOwn(take, type) ? (take[type]?.(event) ?? ok(null)) : ok(null);
    },
    isDone: () => isDone,
    isEndText: () => false,
    end: () => ({ stop, model, reported, isFinal }),
  };
}
