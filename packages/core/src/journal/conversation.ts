// Computes the conversation of a thread from its events. A model can repeat a text in other words, so its replies
// carry the marks of everything that it has read.
import { getOwn, type Json, type JsonObject, plainText, setOwn } from '../base/index.ts';
import {
  carries,
  type Descriptor,
  describe,
  EMPTY,
  isFromPerson,
  type ModelReader,
  makeValue,
  mergeDescriptors,
  type ResultFacts,
  type Value,
} from '../flow/index.ts';
import type { Block, FileBlock, Message, ToolCallBlock } from '../llm/index.ts';
import { clearedResult, compactionText } from './compaction.ts';
import { eventFlags } from './event-facts.ts';
import type { JournalEvent } from './events.ts';
import { type Projection, project } from './projection.ts';
import type { Recorded } from './read-journal.ts';
import type { Compaction, Marks, Opening, Reply, ToolResult } from './shapes.ts';

/** Id of the call with which the harness shows a directive to the model. No model made this call. */
export const DIRECTIVE_CALL = 'call_directive';

/** The part of a value that a model sees, and its marks. */
export interface Visible {
  readonly content: Json;
  readonly marks: Descriptor;
}

/** A result in the form in which the journal stores it. */
export interface RecordedResult {
  readonly content: Json;
  readonly marks: Descriptor;
  readonly isError: boolean;
  readonly facts?: ResultFacts | undefined;
  /** Files of the thread that the content names. */
  readonly files?: readonly FileBlock[] | undefined;
  /** Untrusted inputs of the directive, in the result that opens the conversation. Absent: none. */
  readonly given?: ReadonlyMap<string, Value> | undefined;
}

/** Shows values to a model by names, if the model must not read untrusted text. */
export interface Display {
  /** Replaces untrusted parts with names. The model sees their types and sizes. */
  show(value: Value): Visible;
  /** Does the same for a result. `whole`: the result before it was shortened. */
  result(stored: RecordedResult, whole?: Json): Visible;
  /** Results that are too large for the journal, by their hash. */
  readonly wholes: ReadonlyMap<string, Json>;
}

/** Mark of every text of a model, in addition to the marks of the texts that it has read. */
const FROM_MODEL = /* @__PURE__ */ describe({ taint: ['src:llm'] });

/** An attachment: the text of a file, or a file that is an artifact. */
interface Attached {
  readonly name: string;
  readonly text: string;
  readonly file?: FileBlock | undefined;
}

/** Returns the value by which results and references name a file. It has the id of the artifact and no bytes. */
export function fileValue(file: FileBlock): JsonObject {
  const { type: _, sha256, ...facts } = file;
  return { artifact: `sha256:${sha256}`, ...facts };
}

/** A result that is trusted as a whole, or in some of its fields. */
interface AnsweredResult {
  /** The tool is '' if the verb was not `execute`. */
  readonly tool: string;
  readonly content: Json;
  readonly marks: Descriptor;
  readonly facts: ResultFacts | undefined;
}

interface Trusted {
  texts: string[];
  /** The texts that a person wrote. Each is among `texts`, too. */
  said: string[];
  results: AnsweredResult[];
}

/** Position of a reply: its turn, its message, and its first block there. */
interface ReplyStart {
  readonly turn: number;
  readonly at: number;
  readonly block: number;
}

/** A result in a conversation. `seq`: the number of its event. Absent: a reference has taken its place. */
interface ShownResult {
  readonly block: Extract<Block, { type: 'tool_result' }>;
  readonly tool: string;
  readonly turn: number;
  readonly seq?: number;
}

const blockBytes = (content: readonly Block[]): number =>
  content.reduce((sum, block) => sum + JSON.stringify(block).length, 0);

export class Conversation {
  #messages: Message[] = [];
  /** Replies of the model, in order. A compaction removes the first ones. */
  #replies: ReplyStart[] = [];
  /** Messages before the first reply. Set by the first compaction. */
  #opening: readonly Message[] | undefined;
  /** Tool or verb of each result, and the number of its event as soon as it is known. Calls can have equal ids. */
  readonly #results = new WeakMap<Block, { readonly tool: string; readonly seq?: number }>();
  #marks = EMPTY;
  /** Calls of the last reply without a result, in order. */
  readonly #open = new Map<string, ToolCallBlock>();
  #late: (() => void)[] = [];
  #bytes = 0;
  #hasFiles = false;
  #trusted: Trusted = { texts: [], said: [], results: [] };
  #stranger: string | undefined;
  /** Hides untrusted text from the model. Absent: the model sees this text. */
  readonly #display: Display | undefined;
  /** Marks of values that the model has not seen. */
  #apart = EMPTY;

