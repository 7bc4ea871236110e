// Defines the types of a running thread and of its ports. Functions are in other folders. A function takes the
// part of `Thread` that it uses, such as `RightsHolder`, so its signature says what it can touch.
// `HarnessPorts` is here, because a thread reaches the other threads of its process through it.
import type { Clock, Failure, Json, JsonObject, Outcome, RandomBytes } from '../../base/index.ts';
import type { CompiledExpression } from '../../expr/index.ts';
import type {
  Descriptor,
  Frame,
  FrameOptions,
  GuardSet,
  GuardSource,
  MaybePromise,
  PolicyState,
  ToolEffect,
  Value,
} from '../../flow/index.ts';
import type { Directive, DirectiveItem, Hook, Library } from '../../items/index.ts';
import type {
  ApprovalNote,
  Bounds,
  HookStart,
  JournalEvent,
  Marks,
  Opening,
  Recorded,
} from '../../journal/index.ts';
import type { Kernel } from '../../kernel/index.ts';
import type { Price, Prices, ResolvedModel, ToolDefinition } from '../../llm/index.ts';
import type {
  Amounts,
  Answer,
  Approval,
  Lease,
  Memories,
  Renewed,
  Store,
  StoredEvent,
} from '../../store/index.ts';
import type { ApprovedRight, CapabilityToken } from '../../trust/index.ts';
import type { CostMeter } from '../limits/cost.ts';
import type { EffectiveLimits, LimitAmounts } from '../limits/limit.ts';
import type { Ending } from '../loop.ts';
import type { Conversation } from './conversation.ts';
import type { JournalWriter } from './journal-writer.ts';
import type {
  ModelPort,
  ReadyFile,
  ReplayPort,
  Runner,
  ScriptPort,
  ThreadResult,
  TokenPort,
  WatchPort,
} from './ports.ts';
import type { References } from './references.ts';
import type { Room } from './room.ts';

export interface Thread {
  readonly ports: HarnessPorts;
  readonly place: Lineage;
  readonly rights: Rights;
  readonly budget: Budget;
  readonly talk: Talk;
  readonly hooks: Hooks;
  readonly control: Control;
  readonly journal: JournalWriter;
}

/** The rights of a thread, and the ports that check and mint them. */
export type RightsHolder = Pick<Thread, 'ports' | 'place' | 'rights'>;
/** The budget of a thread, and the store with the budgets of its ancestors. */
export type BudgetHolder = Pick<Thread, 'ports' | 'place' | 'budget'>;
/** The directive and the conversation of a thread, and the library that they refer to. */
export type DirectiveTalk = Pick<Thread, 'ports' | 'place' | 'talk'>;
/** The journal of a thread: its writer, and the store that it is read from. */
export type OwnJournal = Pick<Thread, 'ports' | 'place' | 'journal'>;
/** The calls that a thread makes now, and the journal that records them. */
export type CallRecord = Pick<Thread, 'place' | 'control' | 'journal'>;
/** Work that a signal, the deadline or a lost lease stops. */
export type Interruptible = Pick<Thread, 'budget' | 'control' | 'journal'>;

/** Position of the thread in its tree, and the directive that it runs. */
export interface Lineage {
  readonly id: string;
  readonly parent: string | undefined;
  readonly depth: number;
  /** Ids from this thread to its root. Each of them is charged. */
  readonly chain: readonly string[];
  readonly kind: 'thread' | 'hook';
  readonly runner: string;
  /** True if the thread lives on after the end of its parent. */
  readonly detached: boolean;
  /** Number of hooks that this thread runs inside of. A thread outside of hooks has 0. */
  readonly nesting: number;
  /** Present if the model writes a plan before it reads anything. `check`: the plan is checked and not run. */
  readonly plan?: 'run' | 'check';
  readonly comparison?: ComparedTurns;
  readonly item: DirectiveItem;
  readonly directive: Directive;
  /** Inputs of the current attempt. A hook can replace them when it restarts the run. */
  inputs: JsonObject;
}

