// Renders old turns for the model that summarises them, and judges its reply. Each block is one line of JSON between two
// lines with a random mark, so that no result can pretend to be a message.
import { type JsonObject, plainText, shorten } from '../../base/index.ts';
import type { Recorded } from '../../journal/index.ts';
import type { Block, Message, ModelReply } from '../../llm/index.ts';
import { replyAt } from '../thread/recorded-answers.ts';
import type { Request } from '../thread/room.ts';

const [MAX_ARGUMENTS, MAX_RESULT] = [1000, 2000];

function renderedBlock(role: Message['role'], block: Block): JsonObject | undefined {
  switch (block.type) {
    case 'text':
      return { role, text: block.text };
    case 'tool_call': {
      const text = shorten(JSON.stringify(block.arguments), MAX_ARGUMENTS);
      return { role, call: block.name, arguments: text };
    }
    case 'tool_result': {
      const result = shorten(plainText(block.content), MAX_RESULT);
      return { role: 'tool', ...(block.is_error && { failed: true }), result };
    }
    case 'file':
      return { role, file: block.name ?? block.mime };
    case 'thinking':
      return undefined;
  }
}

/** Returns the messages as lines of JSON with at most `room` characters. The oldest lines are left out. */
export function renderedTurns(messages: readonly Message[], room: number): string {
  const lines = messages.flatMap(({ role, content }) =>
    content.flatMap((block) => JSON.stringify(renderedBlock(role, block)) ?? []),
  );
  let [size, first] = [lines.reduce((sum, { length }) => sum + length + 1, 0), 0];
  for (; size > room; first++) size -= (lines[first]?.length ?? size) + 1;
  const omission = first > 0 ? ['[the oldest messages are left out]'] : [];
  return [...omission, ...lines.slice(first)].join('\n');
}

/**
 * Returns the prompt. `before`: the summary of the turns before these. Every text is one line of JSON, because a summary
 * and a request can repeat what strangers wrote.
 */
export function summaryPrompt(
  mark: string,
  turns: string,
  before: string | undefined,
  request: Request | undefined,
): string {
  const line = (field: string, text: string | undefined): string[] =>
    text === undefined ? [] : [JSON.stringify({ [field]: text })];
  return [
    'The turns to summarise:',
    mark,
    ...line('summary_of_earlier_turns', before),
    turns,
    mark,
    ...line('keep_above_all', request?.focus?.text),
  ].join('\n');
}

/** A summary, or the reason why there is none. Absent both: no model was asked. */
export interface Summary {
  readonly text?: string;
  readonly rejected?: string;
  readonly spend?: string;
  readonly model?: string;
}

export function judgeSummary({ content, stop, broken, model }: ModelReply): Summary {
  const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  if (broken || stop !== 'end') {
    return { model, rejected: `the reply ended with ${broken?.reason ?? stop}` };
  }
  return text.trim() === ''
    ? { model, rejected: 'the reply is empty' }
    : { model, text: text.trim() };
}

/** Returns the summary that a lost process recorded and did not use. */
export function recordedSummary(events: readonly Recorded[], number: number): Summary | undefined {
  const at = events.findLastIndex(
    ({ type, data }) =>
      type === 'assistant_message' && 'compact' in data && data.compact === number,
  );
  const event = events[at];
  const reply = replyAt(events, at);
  if (event?.type !== 'assistant_message' || event.data.injected || !reply) return undefined;
  return event.data.withheld ? undefined : { ...judgeSummary(reply), spend: event.data.spend };
}