  constructor(display?: Display) {
    this.#display = display;
  }

  messages(): readonly Message[] {
    return this.#messages;
  }

  /** Returns the merged marks of everything that the model has seen. */
  marks(): Descriptor {
    return this.#marks;
  }

  ownMarks(): Descriptor {
    return mergeDescriptors(this.#marks, FROM_MODEL);
  }

  /** Returns the own marks and those of hidden values. Texts about the thread carry them. */
  allMarks(): Descriptor {
    return mergeDescriptors(this.ownMarks(), this.#apart);
  }

  /** Returns the calls of the last reply without a result, in order. */
  pending(): readonly ToolCallBlock[] {
    return [...this.#open.values()];
  }

  /**
   * Adds a text of the user. It is delayed while calls have no result, because providers require the results
   * first. `isOwn`: the harness wrote the text, so it can quote any text.
   */
  user(text: string, marks: Descriptor, isOwn = false): void {
    if (this.#open.size > 0) this.#late.push(() => this.user(text, marks, isOwn));
    else if (this.#display && carries(marks, 'untrusted')) {
      const view = this.#display.show(makeValue(text, { descriptor: marks }));
      this.learn(marks, false);
      this.#add('user', [{ type: 'text', text: `[not shown] ${JSON.stringify(view.content)}` }]);
    } else {
      this.learn(marks);
      if (!isOwn && !carries(marks, 'untrusted')) this.#trusted.texts.push(text);
      if (!isOwn && isFromPerson(marks)) this.#trusted.said.push(text);
      this.#add('user', [{ type: 'text', text }]);
    }
  }

  /** Adds a file of a person. INVARIANT: its content never counts as said, even if the person vouches for it. */
  attach(attached: Attached, marks: Descriptor): void {
    if (this.#open.size > 0) {
      this.#late.push(() => this.attach(attached, marks));
      return;
    }
    const { name, text, file } = attached;
    const isHidden = this.#display !== undefined && carries(marks, 'untrusted');
    this.learn(marks, !isHidden);
    if (this.#display && isHidden) {
      const value = makeValue(file ? fileValue(file) : text, { descriptor: marks });
      const { content } = this.#display.show(value);
      this.#add('user', [{ type: 'text', text: `[file, not shown] ${JSON.stringify(content)}` }]);
      return;
    }
    const title = `file ${JSON.stringify(name)}:`;
    const content: Block[] = [{ type: 'text', text: file ? title : `${title}\n${text}` }];
    this.#add('user', file ? [...content, file] : content);
  }

  /** Adds a reply. `turn`: the turn of a reply of the model. */
  assistant(content: readonly Block[], turn?: number): void {
    const { length } = this.#messages;
    const last = this.#messages.at(-1);
    const isJoined = last?.role === 'assistant';
    if (turn !== undefined && content.length > 0) {
      const block = isJoined ? last.content.length : 0;
      this.#replies.push({ turn, at: isJoined ? length - 1 : length, block });
    }
    this.#add('assistant', content);
    for (const block of content) if (block.type === 'tool_call') this.#open.set(block.id, block);
  }

  /** Adds a result. `whole`: the result that was too large for the journal. `seq`: the number of its event. */
  result(id: string, stored: RecordedResult, whole?: Json, seq?: number): void {
    const call = this.#open.get(id);
    const tool = plainText(call?.arguments.item_id ?? '');
    const { isError, facts } = stored;
    const { content, marks } = this.#display?.result(stored, whole) ?? stored;
    if (this.#display) this.learn(stored.marks, false);
    this.learn(marks);
    if (carries(marks, 'untrusted')) this.#stranger ??= tool === '' ? undefined : tool;
    if (!isError && id !== DIRECTIVE_CALL && (facts || !carries(stored.marks, 'untrusted'))) {
      this.#trusted.results.push({ tool, content: stored.content, marks: stored.marks, facts });
    }
    this.#open.delete(id);
    // A file is as untrusted as its result. A reference stands for both.
    const isShown = !(this.#display && carries(stored.marks, 'untrusted'));
    const files = isShown && stored.files ? { files: stored.files } : {};
    const error = isError && { is_error: true };
    const block: Block = { type: 'tool_result', id, content, ...error, ...files };
    const name = tool === '' || call?.name === 'help' ? (call?.name ?? '') : tool;
    this.#results.set(block, { tool: name, ...(seq !== undefined && { seq }) });
    this.#add('user', [block]);
    if (this.#open.size > 0) return;
    for (const add of this.#late.splice(0)) add();
  }

  /**
   * Adds the marks of a value, without a message. `isShown`: false if the model gets only a reference to the
   * value.
   */
  learn(marks: Descriptor, isShown = true): void {
    if (this.#display && !isShown) this.#apart = mergeDescriptors(this.#apart, marks);
    else this.#marks = mergeDescriptors(this.#marks, marks);
  }

  reader(): ModelReader {
    return { marks: this.#marks, from: this.#stranger };
  }

  /** Returns the trusted texts and results of this conversation. */
  trusted(): Readonly<Trusted> {
    return this.#trusted;
  }

  /** True if a message can contain a file. */
  hasFiles(): boolean {
    return this.#hasFiles;
  }

  /** Returns the size of the messages, for the estimate of the next request. */
  bytes(): number {
    return this.#bytes;
  }

  /**
   * Sets the numbers of the results, which a live thread learns from the store. `events` are in order. Calls can have
   * equal ids, so the newest results come first.
   */
  numberResults(events: readonly { readonly seq: number; readonly id: string }[]): void {
    const rest = [...events];
    for (const { block, tool } of this.results().toReversed()) {
      if (!this.#results.has(block)) continue;
      const at = rest.findLastIndex(({ id }) => id === block.id);
      const [event] = at < 0 ? [] : rest.splice(at, 1);
      if (event) this.#results.set(block, { tool, seq: event.seq });
    }
  }

  /** Returns the results in the conversation, the oldest first, with their turns. The opening has turn 0. */
  results(): ShownResult[] {
    const list: ShownResult[] = [];
    for (const [at, { content }] of this.#messages.entries()) {
      const turn = this.#replies.findLast((reply) => reply.at <= at)?.turn ?? 0;
      for (const block of content) {
        if (block.type !== 'tool_result') continue;
        list.push({ block, turn, ...(this.#results.get(block) ?? { tool: '' }) });
      }
    }
    return list;
  }

  /** Returns the turns of the replies, the oldest first. */
  turns(): readonly number[] {
    return this.#replies.map(({ turn }) => turn);
  }

  /** Returns the messages after the opening, and how many of them a compaction up to this turn would replace. */
  since(upto: number): {
    readonly replaced: readonly Message[];
    readonly after: readonly Message[];
  } {
    const [first] = this.#replies;
    const begin = this.#opening?.length ?? first?.at ?? this.#messages.length;
    const end = this.#replies.find(({ turn }) => turn > upto);
    const rest = end && this.#messages[end.at]?.content.slice(0, end.block);
    const replaced = this.#messages.slice(begin, end?.at);
    if (rest && rest.length > 0) replaced.push({ role: 'assistant', content: rest });
    return { replaced, after: this.#from(upto) };
  }

  /** Returns the messages from the first reply after this turn. */
  #from(upto: number): Message[] {
    const start = this.#replies.find(({ turn }) => turn > upto);
    const first = start && this.#messages[start.at];
    if (!first) return [];
    const head =
      start.block === 0 ? first : { ...first, content: first.content.slice(start.block) };
    return [head, ...this.#messages.slice(start.at + 1)];
  }

  /**
   * Makes room: replaces results by references, and the turns up to `upto` by one message of the harness. The marks
   * and the trusted texts stay, so no right is gained or lost.
   */
  compact(data: Compaction): void {
    this.learn(unpackMarks(data.marks));
    if (data.cleared) this.#clearResults(new Set(data.cleared));
    if (data.upto !== undefined) this.#replaceTurns(data.upto, compactionText(data));
    this.#bytes = this.#messages.reduce((sum, { content }) => sum + blockBytes(content), 0);
  }

  #clearResults(cleared: ReadonlySet<number>): void {
    const refer = (block: Block): Block => {
      const { seq = -1, tool = '' } = this.#results.get(block) ?? {};
      if (block.type !== 'tool_result' || !cleared.has(seq)) return block;
      const { files: _, ...rest } = block;
      return { ...rest, content: clearedResult(seq, tool, block.content) };
    };
    this.#messages = this.#messages.map((message) => {
      const content = message.content.map(refer);
      const isSame = content.every((block, at) => block === message.content[at]);
      return isSame ? message : { ...message, content };
    });
  }

  #replaceTurns(upto: number, text: string): void {
    const [first] = this.#replies;
    const opening = (this.#opening ??= this.#messages.slice(0, first?.at));
    const start = this.#replies.find(({ turn }) => turn > upto);
    const rest = this.#from(upto);
    const replies = this.#replies.filter(({ turn }) => turn > upto);
    const block = { type: 'text', text } as const;
    const last = opening.at(-1);
    const before: Message[] =
      last?.role === 'user'
        ? [...opening.slice(0, -1), { role: 'user', content: [...last.content, block] }]
        : [...opening, { role: 'user', content: [block] }];
    const { at = 0, block: offset = 0 } = start ?? {};
    this.#messages = [...before, ...rest];
    this.#replies = replies.map((reply) => ({
      turn: reply.turn,
      at: reply.at - at + before.length,
      block: reply.at === at ? reply.block - offset : reply.block,
    }));
  }

  /** Removes all messages for a new attempt. The marks stay. */
  clear(): void {
    this.#open.clear();
    [this.#replies, this.#opening] = [[], undefined];
    [this.#messages, this.#late, this.#bytes] = [[], [], 0];
    this.#trusted = { texts: [], said: [], results: [] };
  }

  /** Joins neighbours of one role, because providers require that the roles alternate. */
  #add(role: Message['role'], content: readonly Block[]): void {
    if (content.length === 0) return;
    for (const block of content) {
      this.#bytes += JSON.stringify(block).length;
      this.#hasFiles ||= block.type === 'file' || (block.type === 'tool_result' && !!block.files);
    }
    const last = this.#messages.at(-1);
    if (last?.role !== role) this.#messages.push({ role, content: [...content] });
    else
      this.#messages[this.#messages.length - 1] = { role, content: [...last.content, ...content] };
  }
}

/** Converts a descriptor for the journal. The lists are sorted, because parallel reads have no fixed order. */
export const packMarks = ({ labels, taint, sources }: Descriptor): Marks => ({
  labels: [...labels],
  taint: taint.toSorted(),
  sources: sources.toSorted(),
});

export function unpackMarks(packed: Json | undefined): Descriptor {
  const list = (name: string): string[] => {
    const values = getOwn(packed, name);
    return Array.isArray(values) ? values.map(plainText) : [];
  };
  return describe({ labels: list('labels'), taint: list('taint'), sources: list('sources') });
}

/** Converts untrusted inputs for the event that opens the conversation. */
export const packGiven = (inputs: ReadonlyMap<string, Value>): JsonObject => {
  const packed: JsonObject = {};
  for (const [name, { data, meta }] of inputs) {
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

/** An event with its turn, and with its number once the store has it. */
type PlacedEvent = JournalEvent & { readonly turn?: number; readonly seq?: number };

/** A conversation that can get further events. */
interface OpenTalk {
  readonly conversation: Conversation;
  readonly references?: Display;
  /** A reply that hooks can still withhold, and the events since. Absent: no such reply is open. */
  unjudged?:
    | { readonly said: PlacedEvent[]; readonly later: PlacedEvent[]; isAsked: boolean }
    | undefined;
}

/**
 * Adds an event of the journal to the conversation. A reply that a hook can still withhold is added when
 * its turn ends. The events since the reply follow it.
 */
export function addToConversation(talk: OpenTalk, event: PlacedEvent): void {
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

const keptIn = ({ content, marks, is_error, facts, files, given }: ToolResult): RecordedResult => ({
  content,
  marks: unpackMarks(marks),
  isError: is_error,
  ...(facts && { facts }),
  ...(files && { files }),
  ...(given && { given: unpackGiven(given) }),
});

function putInto({ conversation, references }: OpenTalk, event: PlacedEvent): void {
  switch (event.type) {
    case 'user_message':
    case 'injected_message': {
      const { text, marks, attached: name, file } = event.data;
      const isOwn = event.type === 'injected_message' && event.data.by === 'harness';
      if (name === undefined) conversation.user(text, unpackMarks(marks), isOwn);
      else conversation.attach({ name, text, file }, unpackMarks(marks));
      return;
    }
    case 'assistant_message':
      // A reply to a script has its own conversation. A reply that a guard refused is not a part of any.
      if (event.data.injected || !(event.data.apart || event.data.withheld)) {
        conversation.assistant(event.data.content, event.data.injected ? undefined : event.turn);
      }
      return;
    case 'tool_result': {
      const { call_id, content } = event.data;
      const whole = references?.wholes.get(plainText(getOwn(content, 'artifact') ?? ''));
      conversation.result(call_id, keptIn(event.data), whole, event.seq);
      return;
    }
    case 'compaction':
      conversation.compact(event.data);
      return;
    default:
  }
}

/** Starts a new attempt: the conversation begins again with its opening. */
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

/** Returns the events before the start of the thread. A new attempt begins with them. */
const openingOf = (history: readonly Recorded[]): readonly Opening[] => {
  const start = history.findIndex(({ type }) => type === 'signal');
  return history.slice(0, start < 0 ? undefined : start).flatMap(asOpening);
};

interface ReadTalk {
  readonly conversation: Conversation;
  readonly attempt: number;
}

/** Builds the conversation as the journal has it, even if the model saw names instead of values. */
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

/** The state is immutable. All states of one journal share a list, so that a new event causes no copy. */
class ConversationState {
  readonly seq: number;
  /** Event of the snapshot of the last rewind. Undefined: the thread was never rewound. */
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

  /** Returns the events that no rewind has removed from the conversation. */
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

  pending(): readonly ToolCallBlock[] {
    return this.#read().conversation.pending();
  }

  marks(): Descriptor {
    return this.#read().conversation.marks();
  }

  /** Returns the events with which the current attempt begins. */
  opening(): readonly Opening[] {
    const events = this.events();
    return events.reduce(
      (latest, { type, data }) =>
        (type === 'retry' && data.try === undefined && data.opening) || latest,
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

/** The messages are built on the first call, so a journal is read in linear time. */
export const conversation: Projection<ConversationState> = {
  name: 'conversation',
  initial: () => new ConversationState(),
  apply: (state, event) => (event.seq <= state.seq ? state : state.with(event)),
};

/** Returns the events of a journal without those that a rewind has removed. */
export const eventsInForce = (history: readonly Recorded[]): Recorded[] =>
  project(conversation, history).events();

/** Returns true if no hook has withheld the reply. An open reply counts if its turn ends with `done`. */
const isSaid = (history: readonly Recorded[], at: number, { open, withheld }: Reply): boolean =>
  !withheld && (!open || history.slice(at).find(isTurnEnd)?.data.done === true);

const isTurnEnd = (event: Recorded) => event.type === 'turn_end';

/**
 * Returns the last reply in the conversation of the thread, and its index. Undefined: the model has not replied, or
 * the harness wrote the last reply.
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

/** Returns the indices of the replies with this plan that were not withheld. A plan has its own turn. */
export const planReplies = (history: readonly Recorded[], number: number): number[] =>
  history.flatMap(({ type, data }, at) => {
    if (type !== 'assistant_message' || data.injected || data.plan !== number) return [];
    const end = history.slice(at).find(isTurnEnd);
    return !data.withheld && end?.data.done === true ? [at] : [];
  });

/** Returns the inputs that a hook set for the last attempt with changed inputs. */
export const changedInputs = (history: readonly Recorded[]): JsonObject | undefined =>
  history.reduce<JsonObject | undefined>(
    (latest, { type, data }) => (type === 'retry' && 'inputs' in data && data.inputs) || latest,
    undefined,
  );

/** Returns true if a reply without calls is the last change of the conversation. */
export function hasLastWord(history: readonly Recorded[]): boolean {
  const last = eventsInForce(history).findLast(
    ({ type }) => eventFlags(type).changesConversation === true,
  );
  return (
    last?.type === 'assistant_message' &&
    !last.data.content.some(({ type }) => type === 'tool_call')
  );
}