/** The recorded turns with which a thread of the runner `compare` compares the calls of another model. */
interface ComparedTurns {
  readonly history: readonly Recorded[];
  /** Numbers of the first and the last turn that are compared. */
  readonly from: number;
  readonly to: number;
}

interface Rights {
  /** Rights that the directive declares. The getter renews the token while the thread lives. */
  readonly own: OwnRights;
  readonly approved: ApprovedRights;
  readonly rules: ThreadRules;
}

/** Rules from directives, as plain JSON, so that events can store them. */
export interface GivenRules {
  readonly guards: readonly GuardSource[];
  /** A person is asked before any change. */
  readonly ask_first?: true;
  /** The thread cannot change items or propose a change of a directive. */
  readonly no_auto_fix?: true;
  /** The third failure of a tool in a row becomes a question to a person. */
  readonly escalate?: true;
  /** The thread cannot make a call that changes anything. */
  readonly read_only?: true;
}

export interface ThreadRules {
  /** Guards in force now, of this thread and of its ancestors. */
  guards(): GuardSet;
  /** Guards at the start, without the rules of directives that the thread executed later. */
  atStart(): GuardSet;
  /** All rules of this thread, which a child inherits. */
  given(): GivenRules;
  /** Adds the rules of a directive that this call executed. They hold from now on. */
  executed(call: string, rules: GivenRules): Outcome<null>;
  /** Returns the rules that this call added, for its result event. A second call returns `undefined`. */
  taken(call: string): GivenRules | undefined;
  restore(rules: GivenRules): void;
}

export interface OwnRights {
  token: CapabilityToken;
  /** Token that calls carry as `__auth`. The model never sees it. */
  auth: string;
  granted: readonly string[];
  /** Tools with a limited number of uses, from the tokens of this thread and of its ancestors. */
  budgets: readonly UseBudget[];
}

/** Limit in a token block on the number of calls of a tool by a thread and its descendants. */
export interface UseBudget {
  readonly tool: string;
  readonly max: number;
  readonly thread: string;
  readonly directive: string;
}

export interface ApprovedRights {
  /** Approved rights of this thread. Its descendants can use them too. */
  own(): readonly ApprovedRight[];
  /** Adds a right and records it, so that a resumed thread has it. */
  add(approval: Approval): void;
  restore(note: ApprovalNote): void;
  /** Returns the token for a call. Without a call the token is for checks alone, and no use is counted. */
  auth(call?: string): string;
  /** Reads the approvals of ancestors that do not run in this process. */
  load(): Promise<void>;
  /** Approved rights in force. Each call takes one use of each of them with its intent. */
  takeable(): readonly ApprovedRight[];
  /** Sets the uses that this call took, and the reason for each right that it did not get. */
  taken(call: string, uses: readonly TakenUse[], refused: ReadonlyMap<string, Failure>): void;
  /** Approvals that a lost process took for a call without a result. */
  leftFor(call: string): readonly string[];
  /** Drops all rights of this thread, which belong to the source of a fork. */
  startOver(): void;
  /** Drops the uses that a lost process took for this call, because the journal has its result. */
  restoreResult(call: string): void;
  /** Marks the approval as exercised. Fails with `permission_denied` if this token's call did not take it. */
  use(approval: string, token: string): Outcome<null>;
  /** Returns the uses that this call took and did not exercise. The result event returns them. */
  unused(call: string): readonly TakenUse[];
}

/** One use of an approval by one call. */
export interface TakenUse {
  readonly approval: string;
  readonly binding: JsonObject;
  /** Number of uses that remain after this one. */
  readonly uses_left: number;
}

interface Budget {
  readonly meter: CostMeter;
  limits: EffectiveLimits;
  readonly initial: EffectiveLimits;
  /** Key of the reservation that requests of this thread draw from. Absent for most threads. */
  readonly drawFrom: string | undefined;
  /** Keys of limit warnings that were raised already. */
  readonly warned: Set<string>;
  /** Number of tokens in the context window at the last check. */
  windowSeen: number;
}

