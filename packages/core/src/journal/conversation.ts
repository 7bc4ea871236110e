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

/** One addition to a conversation. The messages join neighbours of one role. */
interface MessagePart extends Message {
  /** Turn of the last reply before it. The opening has turn 0, the message of a compaction the last turn it replaces. */
  readonly turn: number;
  readonly bytes: number;
  /** Tool or verb of a result. Absent: the part is no result, or a reference has taken its place. */
  readonly tool?: string | undefined;
  /** Number of the event of a result. Absent: the store has not told it yet. */
  seq?: number | undefined;
  /** True for the message of a compaction. */
  readonly isNote?: true;
}

/** Returns the part with a reference instead of the result. */
function asReference(part: MessagePart): NewPart {
  const { role, turn, tool = '', seq = 0, content } = part;
  const [block] = content;
  if (block?.type !== 'tool_result') return part;
  const { files: _, ...rest } = block;
  return { role, turn, content: [{ ...rest, content: clearedResult(seq, tool, block.content) }] };
}

type NewPart = Omit<MessagePart, 'bytes'>;

export class Conversation {
  #parts: MessagePart[] = [];
  #messages: Message[] = [];
  /** Turn of the last reply of the model. */
  #turn = 0;
  #marks = EMPTY;
  /** Calls of the last reply without a result, in order. */
  readonly #open = new Map<string, ToolCallBlock>();
  #late: (() => void)[] = [];
  #bytes = 0;
  #hasFiles = false;
  /** Number of seals, by the model that wrote them. */
  readonly #seals = new Map<string, number>();
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
  assistant(content: readonly Block[], turn = this.#turn): void {
    if (content.length > 0) this.#turn = turn;
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
    this.#add('user', [block], { tool: name, seq });
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

  /** Returns the number of seals in the messages, by the model that wrote them. */
  seals(): ReadonlyMap<string, number> {
    return this.#seals;
  }

  /** Returns the size of the messages, for the estimate of the next request. */
  bytes(): number {
    return this.#bytes;
  }

  /**
   * Sets the numbers of the results, which a live thread learns from the store. `events` are in order. Calls can have
   * equal ids, so the newest results come first.
   */
  numberResults(events: readonly Recorded[]): void {
    const rest = events.filter((event) => event.type === 'tool_result');
    for (const part of this.#parts.toReversed()) {
      if (part.tool === undefined || part.seq !== undefined) continue;
      const [block] = part.content;
      const at = rest.findLastIndex(
        ({ data }) => block?.type === 'tool_result' && data.call_id === block.id,
      );
      const [event] = at < 0 ? [] : rest.splice(at, 1);
      part.seq = event?.seq;
    }
  }

  /** Returns the parts of the messages, the oldest first. */
  parts(): readonly MessagePart[] {
    return this.#parts;
  }

  /**
   * Makes room: replaces results by references, and the turns up to `upto` by one message of the harness. The marks
   * and the trusted texts stay, so no right is gained or lost.
   */
  compact(data: Compaction): void {
    this.learn(unpackMarks(data.marks));
    const { upto = 0, cleared = [] } = data;
    const past = this.#parts;
    const note: NewPart = {
      role: 'user',
      turn: upto,
      content: [{ type: 'text', text: compactionText(data) }],
      isNote: true,
    };
    const rest = past
      .filter(({ turn }) => turn > upto)
      .map((part) => (cleared.includes(part.seq ?? -1) ? asReference(part) : part));
    [this.#parts, this.#messages, this.#bytes] = [[], [], 0];
    this.#seals.clear();
    for (const part of past) if (part.turn === 0) this.#put(part);
    for (const part of upto === 0 ? rest : [note, ...rest]) this.#put(part);
  }

  /** Removes all messages for a new attempt. The marks stay. */
  clear(): void {
    this.#open.clear();
    [this.#parts, this.#messages, this.#late] = [[], [], []];
    this.#seals.clear();
    [this.#turn, this.#bytes] = [0, 0];
    this.#trusted = { texts: [], said: [], results: [] };
  }

  #add(
    role: Message['role'],
    content: readonly Block[],
    result?: Pick<MessagePart, 'tool' | 'seq'>,
  ): void {
    if (content.length > 0) this.#put({ role, content, turn: this.#turn, ...result });
  }

  /** Joins neighbours of one role, because providers require that the roles alternate. */
  #put(part: NewPart): void {
    const { role, content } = part;
    const bytes = content.reduce((sum, block) => sum + JSON.stringify(block).length, 0);
    this.#parts.push({ ...part, bytes });
    this.#bytes += bytes;
    this.#hasFiles ||= content.some(
      (block) => block.type === 'file' || (block.type === 'tool_result' && !!block.files),
    );
    for (const block of content) {
      const by = 'seal' in block && block.seal?.by;
      if (by) this.#seals.set(by, (this.#seals.get(by) ?? 0) + 1);
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
