// The conversation of a thread, made from its events. The model can repeat in other words what it has read, so its
// replies carry the marks of everything that it has read.
import { getOwn, type Json, type JsonObject, plainText, setOwn } from '../base/index.ts';
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
} from '../flow/index.ts';
import type { Block, Message, ToolCallBlock } from '../llm/index.ts';
import { eventFlags } from './event-facts.ts';
import type { JournalEvent } from './events.ts';
import { type Projection, project } from './projection.ts';
import type { Recorded } from './read-journal.ts';
import type { Marks, Opening, Reply, ToolResult } from './shapes.ts';

/** The call with which the harness shows a directive to the model. No model made it. */
export const DIRECTIVE_CALL = 'call_directive';

/** The part of a value that a model is shown, and its marks. */
export interface Visible {
  readonly content: Json;
  readonly marks: Descriptor;
}

/** A result as a journal keeps it. */
export interface KeptResult {
  readonly content: Json;
  readonly marks: Descriptor;
  readonly isError: boolean;
  readonly facts?: ResultFacts | undefined;
  /** Of the opening: the inputs that strangers had a hand in. */
  readonly given?: ReadonlyMap<string, Value> | undefined;
}

/** Shows values to a model by names, where the model must not read untrusted text. */
export interface Display {
  /** Untrusted parts get names. The model is shown their types and sizes. */
  show(value: Value): Visible;
  /** The same for a result. `whole`: the result before it was shortened. */
  result(kept: KeptResult, whole?: Json): Visible;
  /** Results that were too large for the journal, by their hash. */
  readonly wholes: ReadonlyMap<string, Json>;
}

/** Put on everything a model writes, besides what it has read. */
const FROM_MODEL = /* @__PURE__ */ describe({ taint: ['src:llm'] });

/** A result that is trusted as a whole, or in some of its fields. */
interface HeardResult {
  /** The tool is '' if the verb was not `execute`. */
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
  #messages: Message[] = [];
  #marks = EMPTY;
  /** Calls of the last reply that have no result yet, in order. */
  readonly #open = new Map<string, ToolCallBlock>();
  #late: { text: string; marks: Descriptor; isOwn: boolean }[] = [];
  #bytes = 0;
  #trusted: Trusted = { texts: [], results: [] };
  #stranger: string | undefined;
  /** Hides untrusted text from the model. Absent: the model is shown it. */
  readonly #display: Display | undefined;
  /** The marks of values that the model was not shown. */
  #apart = EMPTY;

