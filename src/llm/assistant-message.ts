// What goes into the conversation for a reply. Calls that could not be read are part of it, so that
// their error results have something to answer; they are never run, and are not in `content`.
import type { Message, ModelReply } from './message.ts';

/** Longest unreadable text that is shown back to the model. */
const SHOWN = 2000;

export function assistantMessage({ content, bad_arguments = [] }: ModelReply): Message {
  const unreadable = bad_arguments.map(({ id, name, text }) => ({
    type: 'tool_call' as const,
    id,
    name,
    arguments: { unreadable_arguments: text.slice(0, SHOWN) },
  }));
  return { role: 'assistant', content: [...content, ...unreadable] };
}
