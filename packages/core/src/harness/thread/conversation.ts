// Holds the conversation of a live thread, and creates texts from it.
import { type JsonObject, setOwn } from '../../base/index.ts';
import { type Descriptor, describe, type Value } from '../../flow/index.ts';
import { fileValue, Conversation as MarkedConversation } from '../../journal/index.ts';
import { type Block, createWrittenMessages, type Message } from '../../llm/index.ts';

export { DIRECTIVE_CALL, packGiven, packMarks, unpackMarks } from '../../journal/index.ts';

/** A conversation that caches its written messages, because each request repeats the earlier ones. */
export class Conversation extends MarkedConversation {
  /** Messages in the form in which earlier requests contained them. */
  readonly written = createWrittenMessages();
}

export const FROM_USER = describe({ taint: ['src:user'] });

/** The parts of an argument that events describe. */
interface DescribedArgument {
  readonly name: string;
  readonly value: Value;
  readonly origin?: { readonly kind: string };
}

const marked = new WeakMap<Descriptor, readonly string[]>();

/** Returns the labels except sources and directories. They are cached, because many values share their marks. */
function markedLabels(descriptor: Descriptor): readonly string[] {
  const cached = marked.get(descriptor);
  if (cached) return cached;
  const labels = new Set([...descriptor.labels, ...descriptor.taint]);
  const plain = [...labels].filter((label) => !/^(src|dir):/.test(label));
  marked.set(descriptor, plain);
  return plain;
}

/** Returns the labels and origins of arguments, by name. Most arguments have neither and are left out. */
export function aboutArguments(list: readonly DescribedArgument[]): { about?: JsonObject } {
  let about: JsonObject | undefined;
  for (const { name, value, origin } of list) {
    const labels = markedLabels(value.meta.descriptor);
    if (labels.length === 0 && !origin) continue;
    about ??= {};
    setOwn(about, name, { labels: [...labels], ...(origin && { origin: origin.kind }) });
  }
  return about ? { about } : {};
}

const [MAX_BLOCK_TEXT, MAX_CONVERSATION_TEXT] = [2000, 24_000];

function blockText(role: Message['role'], block: Block): string {
  switch (block.type) {
    case 'text':
      return `${role}: ${block.text}`;
    case 'tool_call':
      return `call ${block.name} ${JSON.stringify(block.arguments)}`;
    case 'tool_result':
      return `${block.is_error ? 'failed' : 'result'} ${JSON.stringify(block.content)}`;
    case 'file':
      return `file ${JSON.stringify(fileValue(block))}`;
    case 'thinking':
      return '';
  }
}

/**
 * Returns at most the last 24,000 characters of the conversation as text, for a hook that reviews it. The text
 * contains everything that the model has read, so it has the marks of the conversation.
 */
export function conversationText(messages: readonly Message[]): string {
  const lines: string[] = [];
  let rest = MAX_CONVERSATION_TEXT;
  for (const { role, content } of messages.toReversed()) {
    for (const block of content.toReversed()) {
      const text = blockText(role, block);
      if (text === '') continue;
      const line = text.length > MAX_BLOCK_TEXT ? `${text.slice(0, MAX_BLOCK_TEXT)} …` : text;
      rest -= line.length + 1;
      if (rest < 0) return ['[earlier messages are left out]', ...lines.toReversed()].join('\n');
      lines.push(line);
    }
  }
  return lines.toReversed().join('\n');
}
