// What the harness asks of others: the script language, a model, whoever looks on. None of it knows a
// thread; what a thread asks of threads is in thread.ts.
import type { Failure, Fault, Json, JsonObject, Outcome } from '../../base/index.ts';
import type {
  ApprovalAnswer,
  Descriptor,
  Frame,
  GuardSet,
  MaybePromise,
  Question,
  ToolEffect,
  Value,
} from '../../flow/index.ts';
import type { Marks, Noted, Recorded } from '../../journal/index.ts';
import type { Audit, Caller, EventFilter, StreamEvent, Verifier } from '../../kernel/index.ts';
import type {
  Message,
  ModelReply,
  ReaderOptions,
  ResolvedModel,
  ToolDefinition,
  WrittenMessages,
} from '../../llm/index.ts';
import type { ThreadStatus } from '../../store/index.ts';
import type { KeyPair, VerifiedToken } from '../../trust/index.ts';
import type { JournalWriter } from './journal-writer.ts';

/** Something a script does by itself: a command, a block of code, a file. */
export interface ScriptAct {
  /** `cmd`, `sh`, `node`, `py`, `write`, `append`, `read` …: events call it `script:cmd`. */
  name: string;
  effect: ToolEffect;
  /** What it is about, as the journal keeps it; the same act has the same arguments. */
  arguments: JsonObject;
}

/** What a script reaches outside of itself. Every one of them is a step of the thread. */
export interface ScriptActions {
  /** The right it works with now. */
  auth(): Pick<Caller, '__auth' | '__thread_id' | '__directive_id'>;
  /** Does it hold this right now? Answers the same in a replay. */
  readonly check: Verifier;
  tool(id: string, parameters: ReadonlyMap<string, Value>, frame: Frame): Promise<Outcome<Value>>;
  help(action: string, message: Value, frame: Frame): Promise<Outcome<Value>>;
  model(
    request: { prompt: Value; tier: string | undefined },
    frame: Frame,
  ): Promise<Outcome<Value>>;
  /** A guard or a rule asks about a statement. */
  ask(question: Question, frame: Frame): Promise<Outcome<ApprovalAnswer>>;
  act(act: ScriptAct, work: () => MaybePromise<Outcome<Json>>): Promise<Outcome<Json>>;
  /** The script goes on along so many more paths at once, or fewer. It begins with one. */
  paths(change: number): void;
}

export interface ScriptRequest {
  text: string;
  /** The file it stands in, and where its first character is. */
  file: string;
  line: number;
  column: number;
  /** Variables, and the fields of `@input`. */
  inputs: ReadonlyMap<string, Value>;
  /** Somebody vouches for it: its guards may be privileged. */
  isSigned: boolean;
  /** What holds for everything it does; no statement leaves it out. */
  guards: GuardSet;
  /** What `@now` is: the same when it runs again. */
  now: number;
  /** Of what was read to write it: everything that it says and does carries them. */
  marks?: Descriptor;
  signal: AbortSignal;
  /** Asked before every operation: may the script go on? */
  gate(): Outcome<null>;
  /** Absent: it may only compute; whatever else it tries ends it. */
  actions?: ScriptActions;
}

export interface ScriptAnswer {
  /** Of `/return { … }`. */
  outputs?: Value;
  text: string;
  /** Of everything it gave back, printed or said in its fault. */
  marks: Descriptor;
  /** With its place in `detail`: `file`, `line`, `column`. */
  fault?: Fault;
  /** It was only to compute and wanted more; it has done nothing. */
  needsThread?: boolean;
}

export interface ScriptPort {
  /** Never rejects. */
  (request: ScriptRequest): Promise<ScriptAnswer>;
  /** What can be known of a plan without running it; `given`: the names of the variables it begins with. */
  readPlan(text: string, given: readonly string[]): Promise<PlanReading>;
}

/** What a value of a plan is made of: fields of what a step gives, or a variable that it begins with. */
export type PlanSource =
  | { readonly step: number; readonly fields: readonly string[] }
  | { readonly input: string };

/** A call of a tool as it stands in the text of a plan. */
export interface PlanStep {
  readonly number: number;
  readonly tool: string;
  readonly line: number;
  readonly parameters: ReadonlyMap<
    string,
    { readonly literal?: Json; readonly from: readonly PlanSource[] }
  >;
  readonly under: readonly PlanSource[];
}

export interface PlanReading {
  readonly problems: readonly { readonly line: number; readonly message: string }[];
  readonly steps: readonly PlanStep[];
  /** The names that each `return` gives, where they are written out. */
  readonly returns: readonly (readonly string[] | undefined)[];
}

export interface TokenPort {
  /** Root of capability tokens. */
  key(): Outcome<KeyPair>;
  /** What a thread's token is worth now, under the policies in force. */
  verify(auth: string, thread: string): Outcome<VerifiedToken>;
}