/** One conversation with a model. A script that asks a model gets one of its own for each question. */
export interface Talk {
  readonly conversation: Conversation;
  /** Untrusted texts that the model knows by reference alone. Absent: the model reads them. */
  readonly references?: References;
  readonly system: string;
  /** Tools that the model can call. Absent: the four kernel tools. */
  readonly tools?: readonly ToolDefinition[];
  /** The conversation is that of another thread, so the reply is not added to it. */
  readonly isCompared?: true;
  /** Number of the plan that the model is asked for. */
  readonly plan?: number;
  /** The pass whose summary the model is asked for, and the longest answer in tokens. */
  readonly compact?: { readonly number: number; readonly most: number };
  readonly room: Room;
  /** True if the provider's events are written to `stream.jsonl`. */
  readonly isStreamKept: boolean;
  model: ResolvedModel;
  price: Price;
  readonly fallback: string | undefined;
  readonly triedModels: Set<string>;
  /** True after the provider rejected a seal. Until the thread ends no seal is sent. */
  areSealsOff?: boolean;
  /** True after the warning that this model does not get the seals of another one. */
  areSealsDropped?: boolean;
  /** Tokens per byte, from the last usage that a provider reported. */
  ratio: number | undefined;
  readonly opening: Opening[];
  /** A reply that hooks have not accepted yet (`said`), and the messages that came after it (`later`). */
  unjudged?:
    | { readonly said: JournalEvent[]; readonly later: JournalEvent[]; isAsked: boolean }
    | undefined;
  /** Number of reminders about missing outputs. */
  reminders: number;
  readonly detector: LoopDetector;
  loops: number;
}

export interface Hooks {
  readonly list: readonly CompiledHook[];
  /** Hooks that fired and whose condition has been true since then. */
  readonly fired: Set<number>;
  bounds: Bounds;
  /** Key of the reservation that hooks draw from. `undefined`: nothing is reserved for them. */
  reserve: string | undefined;
  /** Amounts reserved for hooks. They are not part of the thread's own limits. */
  readonly limits: LimitAmounts;
  left: Amounts;
  /** Threads of hooks that have started and not answered, by id. */
  readonly pending: Map<string, HookStart>;
  /** Runs the directive of a hook in a thread of its own. Returns its outputs with their marks. */
  readonly run: RunHook;
}

/** Facts about a hook for its `hook_start` event. `held` is computed when it is needed. */
export type HookAbout = Omit<HookStart, 'thread_id' | 'directive' | 'held'> & {
  readonly held?: () => MaybePromise<NonNullable<HookStart['held']>>;
};

/**
 * Runs a hook. `before`: resumes its thread. Fails with `approval_pending` {status, thread} if the hook's thread
 * is parked; the thread that it serves parks too.
 */
export type RunHook = (
  thread: Thread,
  name: string,
  inputs: JsonObject,
  asked:
    | { readonly about: HookAbout; readonly foreign?: readonly string[] | undefined }
    | { readonly before: HookStart },
) => Promise<Outcome<Value>>;

export interface CompiledHook {
  readonly hook: Hook;
  readonly index: number;
  readonly expression: CompiledExpression;
  readonly readsEvent: boolean;
  /** Names of the events at which the condition can be true. */
  readonly events: ReadonlySet<string>;
}

/** State of the run, and the ways to stop it. */
export interface Control {
  attempt: number;
  /** Aborted by the caller of the thread, or by `stopping`. */
  readonly signal: AbortSignal;
  readonly stopping: AbortController;
  /** The final status, once a step has decided it. The loop stops before its next step. */
  ending: Ending | undefined;
  stopped: boolean;
  /** Set if another process will resume the thread: the ending of the run at the next boundary. */
  leaving: Ending | undefined;
  /** Number of the last signal from before this run. */
  past: number;
  /** True if the thread was resumed after its end. An end or a pause from before the resume is ignored. */
  hadEnded: boolean;
  /** Running requests and tools. A signal makes each of them check whether it must stop. */
  readonly interruptions: Set<Interruption>;
  readonly intents: Map<string, CallIntent>;
  /** Number of failures in a row, by tool. */
  readonly failures: Map<string, number>;
  /** Failed calls that a person was asked about, by call id. */
  readonly escalated: Map<string, EscalatedCall>;
  readonly atWork: Map<string, CallIntent>;
  currentCall: string;
}