  constructor(display?: Display) {
    this.#display = display;
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

  /** The own marks and those of values that the model was not shown. Texts about the thread carry them. */
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
    else if (this.#display && carries(marks, 'untrusted')) {
      const shown = this.#display.show(makeValue(text, { descriptor: marks }));
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
    const { content, marks } = this.#display?.result(kept, whole) ?? kept;
    if (this.#display) this.learn(kept.marks, false);
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
    if (this.#display && !isShown) this.#apart = mergeDescriptors(this.#apart, marks);
    else this.#marks = mergeDescriptors(this.#marks, marks);
  }

  reader(): ModelReader {
    return { marks: this.#marks, from: this.#stranger };
  }

  /** The trusted texts and results of this conversation. */
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

const unpackGiven = (packed: JsonObject): ReadonlyMap<string, Value> =>
  new Map(
    Object.entries(packed).map(([name, input]) => {
      const descriptor = unpackMarks(getOwn(input, 'marks'));
      return [name, makeValue(getOwn(input, 'value') ?? null, { descriptor })];
    }),
  );

/** A conversation to which events are added. */
interface OpenTalk {
  readonly conversation: Conversation;
  readonly references?: Display;
  /** A reply that hooks can still withhold, and what the model was told since. */
  unjudged?:
    | { readonly said: JournalEvent[]; readonly later: JournalEvent[]; isAsked: boolean }
    | undefined;
}

/**
 * Puts one event of the journal into the conversation. A reply that a hook may still withhold is said
 * when its turn ends, and what was told meanwhile after it.
 */
export function addToConversation(talk: OpenTalk, event: JournalEvent): void {
  const { unjudged } = talk;
  const isOpen = event.type === 'assistant_message' && !event.data.injected && event.data.open;
  if (isOpen && !event.data.apart) {
    talk.unjudged = { said: [event], later: [], isAsked: false };
  } else if (!unjudged) putInto(talk, event);
  else if (event.type === 'hook') unjudged.isAsked = true;
  else if (event.type !== 'turn_end')
    (unjudged.isAsked ? unjudged.later : unjudged.said).push(event);
  else {
    talk.unjudged = undefined;
    if (event.data.done) for (const one of unjudged.said) putInto(talk, one);
    for (const one of unjudged.later) putInto(talk, one);
  }
}

const keptIn = ({ content, marks, is_error, facts, given }: ToolResult): KeptResult => ({
  content,
  marks: unpackMarks(marks),
  isError: is_error,
  ...(facts && { facts }),
  ...(given && { given: unpackGiven(given) }),
});

function putInto({ conversation, references }: OpenTalk, event: JournalEvent): void {
  switch (event.type) {
    case 'user_message':
      conversation.user(event.data.text, unpackMarks(event.data.marks));
      return;
    case 'injected_message': {
      const { text, marks, by } = event.data;
      conversation.user(text, unpackMarks(marks), by === 'harness');
      return;
    }
    case 'assistant_message':
      // What a script asked has a conversation of its own; what a guard refused was not said.
      if (event.data.injected || !(event.data.apart || event.data.withheld)) {
        conversation.assistant(event.data.content);
      }
      return;
    case 'tool_result': {
      const { call_id, content } = event.data;
      const whole = references?.wholes.get(plainText(getOwn(content, 'artifact') ?? ''));
      conversation.result(call_id, keptIn(event.data), whole);
      return;
    }
    default:
  }
}

/** A new attempt: the conversation begins again with its opening. */
export function reopenConversation(talk: OpenTalk, opening: readonly Opening[]): void {
  talk.conversation.clear();
  talk.unjudged = undefined;
  for (const event of opening) addToConversation(talk, event);
}

function asOpening(event: JournalEvent): Opening[] {
  const { type, data } = event;
  if (type === 'user_message') return [{ type, data }];
  if (type === 'tool_result') return [{ type, data }];
  return type === 'assistant_message' && data.injected ? [{ type, data }] : [];
}

/** The events that a new attempt begins with: those before the thread started. */
const openingOf = (history: readonly Recorded[]): readonly Opening[] => {
  const start = history.findIndex(({ type }) => type === 'signal');
  return history.slice(0, start < 0 ? undefined : start).flatMap(asOpening);
};

interface ReadTalk {
  readonly conversation: Conversation;
  readonly attempt: number;
}

/** Replies of the model are shown as the journal has them: also where the model was shown names of values. */
function readTalk(events: readonly Recorded[]): ReadTalk {
  const talk: OpenTalk = { conversation: new Conversation() };
  let [opening, attempt] = [openingOf(events), 1];
  for (const event of events) {
    addToConversation(talk, event);
    if (event.type !== 'retry' || event.data.try !== undefined) continue;
    attempt = event.data.attempt;
    opening = event.data.opening ?? opening;
    reopenConversation(talk, opening);
  }
  return { conversation: talk.conversation, attempt };
}

/** Immutable. The states of one journal share a list, so that one more event copies nothing. */
class ConversationState {
  readonly seq: number;
  /** The snapshot that the thread last went back to. */
  readonly forkedAt: number | undefined;
  readonly #events: Recorded[];
  readonly #length: number;
  #talk: ReadTalk | undefined;

  constructor(events: Recorded[] = [], seq = 0, forkedAt?: number) {
    this.#events = events;
    this.#length = events.length;
    this.seq = seq;
    this.forkedAt = forkedAt;
  }

  /** The events that count for the conversation: those that no rewind went back over. */
  events(): Recorded[] {
    return this.#events.slice(0, this.#length);
  }

  with(event: Recorded): ConversationState {
    const { type, data, seq } = event;
    const from = type === 'signal' && data.kind === 'resume' ? data.from : undefined;
    const isLongest = from === undefined && this.#events.length === this.#length;
    const events = isLongest
      ? this.#events
      : this.events().filter((one) => from === undefined || one.seq <= from);
    events.push(event);
    return new ConversationState(events, seq, from ?? this.forkedAt);
  }

  messages(): readonly Message[] {
    return this.#read().conversation.messages();
  }

  /** Calls of the last reply that have no result. */
  pending(): readonly ToolCallBlock[] {
    return this.#read().conversation.pending();
  }

  marks(): Descriptor {
    return this.#read().conversation.marks();
  }

  /** The events that an attempt begins with. */
  opening(): readonly Opening[] {
    const events = this.events();
    return events.reduce(
      (found, { type, data }) =>
        (type === 'retry' && data.try === undefined && data.opening) || found,
      openingOf(events),
    );
  }

  attempt(): number {
    return this.#read().attempt;
  }

  #read(): ReadTalk {
    this.#talk ??= readTalk(this.events());
    return this.#talk;
  }
}

/** Messages are made when they are asked for, so a journal is read in linear time. */
export const conversation: Projection<ConversationState> = {
  name: 'conversation',
  initial: () => new ConversationState(),
  apply: (state, event) => (event.seq <= state.seq ? state : state.with(event)),
};

/** The events of a journal without those that a rewind went back over. */
export const eventsInForce = (history: readonly Recorded[]): Recorded[] =>
  project(conversation, history).events();

/** True if the reply counts: no hook could withhold it, or the end of its turn says so. */
const isSaid = (history: readonly Recorded[], at: number, { open, withheld }: Reply): boolean =>
  !withheld && (!open || history.slice(at).find(isTurnEnd)?.data.done === true);

const isTurnEnd = (event: Recorded) => event.type === 'turn_end';

/**
 * The last reply in the conversation of the thread, and its index. Absent: nobody replied, or the harness made the
 * last reply.
 */
export function lastReply(
  history: readonly Recorded[],
): { at: number; content: readonly Block[] } | undefined {
  const at = history.findLastIndex(
    ({ type, data }, index) =>
      type === 'assistant_message' &&
      (data.injected || (data.apart !== true && isSaid(history, index, data))),
  );
  const reply = history[at];
  if (reply?.type !== 'assistant_message' || reply.data.injected) return undefined;
  return { at, content: reply.data.content };
}

/** The indices of replies that were to be this plan. A plan has a turn of its own, so its end says if it counts. */
export const planReplies = (history: readonly Recorded[], number: number): number[] =>
  history.flatMap(({ type, data }, at) => {
    if (type !== 'assistant_message' || data.injected || data.plan !== number) return [];
    const end = history.slice(at).find(isTurnEnd);
    return !data.withheld && end?.data.done === true ? [at] : [];
  });

/** The inputs that a hook set when it began the last attempt with other inputs. */
export const changedInputs = (history: readonly Recorded[]): JsonObject | undefined =>
  history.reduce<JsonObject | undefined>(
    (found, { type, data }) => (type === 'retry' && 'inputs' in data && data.inputs) || found,
    undefined,
  );

/** True if nothing changed the conversation after a reply of the model that has no calls. */
export function hasLastWord(history: readonly Recorded[]): boolean {
  const last = eventsInForce(history).findLast(
    ({ type }) => eventFlags(type).changesConversation === true,
  );
  return (
    last?.type === 'assistant_message' &&
    !last.data.content.some(({ type }) => type === 'tool_call')
  );
}
