// The conversation of a live thread, and texts that are made from it.
import { type JsonObject, setOwn } from '../../base/index.ts';
import { type Descriptor, describe, type Value } from '../../flow/index.ts';
import { Conversation as MarkedConversation } from '../../journal/index.ts';
import { type Block, createWrittenMessages, type Message } from '../../llm/index.ts';

export { DIRECTIVE_CALL, packGiven, packMarks, unpackMarks } from '../../journal/index.ts';

/** A conversation whose requests repeat their beginnings. */
export class Conversation extends MarkedConversation {
  /** Messages as they were written for earlier requests. */
  readonly written = createWrittenMessages();
}

export const FROM_USER = describe({ taint: ['src:user'] });

/** An argument as far as a record tells of it. */
interface ToldArgument {
  readonly name: string;
  readonly value: Value;
  readonly origin?: { readonly kind: string };
}

const marked = new WeakMap<Descriptor, readonly string[]>();

/** Labels that say more than where it came from; the same marks stand on many values. */
function markedLabels(descriptor: Descriptor): readonly string[] {
  const known = marked.get(descriptor);
  if (known) return known;
  const labels = new Set([...descriptor.labels, ...descriptor.taint]);
  const found = [...labels].filter((label) => !/^(src|dir):/.test(label));
  marked.set(descriptor, found);
  return found;
}

/** What is to be noted of arguments, by name: most have nothing. */
export function aboutArguments(given: readonly ToldArgument[]): { about?: JsonObject } {
  let about: JsonObject | undefined;
  for (const { name, value, origin } of given) {
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
    case 'thinking':
      return '';
  }
}

/**
 * The conversation as text for a hook that reviews it, at most 24,000 characters from its end. It holds what
 * the model was shown, so it carries the marks of the conversation.
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
