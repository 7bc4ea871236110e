// OpenAI's Chat Completions, as far as our parameters go into its body.
import { growJson, isObject, type Json, type JsonObject, plainText } from '../base/index.ts';
import type { Block, Message } from './message.ts';
import type { ModelRequest, ToolDefinition } from './request.ts';
import type { MessageList } from './written-messages.ts';

const textOf = (content: readonly Block[]): string =>
  content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n\n');

/** The API has no mark for a failed call, so the text says it. */
const resultText = (content: Json, isError: boolean): string =>
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

/** Every result is a message of its own, before what the user says. Thoughts are not sent back. */
export function writeOpenAiMessage({ role, content }: Message): readonly JsonObject[] {
  if (role === 'assistant') return writeAssistant(content);
  const results = content.flatMap((block): JsonObject[] => {
    if (block.type !== 'tool_result') return [];
    const text = resultText(block.content, block.is_error === true);
    return [{ role: 'tool', tool_call_id: block.id, content: text }];
  });
  const text = textOf(content);
  return text === '' ? results : [...results, { role: 'user', content: text }];
}

export function writeOpenAiTool({ name, description, input_schema }: ToolDefinition): JsonObject {
  const parameters: Json = isObject(input_schema) ? input_schema : { type: 'object' };
  return { type: 'function', function: { name, description, parameters } };
}

export function openAiParameters(
  request: ModelRequest,
  { settled, last }: MessageList,
  tools: readonly JsonObject[],
): JsonObject {
  const { model, system, max_tokens, stream, temperature } = request;
  const messages = growJson(settled, last);
  const cap = request.max_tokens_parameter ?? 'max_completion_tokens';
  return {
    model,
    [cap]: max_tokens,
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
    messages: system === '' ? messages : growJson([{ role: 'system', content: system }], messages),
    ...(tools.length > 0 && { tools: [...tools] }),
    ...(temperature !== undefined && { temperature }),
  };
}
