// What the harness asks of the script language, and what a script may ask of the thread that runs it.
// Neither room knows the other: the runtime stands in between.
import type { Clock, Fault, Json, JsonObject, Outcome, RandomBytes } from '../../base/index.ts';
import type { Descriptor, Frame, MaybePromise, PolicyState, Value } from '../../flow/index.ts';
import type { Effect, Library } from '../../items/index.ts';
import type { Audit, Caller, Kernel } from '../../kernel/index.ts';
import type { Prices } from '../../llm/index.ts';
import type { Store, ThreadStatus } from '../../store/index.ts';
import type { KeyPair, VerifiedToken } from '../../trust/index.ts';
import type { RawStream } from '../observe/raw-stream.ts';
import type { Runner } from '../run/runner.ts';
import type { ModelPort } from '../turn/ask-model.ts';
import type { Marks, Noted } from './journal-event.ts';
import type { LiveThreads } from './live-threads.ts';

/** Something a script does by itself: a command, a block of code, a file. */
export interface ScriptAct {
  /** `cmd`, `sh`, `node`, `py`, `write`, `append`, `read` …: events call it `script:cmd`. */
  name: string;
  effect: Effect;
  /** What it is about, as the journal keeps it; the same act has the same arguments. */
  arguments: JsonObject;
}

/** What a script reaches outside of itself. Every one of them is a step of the thread. */
export interface ScriptDeeds {
  /** The right it works with now. */
  auth(): Pick<Caller, '__auth' | '__thread_id' | '__directive_id'>;
  tool(id: string, parameters: ReadonlyMap<string, Value>, frame: Frame): Promise<Outcome<Value>>;
  help(action: string, message: Value, frame: Frame): Promise<Outcome<Value>>;
  model(
    request: { prompt: Value; tier: string | undefined },
    frame: Frame,
  ): Promise<Outcome<Value>>;
  act(act: ScriptAct, work: () => MaybePromise<Outcome<Json>>): Promise<Outcome<Json>>;
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
  /** What `@now` is: the same when it runs again. */
  now: number;
  signal: AbortSignal;
  /** Asked before every operation: may the script go on? */
  gate(): Outcome<null>;
  /** Absent: it may only compute; whatever else it tries ends it. */
  deeds?: ScriptDeeds;
}

export interface ScriptAnswer {
  /** Of `/return { … }`. */
  outputs?: Value;
  /** What it printed. */
  text: string;
  /** Of everything it gave back, printed or said in its fault. */
  marks: Descriptor;
  /** With its place in `detail`: `file`, `line`, `column`. */
  fault?: Fault;
  /** It was only to compute and wanted more; it has done nothing. */
  needsThread?: boolean;
}

/** Never rejects. */
export type ScriptPort = (request: ScriptRequest) => Promise<ScriptAnswer>;

// What a thread needs from outside. Made once by the runtime; the harness imports no clock, disk or
// network of its own.

export interface World {
  project: string;
  kernel: Kernel;
  library: Library;
  store: Store;
  clock: Clock;
  random: RandomBytes;
  /** Who holds the leases: one name per process. */
  owner: string;
  policies(): PolicyState;
  prices(): Prices;
  models(): JsonObject;
  /** Root of capability tokens. */
  tokenKey(): Outcome<KeyPair>;
  /** What a thread's token is worth now, under the policies in force. */
  verifyToken(auth: string, thread: string): Outcome<VerifiedToken>;
  model: ModelPort;
  /** The language, for directives whose process is a script. */
  script: ScriptPort;
  /** In a replay: what a step of a script came to, so that it is not done again. */
  recorded?(thread: string, call: string): Outcome<Value>;
  /** In a replay: no event waits to share the commit of the next. */
  writesAtOnce?: true;
  /** Where model requests leave a row; calls leave theirs through the kernel. */
  audit?: Pick<Audit, 'write'>;
  /** Writes a new version of a directive of this project and signs it with the user's key. */
  changeDirective?(id: string, text: string): Outcome<null>;
  /** A frame with the policies in force, without ports. */
  frame(): Frame;
  /** Without policies and guards: for what only counts and records around a call that has them. */
  bareFrame(): Frame;
  /** `AGENTS.md` of the project and the universal text of the bundle. */
  instructions(): { agents: string; universal: string };
  /** The threads this process is running. */
  live: LiveThreads;
  /** Runners that the program registered, by name. */
  runners?: Readonly<Record<string, Runner>>;
  /** The same for another project, over this registry; `allow` is asked before it is opened. */
  elsewhere(path: string, allow: (real: string) => Outcome<null>): Promise<Outcome<World>>;
  /** Goes on with a thread that nobody works on. */
  resume(id: string): Promise<Outcome<ThreadResult>>;
  /** Is the key for this provider there? Says how to set it when it is not. */
  env: Readonly<Record<string, string | undefined>>;
  /** Where a thread that was asked to keeps what a provider sends. */
  rawStream?(thread: string, turn: number): RawStream;
  transcript(thread: string): (events: readonly Noted[], firstSeq: number) => void;
  /** For a live view: everything that is recorded, and text as it comes. */
  onEvent?(thread: string, event: Noted): void;
  onText?(thread: string, piece: string): void;
}

export interface ThreadResult {
  thread_id: string;
  status: ThreadStatus;
  outputs: Json;
  text: string;
  reason: string;
  cost: JsonObject;
  code?: string;
  /** What its words and outputs carry. */
  marks?: Marks;
}
