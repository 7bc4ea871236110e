// What was said, with the marks of every part. A model that has read something may say it again in
// other words, so everything it says carries the merge of all it has read.
import { getOwn, type Json, plainText } from '../../base/index.ts';
import { type Descriptor, describe, EMPTY, mergeDescriptors } from '../../flow/index.ts';
import {
  type Block,
  createWrittenMessages,
  type Message,
  type ToolCallBlock,
  type WrittenMessages,
} from '../../llm/index.ts';
import type { Marks } from './journal-event.ts';

/** Put on everything a model writes, besides what it has read. */
const FROM_MODEL = describe({ taint: ['src:llm'] });

export interface Conversation {
  /** Messages as they were written for earlier requests. */
  readonly written: WrittenMessages;
  messages(): readonly Message[];
  /** The merge of everything the model was shown so far. */
  marks(): Descriptor;
  /** What the model's own words carry. */
  ownMarks(): Descriptor;
  /** Calls of the last reply that have no result yet, in order. */
  pending(): readonly ToolCallBlock[];
  /** While calls wait for their results it is held back: providers want those first. */
  user(text: string, marks: Descriptor): void;
  assistant(content: readonly Block[]): void;
  result(id: string, content: Json, marks: Descriptor, isError: boolean): void;
  /** Something was read that is no part of what is said: by a script. */
  learn(marks: Descriptor): void;
  /** Size of what the next request will send, for the estimate. */
  bytes(): number;
  /** A fresh start (a new attempt); what was read stays read. */
  clear(): void;
}

const sizeOf = (block: Block): number => JSON.stringify(block).length;

export function createConversation(): Conversation {
  let messages: Message[] = [];
  let marks: Descriptor = EMPTY;
  let open = new Map<string, ToolCallBlock>();
  let late: { text: string; marks: Descriptor }[] = [];
  let bytes = 0;

  /** Neighbours of one role are one message: providers want them to take turns. */
  function add(role: Message['role'], content: readonly Block[]): void {
    if (content.length === 0) return;
    for (const block of content) bytes += sizeOf(block);
    const last = messages.at(-1);
    if (last?.role !== role) messages.push({ role, content: [...content] });
    else messages[messages.length - 1] = { role, content: [...last.content, ...content] };
  }

  function say(text: string, own: Descriptor): void {
    marks = mergeDescriptors(marks, own);
    add('user', [{ type: 'text', text }]);
  }

  return {
    written: createWrittenMessages(),
    messages: () => messages,
    marks: () => marks,
    ownMarks: () => mergeDescriptors(marks, FROM_MODEL),
    pending: () => [...open.values()],
    user(text, own) {
      if (open.size > 0) late.push({ text, marks: own });
      else say(text, own);
    },
    assistant(content) {
      add('assistant', content);
      for (const block of content) if (block.type === 'tool_call') open.set(block.id, block);
    },
    result(id, content, own, isError) {
      marks = mergeDescriptors(marks, own);
      open.delete(id);
      add('user', [{ type: 'tool_result', id, content, ...(isError ? { is_error: true } : {}) }]);
      if (open.size > 0) return;
      for (const { text, marks: said } of late.splice(0)) say(text, said);
    },
    learn(own) {
      marks = mergeDescriptors(marks, own);
    },
    bytes: () => bytes,
    clear() {
      messages = [];
      open = new Map();
      late = [];
      bytes = 0;
    },
  };
}

/** A descriptor as it is kept in the journal, and back. */
export const packMarks = ({ labels, taint, sources }: Descriptor): Marks => ({
  labels: [...labels],
  taint: [...taint],
  sources: [...sources],
});

export function unpackMarks(packed: Json | undefined): Descriptor {
  const list = (name: string): string[] => {
    const found = getOwn(packed, name);
    return Array.isArray(found) ? found.map(plainText) : [];
  };
  return describe({ labels: list('labels'), taint: list('taint'), sources: list('sources') });
}
