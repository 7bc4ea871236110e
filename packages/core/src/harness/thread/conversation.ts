// What was said, with the marks of every part. A model that has read something may say it again in
// other words, so everything it says carries the merge of all it has read.
import { getOwn, type Json, type JsonObject, plainText, setOwn } from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  describe,
  EMPTY,
  type ModelReader,
  makeValue,
  mergeDescriptors,
  type ResultFacts,
  type Value,
} from '../../flow/index.ts';
import type { Marks } from '../../journal/index.ts';
import {
  type Block,
  createWrittenMessages,
  type Message,
  type ToolCallBlock,
} from '../../llm/index.ts';
import type { KeptResult, References } from './references.ts';

/** The call with which the harness shows a directive: no answer, and it tells of tools besides. */
export const DIRECTIVE_CALL = 'call_directive';

/** Put on everything a model writes, besides what it has read. */
const FROM_MODEL = describe({ taint: ['src:llm'] });

/** What a tool answered, of which no stranger had a hand in all, or in some fields. */
interface HeardResult {
  /** '' for another verb than a call of one. */
  readonly tool: string;
  readonly content: Json;
  readonly marks: Descriptor;
  readonly facts: ResultFacts | undefined;
}

interface Trusted {
  texts: string[];
  results: HeardResult[];
}

export class Conversation {
  /** Messages as they were written for earlier requests. */
  readonly written = createWrittenMessages();
  #messages: Message[] = [];
  #marks = EMPTY;
  /** Calls of the last reply that have no result yet, in order. */
  readonly #open = new Map<string, ToolCallBlock>();
  #late: { text: string; marks: Descriptor; isOwn: boolean }[] = [];
  #bytes = 0;
  #trusted: Trusted = { texts: [], results: [] };
  #stranger: string | undefined;
  /** Where strangers' text is kept from the model; absent: it is shown. */
  readonly #references: References | undefined;
  /** Of what came in and was not shown. */
  #apart = EMPTY;

  constructor(references?: References) {
    this.#references = references;
  }

  messages(): readonly Message[] {
    return this.#messages;
  }

  /** The merge of everything the model was shown so far. */
  marks(): Descriptor {
    return this.#marks;
  }

  ownMarks(): Descriptor {
    return mergeDescriptors(this.#marks, FROM_MODEL);
  }

  /** The same with all that has come in and was not shown: what others are told of the thread carries it. */
  allMarks(): Descriptor {
    return mergeDescriptors(this.ownMarks(), this.#apart);
  }

  /** Calls of the last reply that have no result yet, in order. */
  pending(): readonly ToolCallBlock[] {
    return [...this.#open.values()];
  }

  /**
   * While calls wait for their results it is held back: providers want those first. `isOwn`: a line of
   * the harness, which may quote anything.
   */
  user(text: string, marks: Descriptor, isOwn = false): void {
    if (this.#open.size > 0) this.#late.push({ text, marks, isOwn });
    else if (this.#references && carries(marks, 'untrusted')) {
      const shown = this.#references.show(makeValue(text, { descriptor: marks }));
      this.learn(marks, false);
      this.#add('user', [{ type: 'text', text: `[not shown] ${JSON.stringify(shown.content)}` }]);
    } else {
      this.learn(marks);
      if (!isOwn && !carries(marks, 'untrusted')) this.#trusted.texts.push(text);
      this.#add('user', [{ type: 'text', text }]);
    }
  }

  assistant(content: readonly Block[]): void {
    this.#add('assistant', content);
    for (const block of content) if (block.type === 'tool_call') this.#open.set(block.id, block);
  }

  /** `whole`: what it was before it was kept apart for its size. */
  result(id: string, kept: KeptResult, whole?: Json): void {
    const tool = plainText(this.#open.get(id)?.arguments.item_id ?? '');
    const { isError, facts } = kept;
    const { content, marks } = this.#references?.result(kept, whole) ?? kept;
    if (this.#references) this.learn(kept.marks, false);
    this.learn(marks);
    if (carries(marks, 'untrusted')) this.#stranger ??= tool === '' ? undefined : tool;
    if (!isError && id !== DIRECTIVE_CALL && (facts || !carries(kept.marks, 'untrusted'))) {
      this.#trusted.results.push({ tool, content: kept.content, marks: kept.marks, facts });
    }
    this.#open.delete(id);
    this.#add('user', [{ type: 'tool_result', id, content, ...(isError && { is_error: true }) }]);
    if (this.#open.size > 0) return;
    for (const said of this.#late.splice(0)) this.user(said.text, said.marks, said.isOwn);
  }

  /**
   * Something was read; by itself it is no part of what is said. `isShown`: false for what the model will
   * know by its reference.
   */
  learn(marks: Descriptor, isShown = true): void {
    if (this.#references && !isShown) this.#apart = mergeDescriptors(this.#apart, marks);
    else this.#marks = mergeDescriptors(this.#marks, marks);
  }

  reader(): ModelReader {
    return { marks: this.#marks, from: this.#stranger };
  }

  /** What no stranger had a hand in, as far as it is part of what is said. */
  trusted(): Readonly<Trusted> {
    return this.#trusted;
  }

  /** Size of what the next request will send, for the estimate. */
  bytes(): number {
    return this.#bytes;
  }

  /** A fresh start (a new attempt); what was read stays read. */
  clear(): void {
    this.#open.clear();
    [this.#messages, this.#late, this.#bytes] = [[], [], 0];
    this.#trusted = { texts: [], results: [] };
  }

  /** Neighbours of one role are one message: providers want them to take turns. */
  #add(role: Message['role'], content: readonly Block[]): void {
    if (content.length === 0) return;
    for (const block of content) this.#bytes += JSON.stringify(block).length;
    const last = this.#messages.at(-1);
    if (last?.role !== role) this.#messages.push({ role, content: [...content] });
    else
      this.#messages[this.#messages.length - 1] = { role, content: [...last.content, ...content] };
  }
}

export const FROM_USER = describe({ taint: ['src:user'] });

/** A descriptor as it is kept in the journal, and back. Sorted, because the order of reads that were made at once says nothing. */
export const packMarks = ({ labels, taint, sources }: Descriptor): Marks => ({
  labels: [...labels],
  taint: taint.toSorted(),
  sources: sources.toSorted(),
});

export function unpackMarks(packed: Json | undefined): Descriptor {
  const list = (name: string): string[] => {
    const found = getOwn(packed, name);
    return Array.isArray(found) ? found.map(plainText) : [];
  };
  return describe({ labels: list('labels'), taint: list('taint'), sources: list('sources') });
}

/** Inputs as an opening keeps them. */
export const packGiven = (given: ReadonlyMap<string, Value>): JsonObject => {
  const packed: JsonObject = {};
  for (const [name, { data, meta }] of given) {
    setOwn(packed, name, { value: data, marks: packMarks(meta.descriptor) });
  }
  return packed;
};

export const unpackGiven = (packed: JsonObject): ReadonlyMap<string, Value> =>
  new Map(
    Object.entries(packed).map(([name, input]) => {
      const descriptor = unpackMarks(getOwn(input, 'marks'));
      return [name, makeValue(getOwn(input, 'value') ?? null, { descriptor })];
    }),
  );

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