export type CalledOff = 'duration' | 'signal' | 'lost';

export interface Interruption {
  readonly signal: AbortSignal;
  cause(): CalledOff | undefined;
  /** Stops the work if a signal asks for that or the lease is lost. */
  check(): void;
  release(): void;
}

export interface CallIntent {
  /** Key of the call. A repetition of the same call has the same key; no other call has it. */
  key: string;
  /** Id of the thread that the call spawns. The id is reserved for this call. */
  child?: string;
  /** True if a lost process made the intent, so the child can exist already. */
  isUnfinished: boolean;
  /** Reasons why untrusted arguments were allowed to steer the call, for its result event. */
  about?: JsonObject;
  /** Number of this use, and whether the tool has begun. Present if uses of the tool are counted. */
  use?: { readonly n: number; isBegun: boolean };
  /** Approvals with a number of uses, of which this call took one. */
  taken?: readonly string[];
}

export interface EscalatedCall {
  readonly approval: string;
  /** Result of the failed call. The model gets it with the answer of the person. */
  readonly held: Json;
  readonly marks?: Marks;
}

export interface LoopDetector {
  observe(call: ObservedCall): LoopFound | undefined;
  /** Adds the result of a call. A call without a result counts as a call without progress. */
  learned(id: string, result: Json, isError: boolean): void;
  startOver(): void;
  tail(): readonly CallPrint[];
  history(): readonly CallPrint[];
}

export interface LoopFound {
  readonly pattern: 'repeated' | 'alternating' | 'similar';
  readonly tool: string;
  readonly count: number;
  /** A call that makes progress is not part of a loop. */
  readonly progress: false;
  readonly message: string;
}

export interface ObservedCall {
  readonly id?: string;
  readonly tool: string;
  /** Effect of the tool. Absent: the call only reads. */
  readonly effect?: ToolEffect;
  readonly arguments: Json;
  readonly volatile?: readonly string[];
  /** Turn of the call. The model made all calls of a turn before it saw any of their results. */
  readonly turn?: number;
}

/** Digest of a call as JSON, for storage and for children. It contains no argument in the clear. */
export interface CallPrint {
  readonly tool: string;
  readonly key: string;
  /** Digest of the value of each argument that counts, by name. */
  readonly fields: Readonly<Record<string, string>>;
  readonly turn?: number;
}

/** A checked directive that can start as a thread. */
/** `read`: no call may change anything. `ask`: every change asks a person. `declared`: all rights of the directive. */
export type ThreadMode = 'read' | 'ask' | 'declared';

export interface Prepared {
  /** Id of the directive for the row. `bundle:ID` is the shipped one, whatever the project has in its place. */
  id: string;
  item: DirectiveItem;
  directive: Directive;
  inputs: JsonObject;
  hooks: readonly CompiledHook[];
  model: ResolvedModel;
  price: Price;
  limits: EffectiveLimits;
  /** Amounts that the ancestors had left, for the shares that are computed at the start. */
  room?: LimitAmounts;
  stream?: boolean;
  plan?: 'run' | 'check';
  /** Narrows the rights that the directive declares. Absent: it has all of them. */
  mode?: ThreadMode;
  /** The turns of another thread, for the runner `compare`. Absent for all other runners. */
  comparison?: ComparedTurns;
  /** Files of the person, in front of the message. Absent: none. */
  files?: readonly ReadyFile[];
}

