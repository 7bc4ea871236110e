// Defines ports of the harness: the script language, models and observers. They do not depend on a thread; the
// ports that do are in thread.ts.
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
  FileBlock,
  FileSource,
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
  /** Arguments for the journal. The same act always has the same arguments. */
  arguments: JsonObject;
}

/** Effects of a script. Each call is a step of the thread. */
export interface ScriptActions {
  /** Returns the token that the script uses now. */
  auth(): Pick<Caller, '__auth' | '__thread_id' | '__directive_id'>;
  /** Checks whether the script has a right now. A replay gives the same answer. */
  readonly check: Verifier;
  tool(id: string, parameters: ReadonlyMap<string, Value>, frame: Frame): Promise<Outcome<Value>>;
  help(action: string, message: Value, frame: Frame): Promise<Outcome<Value>>;
  model(
    request: { prompt: Value; tier: string | undefined },
    frame: Frame,
  ): Promise<Outcome<Value>>;
  /** Asks a person about a statement, for a guard or a rule. */
  ask(question: Question, frame: Frame): Promise<Outcome<ApprovalAnswer>>;
  act(act: ScriptAct, work: () => MaybePromise<Outcome<Json>>): Promise<Outcome<Json>>;
  /** Changes the number of parallel paths of the script, which begins with one. */
  paths(change: number): void;
}

export interface ScriptRequest {
  text: string;
  /** File of the script. `line` and `column` locate its first character. */
  file: string;
  line: number;
  column: number;
  /** Variables, and the fields of `@input`. */
  inputs: ReadonlyMap<string, Value>;
  /** True if the script is signed, so its guards can be privileged. */
  isSigned: boolean;
  /** Guards of every effect of the script. No statement can disable them. */
  guards: GuardSet;
  /** Value of `@now`, which is the same in every run of the thread. */
  now: number;
  /** Marks of the sources of the script text. Every value of the script carries them. */
  marks?: Descriptor;
  signal: AbortSignal;
  /** Called before every operation. A failure stops the script. */
  gate(): Outcome<null>;
  /** Absent: the script can only compute, and any effect ends it. */
  actions?: ScriptActions;
}

export interface ScriptAnswer {
  /** Value of `/return { … }`. Absent: the script ended without it. */
  outputs?: Value;
  text: string;
  /** Marks of the outputs, the printed text and the fault. */
  marks: Descriptor;
  /** Failure of the script. `detail` has its location: `file`, `line`, `column`. */
  fault?: Fault;
  /** True if a script without `actions` tried an effect. It has had no effect. */
  needsThread?: boolean;
}

export interface ScriptPort {
  /** Runs a script. The promise never rejects. */
  (request: ScriptRequest): Promise<ScriptAnswer>;
  /** Parses a plan and does not run it. `given`: names of its initial variables. */
  readPlan(text: string, given: readonly string[]): Promise<PlanReading>;
}

/** Source of a value in a plan: fields of the result of a step, or an initial variable. */
export type PlanSource =
  | { readonly step: number; readonly fields: readonly string[] }
  | { readonly input: string };

/** A call of a tool in the text of a plan. */
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
  /** Names that each `return` has. `undefined`: the names are not written out. */
  readonly returns: readonly (readonly string[] | undefined)[];
}

export interface TokenPort {
  /** Returns the key that signs capability tokens. */
  key(): Outcome<KeyPair>;
  /** Verifies the token of a thread under the policies in force. */
  verify(auth: string, thread: string): Outcome<VerifiedToken>;
}

export interface ThreadFacts {
  readonly directive: string;
  readonly parent?: string;
  readonly kind: 'thread' | 'hook';
  readonly title?: string;
}

/** Events that a transcript contains and the store does not. */
export interface LostCommits {
  readonly events: number;
  /** Calls with the effect `write` that had begun. */
  readonly calls: readonly { readonly call_id: string; readonly tool: string }[];
}

export interface WatchPort {
  /** Opens the transcript of a thread. `about`: facts for people, if the thread runs here. */
  transcript(
    thread: string,
    about?: ThreadFacts,
  ): (events: readonly Noted[], firstSeq: number) => void;
  /** Called with every recorded event, for a live view. */
  onEvent?(thread: string, event: Noted): void;
  onText?(thread: string, piece: string): void;
  /** Opens the raw stream of a thread that keeps the events of its provider. */
  rawStream?(thread: string, turn: number): RawStream;
  /** Returns the observer that traces the next request of a thread. Absent: no SDK is registered. */
  traced?(thread: string): RawStream | undefined;
  sinks?(thread: string): SinkWatch;
  /** Counts the events of the transcript after this number, which the store lost. */
  ahead?(thread: string, seq: number): LostCommits;
  /** Resolves when the transcript contains every event, and those that it had lost. */
  written?(thread: string): Promise<void>;
  /** Returns the text without the secrets of the thread. `inputs`: the text is for a child with these inputs. */
  mask?(thread: string, text: string, inputs?: Json): string;
  /** Called when this process has released the thread. */
  done?(thread: string): void;
  /** Audit of model requests. The kernel audits calls. */
  audit?: Pick<Audit, 'write'>;
}

