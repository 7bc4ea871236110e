// What happened before, put back in place.
import { plainText } from '../base/index.ts';
import type { Block } from '../llm/index.ts';
import type { NewEvent } from '../store/index.ts';
import { unpackMarks } from './conversation.ts';
import type { ThreadContext } from './thread-context.ts';

/** Puts one event of the journal into the conversation. */
export function replayEvent(thread: ThreadContext, { type, data }: NewEvent): void {
  const { conversation } = thread;
  const marks = unpackMarks(data.marks);
  if (type === 'user_message' || type === 'injected_message')
    conversation.user(plainText(data.text), marks);
  else if (type === 'assistant_message') conversation.assistant(data.content as unknown as Block[]);
  else if (type === 'tool_result') {
    conversation.result(
      plainText(data.call_id),
      data.content ?? null,
      marks,
      data.is_error === true,
    );
  }
}