/** Ports of the harness to everything outside of it. The runtime creates them once. */
export interface HarnessPorts extends PreparePorts {
  kernel: Kernel;
  /** Calls that carry this object are exempt from questions about their tier. */
  tierExemption: object;
  store: Store;
  clock: Clock;
  random: RandomBytes;
  tokens: TokenPort;
  model: ModelPort;
  script: ScriptPort;
  /** Writes a new version of a directive of this project and signs it with the user's key. */
  changeDirective?(id: string, text: string): Outcome<null>;
  /** Returns a frame with the policies in force and the given guards and ports. */
  frame(more?: Pick<FrameOptions, 'guards' | 'ports'>): Frame;
  /** Texts of `AGENTS.md` in the project and of the universal prompt in the bundle. */
  instructions(): { agents: string; universal: string };
  threads: ThreadsPort;
  watch: WatchPort;
  /** Identity for new rows in a shared store. Absent: the path of the project identifies it. */
  identity?(): Outcome<ThreadIdentity>;
  /** Opens the file with the user's memory. Absent: these rows are in the store. */
  userMemory?(): Answer<Memories>;
  /** Present in a replay: input from outside comes from the journal. */
  replay?: ReplayPort;
}

/** Identity of a project, equal on every machine that has the project. */
interface ThreadIdentity {
  project: string;
  /** Digest of everything that can change the behaviour of a thread. */
  items: string;
  tenant?: string;
}

/** Ports for checks before a thread exists. They contain no store and no key. */
export interface PreparePorts {
  project: string;
  library: Library;
  policies(): PolicyState;
  prices(): Prices;
  models(): JsonObject;
  /** Environment variables, to find out whether a provider's key is set. */
  env: Readonly<Record<string, string | undefined>>;
  /** Returns the recorded marks of a file with this hash. `undefined`: the file is not in the project. Absent: no file is. */
  fileMarks?(path: string, sha256: string): Promise<Descriptor | undefined>;
}

/** The other threads, in this process and in others. */
export interface ThreadsPort {
  live: LiveThreads;
  /** Name of this process as an owner of leases. */
  owner: string;
  runners?: Readonly<Record<string, Runner>>;
  /** Returns the ports of another project over the same store. `allow` is called before it opens. */
  elsewhere(path: string, allow: (real: string) => Outcome<null>): Promise<Outcome<HarnessPorts>>;
  /** Resumes a thread that no process runs. */
  resume(id: string): Promise<Outcome<ThreadResult>>;
  /** Reads a journal, or its first events (`most`). Secrets are in the clear. */
  history(id: string, most?: number): Answer<StoredEvent[]>;
}

export interface LiveThread {
  readonly thread: Thread;
  readonly done: Promise<ThreadResult>;
}

interface PlaceInLine {
  /** Resolves when everything before it has left the queue. */
  readonly isFirst: Promise<unknown>;
  leave(): void;
}

export interface LiveThreads {
  add(live: LiveThread): void;
  remove(id: string): void;
  get(id: string): LiveThread | undefined;
  childrenOf(id: string): LiveThread[];
  all(): LiveThread[];
  readonly leases: LeaseKeeper;
  /** Runs `start` once fewer than the maximum number of threads are starting. */
  admit<T>(start: () => Promise<T>): Promise<T>;
  entered(id: string): Promise<void>;
  queueUp(key: string): PlaceInLine;
  /** Resumes a thread. Concurrent calls for the same thread share one result. */
  resumed(id: string, resume: () => Promise<Outcome<ThreadResult>>): Promise<Outcome<ThreadResult>>;
  /** Resumes a thread whose lease was taken just now. An older run of the thread in this process ends first. */
  taken(id: string, resume: () => Promise<Outcome<ThreadResult>>): Promise<Outcome<ThreadResult>>;
  /** Ends the current step of every thread for other processes to resume. Resolves when nothing runs. */
  requeueAll(): Promise<void>;
  /** Stops every thread, including those that are about to start. Resolves when nothing runs. */
  close(ending: Ending): Promise<void>;
}

export interface RenewedLease extends Lease {
  readonly store: Pick<Store, 'renew'>;
  /** Duration of the lease when it was claimed. */
  readonly lease_ms: number;
  /** Receives the renewed lease, `undefined` if lost. `asked`: time of the request on the keeper's clock. */
  readonly renewed: (answer: Renewed | undefined, asked: number) => void;
}

export interface LeaseKeeper {
  /** Renews the lease at each third of its time until the returned function is called. `since`: its start. */
  keep(lease: RenewedLease, since?: number): () => void;
  beat(): void;
  now(): number;
}