/** Observes the sinks that a provider's tool declares for the streams of a thread. */
interface SinkWatch {
  /** Returns a filter that hides the thread's secrets, even a secret that several events contain in parts. */
  filter: () => EventFilter | undefined;
  /** Reports a sink that failed. The stream continues. */
  trouble(message: string): void;
}

export interface RawStream {
  /** Called before the request is sent. `body` is JSON with the settings of the request. */
  sent?(url: URL, body: string): void;
  write(event: StreamEvent): void;
  /** Called once, however the request ended. */
  end(): void;
}

export interface ReplayPort {
  /** Returns the journal writer of a replayed thread. */
  openJournal(...parts: ConstructorParameters<typeof JournalWriter>): JournalWriter;
  /** Returns the recorded events that the replay has not reached yet. */
  rest(thread: string): readonly Recorded[];
  /** Returns the recorded result of a step, which is not run again. `isLate`: also after a resume. */
  recorded(thread: string, call: string, isLate?: boolean): Promise<Outcome<Value>>;
  /** True if a model request is the next recorded work. */
  begins(thread: string): boolean;
  /** Returns the number of parallel calls from this one on, or `undefined` if the journal lacks it. */
  group(thread: string, call: string): number | undefined;
  /** The recorded step after a failed request: a signal, a wait in milliseconds, another model, or nothing. */
  move(thread: string): number | 'again' | 'fallback' | 'none' | undefined;
  /** Returns the recorded refusal. The store also counted the descendants when it refused. */
  refused(thread: string, now: Failure): Promise<Failure | undefined>;
  /** Returns the length of the next answer, if the budget shortened it. */
  fitted(thread: string): Promise<number | undefined>;
  /** Returns the id of the hook's thread that started here, or `undefined` if none did. */
  hook(thread: string): Promise<string | undefined>;
  /** Returns the result of that hook, with status `interrupted` if the journal has no answer of it. */
  hookResult(thread: string, hook: string): Promise<ThreadResult>;
  /** Returns the recorded answer of a person to the last approval request. */
  asked(thread: string): Promise<Outcome<ApprovalAnswer>>;
  /** Returns the recorded opening if the directive is the same, because tools and advice can differ. */
  shown(content: Json): Json;
}

export interface ModelRequest {
  system: string;
  messages: readonly Message[];
  /** Files in the messages. They are read when the body is written. */
  files?: FileSource;
  tools: readonly ToolDefinition[];
  maxTokens: number;
  /** Cache of the messages in the form in which earlier requests of this conversation contained them. */
  written: WrittenMessages;
  /** Options for the estimate if the provider reports no usage, and the receiver of text as it arrives. */
  reading: ReaderOptions;
  /** 32 hex digits that all threads of a tree share, for the cache of the provider. */
  cacheKey?: string;
  /** True if no seal is sent, not even to the model that wrote it. */
  areSealsOff?: boolean;
  /** Time on the monotonic clock after which the request is not sent. */
  sendBy?: number;
  /** Receive every event of the stream unchanged. */
  raw?: readonly RawStream[];
  marks?: () => Descriptor;
  /** Returns the observer of the sinks that the provider's tool declares. */
  sinks?: () => SinkWatch | undefined;
}

/** A model that requests can be sent to. */
export interface ModelLine {
  ask(request: ModelRequest, signal: AbortSignal): Promise<Outcome<ModelReply>>;
}

/** Opens a model. `caller` is the harness, because no thread has the right to call a provider itself. */
export type ModelPort = (model: ResolvedModel, caller: Caller) => Promise<Outcome<ModelLine>>;

interface RunnerTask {
  thread_id: string;
  directive: string;
  inputs: Json;
  /** Aborted at the deadline, and when the thread or its parent is ended. */
  signal: AbortSignal;
}

/** Returns the outputs of the directive. It is called again when the thread is resumed. */
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

/** An attachment that was read and checked. */
export interface ReadyFile {
  readonly name: string;
  readonly text: string;
  readonly marks: Descriptor;
  /** Absent: the attachment is a text. */
  readonly file?: FileBlock;
  /** Absent for a text, in a replay, and after the file was stored. */
  bytes?: Uint8Array;
  /** Hash of a file that the person vouches for. */
  readonly vouched?: string;
}
