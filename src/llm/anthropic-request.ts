// The Anthropic Messages API, as far as our parameters go into its body.
import { isObject, type Json, type JsonObject, plainText } from '../base/index.ts';
import type { Block, Message } from './message.ts';
import type { ModelRequest } from './request.ts';

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

function markLast(blocks: readonly JsonObject[]): JsonObject[] {
  const last = blocks.at(-1);
  return last === undefined ? [] : [...blocks.slice(0, -1), { ...last, ...MARK }];
}

const markMessage = (message: JsonObject): JsonObject => ({
  ...message,
  content: markLast(message.content as JsonObject[]),
});

/**
 * Of at most four marks, two are on system text and tools, which never change, and two on the last
 * two messages of the user: one that this request writes, one that the request before it wrote.
 */
function markMessages(messages: readonly JsonObject[]): JsonObject[] {
  const marked = [...messages];
  let left = 2;
  for (let at = marked.length - 1; at >= 0 && left > 0; at--) {
    const message = marked[at] as JsonObject;
    if (message.role !== 'user') continue;
    marked[at] = markMessage(message);
    left--;
  }
  return marked;
}

export function anthropicParameters(
  request: ModelRequest,
  messages: readonly JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature, cache = true } = request;
  const tools = request.tools.map(({ name, description, input_schema }): JsonObject => {
    const schema: Json = isObject(input_schema) ? input_schema : { type: 'object' };
    return { name, description, input_schema: schema };
  });
  return {
    model,
    max_tokens,
    stream,
    messages: cache ? markMessages(messages) : [...messages],
    ...(system !== '' && {
      system_prompt: cache ? markLast([{ type: 'text', text: system }]) : system,
    }),
    ...(tools.length > 0 && { tools: cache ? markLast(tools) : tools }),
    ...(temperature !== undefined && { temperature }),
  };
}