export interface ThreadFacts {
  readonly directive: string;
  readonly parent?: string;
  readonly kind: 'thread' | 'hook';
  readonly title?: string;
}

/** What a transcript has and the registry has not. */
export interface LostCommits {
  readonly events: number;
  /** Writes that had begun. */
  readonly calls: readonly { readonly call_id: string; readonly tool: string }[];
}

export interface WatchPort {
  /** `about`: what people are told of a thread that is run here. */
  transcript(
    thread: string,
    about?: ThreadFacts,
  ): (events: readonly Noted[], firstSeq: number) => void;
  /** For a live view: everything that is recorded, and text as it comes. */
  onEvent?(thread: string, event: Noted): void;
  onText?(thread: string, piece: string): void;
  /** Where a thread that was asked to keeps what a provider sends. */
  rawStream?(thread: string, turn: number): RawStream;
  sinks?(thread: string): SinkWatch;
  /** What its transcript has after this number. */
  ahead?(thread: string, seq: number): LostCommits;
  /** Until its transcript holds everything that was told of it, and what was lost before. */
  written?(thread: string): Promise<void>;
  /** Without what is secret to the thread; with `inputs` to one below it that is given these. */
  mask?(thread: string, text: string, inputs?: Json): string;
  /** This process is done with the thread. */
  done?(thread: string): void;
  /** Where model requests leave a row; calls leave theirs through the kernel. */
  audit?: Pick<Audit, 'write'>;
}

/** Around the sinks that a tool of the provider's names for the streams of a thread. */
interface SinkWatch {
  /** Takes the thread's secrets out of events, also one that is spread over several of them. */
  filter: () => EventFilter | undefined;
  /** A sink that failed stops nothing and is told. */
  trouble(message: string): void;
}

export interface RawStream {
  write(event: StreamEvent): void;
  /** Called once, however the request ended. */
  end(): void;
}

export interface ReplayPort {
  /** The writer of a thread that happens again. */
  openJournal(...given: ConstructorParameters<typeof JournalWriter>): JournalWriter;
  /** What the journal has from here on. */
  rest(thread: string): readonly Recorded[];
  /** What a step of a script came to, so that it is not done again; `isLate`: also after a resume. */
  recorded(thread: string, call: string, isLate?: boolean): Promise<Outcome<Value>>;
  /** Is a request the next thing that was begun? */
  begins(thread: string): boolean;
  /** How many calls were made at once from this one on; undefined when the journal does not say. */
  group(thread: string, call: string): number | undefined;
  /** The recorded step after a failed request: a signal, a wait in milliseconds, another model, or nothing. */
  move(thread: string): number | 'again' | 'fallback' | 'none' | undefined;
  /** As it was refused then: by the registry, which knew more of those below than the thread itself. */
  refused(thread: string, now: Failure): Promise<Failure | undefined>;
  /** How long the next answer could be, when others left no more room for it then. */
  fitted(thread: string): Promise<number | undefined>;
  /** The hook's thread that was born here; undefined when the journal has none next. */
  hook(thread: string): Promise<string | undefined>;
  /** What that hook came to before the process ended; `interrupted` when it was not heard of any more. */
  hookResult(thread: string, hook: string): Promise<ThreadResult>;
  /** What a person had said when the thread last asked. */
  asked(thread: string): Promise<Outcome<ApprovalAnswer>>;
  /** What it was shown of a directive that is still the same: tools and advice have their own time. */
  shown(content: Json): Json;
}

export interface ModelRequest {
  system: string;
  messages: readonly Message[];
  tools: readonly ToolDefinition[];
  maxTokens: number;
  /** Messages as they were written for earlier requests of this conversation. */
  written: WrittenMessages;
  /** For the estimate when the provider reports no usage, and the text as it comes. */
  reading: ReaderOptions;
  /** On the monotonic clock: whoever is later does not send it. */
  sendBy?: number;
  /** Gets every event as it came. */
  raw?: RawStream;
  marks?: () => Descriptor;
  /** About the sinks that the provider's tool names itself. */
  sinks?: () => SinkWatch | undefined;
}

/** A model that may be asked now. */
export interface ModelLine {
  ask(request: ModelRequest, signal: AbortSignal): Promise<Outcome<ModelReply>>;
}

/** `caller` speaks for the harness, not for the thread: no thread may reach a provider itself. */
export type ModelPort = (model: ResolvedModel, caller: Caller) => Promise<Outcome<ModelLine>>;

interface RunnerTask {
  thread_id: string;
  directive: string;
  inputs: Json;
  /** Aborted at the deadline, when the thread is ended and when its parent is. */
  signal: AbortSignal;
}

/** Answers with the directive's outputs. Called again when the thread is resumed. */
export type Runner = (task: RunnerTask) => Promise<Outcome<Json>>;

export interface ThreadResult {
  thread_id: string;
  status: ThreadStatus;
  outputs: Json;
  text: string;
  reason: string;
  cost: JsonObject;
  code?: string;
  marks?: Marks;
}
