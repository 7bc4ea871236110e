// The Anthropic Messages API, as far as our parameters go into its body.
import {
  freezeJson,
  growJson,
  isObject,
  type Json,
  type JsonObject,
  plainText,
} from '../base/index.ts';
import type { Block, Message } from './message.ts';
import type { ModelRequest, ToolDefinition } from './request.ts';
import type { MessageList } from './written-messages.ts';

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
function markMessages({ settled, last }: MessageList): Json[] {
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
  request: ModelRequest,
  messages: MessageList,
  tools: readonly JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature, cache = true } = request;
  return {
    model,
    max_tokens,
    stream,
    messages: cache ? markMessages(messages) : growJson(messages.settled, messages.last),
    ...(system !== '' && {
      system_prompt: cache ? [markBlock({ type: 'text', text: system })] : system,
    }),
    ...(tools.length > 0 && { tools: cache ? markLast(tools) : [...tools] }),
    ...(temperature !== undefined && { temperature }),
  };
}
