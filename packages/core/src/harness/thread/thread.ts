// One running thread and what it is made of. Types alone: what is done with them stands in the folders
// above, and all of those share this and nothing else. `HarnessPorts` stands here too, because the
// threads of a process are one of the things a thread reaches outside of itself.
import type { Clock, Failure, Json, JsonObject, Outcome, RandomBytes } from '../../base/index.ts';
import type { CompiledExpression } from '../../expr/index.ts';
import type {
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
} from '../../journal/index.ts';
import type { Kernel } from '../../kernel/index.ts';
import type { Price, Prices, ResolvedModel, ToolDefinition } from '../../llm/index.ts';
import type {
  Amounts,
  Answer,
  Approval,
  Lease,
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
  ReplayPort,
  Runner,
  ScriptPort,
  ThreadResult,
  TokenPort,
  WatchPort,
} from './ports.ts';
import type { References } from './references.ts';

export interface Thread {
  readonly ports: HarnessPorts;
  readonly place: Place;
  readonly rights: Rights;
  readonly budget: Budget;
  readonly talk: Talk;
  readonly hooks: Hooks;
  readonly control: Control;
  readonly journal: JournalWriter;
}

// Parts of a thread. A function takes the part that it uses, so its signature says what it can touch.

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

/** Where it stands in its tree, and what it runs. */
export interface Place {
  readonly id: string;
  readonly parent: string | undefined;
  readonly depth: number;
  /** Itself first, its root last: who is charged. */
  readonly chain: readonly string[];
  readonly kind: 'thread' | 'hook';
  readonly runner: string;
  /** Does it live on when its parent ends? */
  readonly detached: boolean;
  /** How many hooks stand around it. */
  readonly nesting: number;
  /** Its steps are written down before anything is read; `check`: and not done. */
  readonly plan?: 'run' | 'check';
  readonly item: DirectiveItem;
  readonly directive: Directive;
  /** Inputs of the current attempt. A hook can replace them when it restarts the run. */
  inputs: JsonObject;
}

interface Rights {
  /** What its directive declares, as it is now: the token is renewed while the thread lives. */
  readonly own: OwnRights;
  readonly approved: ApprovedRights;
  readonly rules: ThreadRules;
}

/** As directives say it; data, so that a journal can keep it. */
export interface GivenRules {
  readonly guards: readonly GuardSource[];
  /** A person is asked before anything is changed. */
  readonly ask_first?: true;
  /** Items are not changed, and no change of a directive is proposed. */
  readonly no_auto_fix?: true;
  /** The third failure of a tool in a row goes to a person. */
  readonly escalate?: true;
}

export interface ThreadRules {
  /** Of this thread and of all above it, as they are now. */
  guards(): GuardSet;
  /** Without those of directives that were executed later. */
  atStart(): GuardSet;
  /** All of them, for a child. */
  given(): GivenRules;
  /** A directive was executed here by this call: its rules hold from now on. */
  executed(call: string, rules: GivenRules): Outcome<null>;
  /** Those that a call brought, to be noted with its result; once. */
  taken(call: string): GivenRules | undefined;
  /** An event of the journal, read again. */
  restore(rules: GivenRules): void;
}

export interface OwnRights {
  token: CapabilityToken;
  /** What calls carry as `__auth`. The model never sees it. */
  auth: string;
  /** Names for `permissions.granted`. */
  granted: readonly string[];
  /** Tools that it and those above it may use so often, each with all below. */
  budgets: readonly UseBudget[];
}

/** As a block of its token says: how often everything in and below a thread may call a tool. */
export interface UseBudget {
  readonly tool: string;
  readonly max: number;
  readonly thread: string;
  readonly directive: string;
}

export interface ApprovedRights {
  /** Of this thread, as its journal has them; those below it may declare them too. */
  own(): readonly ApprovedRight[];
  /** From now on; noted in the journal, so that a resumed thread has it. */
  add(approval: Approval): void;
  /** An event of the journal, read again. */
  restore(note: ApprovalNote): void;
  /** What a call carries. Without a call: to look what could be done, nothing is used up. */
  auth(call?: string): string;
  /** Reads what was approved for ancestors that do not run here. */
  load(): Promise<void>;
  /** Which of them a call would carry: a use of each is taken with its intent. */
  takeable(): readonly ApprovedRight[];
  /** They were taken for this call; with the others, why not. */
  taken(call: string, uses: readonly TakenUse[], refused: ReadonlyMap<string, Failure>): void;
  /** Those that a lost process took for a call without a result. */
  leftFor(call: string): readonly string[];
  /** The journal has the result of this call. */
  restoreResult(call: string): void;
  /** Exercised by the call that this token was minted for. */
  use(approval: string, token: string): Outcome<null>;
  /** Taken for this call and never exercised: given back with its result. */
  unused(call: string): readonly TakenUse[];
}

/** One use of an approval, for one call. */
export interface TakenUse {
  readonly approval: string;
  readonly binding: JsonObject;
  /** How many are left after it. */
  readonly uses_left: number;
}

export interface Budget {
  readonly meter: CostMeter;
  limits: EffectiveLimits;
  readonly initial: EffectiveLimits;
  /** A reservation made up front that its requests draw from. */
  readonly drawFrom: string | undefined;
  /** Marks of limits that were told already. */
  readonly warned: Set<string>;
  /** How full the window was when it was last looked at, in tokens. */
  windowSeen: number;
}

/** What is said, and with whom. A script that asks a model has one of these for each question. */
export interface Talk {
  readonly conversation: Conversation;
  /** Where what strangers wrote is kept from its model; absent: it is shown. */
  readonly references?: References;
  readonly system: string;
  /** What its model may call; the four tools when absent. */
  readonly tools?: readonly ToolDefinition[];
  /** The plan of this number is asked for. */
  readonly plan?: number;
  /** Does it leave what the provider sends in `stream.jsonl`? */
  readonly isStreamKept: boolean;
  model: ResolvedModel;
  price: Price;
  /** What the directive wants instead of a model that fails. */
  readonly fallback: string | undefined;
  /** Models that were switched to because another failed. */
  readonly triedModels: Set<string>;
  /** Tokens per byte as last reported. */
  ratio: number | undefined;
  readonly opening: Opening[];
  /** A reply that its hooks have not let through yet, and what was told to the model meanwhile. */
  unjudged?:
    | { readonly said: JournalEvent[]; readonly later: JournalEvent[]; isAsked: boolean }
    | undefined;
  /** How often the model was asked for outputs it owes. */
  reminders: number;
  readonly detector: LoopDetector;
  /** How often a loop was found in this attempt. */
  loops: number;
}

export interface Hooks {
  readonly list: readonly CompiledHook[];
  /** Hooks that fired and whose condition has been true ever since. */
  readonly fired: Set<number>;
  bounds: Bounds;
  /** Where they draw their budget from; undefined when nothing was set aside. */
  reserve: string | undefined;
  /** What was set aside for them; not part of the thread's own limits. */
  readonly limits: LimitAmounts;
  left: Amounts;
  /** Threads of hooks that were begun and whose answer is not known yet, by their id. */
  readonly pending: Map<string, HookStart>;
  /** Runs a hook's directive in a thread of its own; its outputs, with what they carry. */
  readonly run: RunHook;
}

/** What a hook is asked about, as its birth is noted; `held` is made when it is needed. */
export type HookAbout = Omit<HookStart, 'thread_id' | 'directive' | 'held'> & {
  readonly held?: () => MaybePromise<NonNullable<HookStart['held']>>;
};

/**
 * `before`: its thread is there already and goes on. `approval_pending` {status, thread} when it rests: it
 * has not answered, and whoever it serves rests with it.
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
  /** Place in document order. */
  readonly index: number;
  readonly expression: CompiledExpression;
  readonly readsEvent: boolean;
  /** Names of the events at which it may match. */
  readonly events: ReadonlySet<string>;
}

/** What goes on in it now, and who may stop it. */
export interface Control {
  attempt: number;
  /** Aborted by whoever called it, or by `stopping`. */
  readonly signal: AbortSignal;
  readonly stopping: AbortController;
  /** Set by whoever decided that the run is over; the loop stops at the next boundary. */
  ending: Ending | undefined;
  stopped: boolean;
  /** Set when another process is to go on with it: how it ends here at its next boundary. */
  leaving: Ending | undefined;
  /** The last signal that was there before this process went on with it. */
  past: number;
  /** Taken up after its end: no end and no pause that was asked for before it counts any more. */
  hadEnded: boolean;
  /** Requests and tools at work: told when somebody steers the thread. */
  readonly interruptions: Set<Interruption>;
  /** Calls without a result, by their id. */
  readonly intents: Map<string, CallIntent>;
  /** How often each tool has failed since it last did not. */
  readonly failures: Map<string, number>;
  /** Calls that failed once too often, by their id: what they came to, while a person is asked. */
  readonly escalated: Map<string, EscalatedCall>;
  /** Calls that tools are busy with, by their key. */
  readonly atWork: Map<string, CallIntent>;
  /** The id of the call at work. */
  currentCall: string;
}

export type CalledOff = 'duration' | 'signal' | 'lost';

export interface Interruption {
  readonly signal: AbortSignal;
  cause(): CalledOff | undefined;
  /** Somebody said something to the thread, or its lease is gone: is that a reason to stop? */
  check(): void;
  /** The work is over: ends the timer. */
  release(): void;
}

export interface CallIntent {
  /** The same when this very call is made again, never for another. */
  key: string;
  /** The thread that it spawns; nobody else may have been given this id. */
  child?: string;
  /** A process that is gone began it: its child may be there already. */
  isUnfinished: boolean;
  /** Why its arguments could steer it, once that was asked; for the note of its result. */
  about?: JsonObject;
  /** Of a tool whose uses are counted: which use of this call it is, and whether it has begun. */
  use?: { readonly n: number; isBegun: boolean };
  /** Approvals whose uses are counted, of which it has taken one. */
  taken?: readonly string[];
}

export interface EscalatedCall {
  readonly approval: string;
  /** As the model would have been told. */
  readonly held: Json;
  readonly marks?: Marks;
}

export interface LoopDetector {
  /** Before a call is made. */
  observe(call: ObservedCall): LoopFound | undefined;
  /** What the call with this id brought back. Without it every call counts as fruitless. */
  learned(id: string, result: Json, isError: boolean): void;
  /** A new attempt: nothing of the calls before counts. */
  startOver(): void;
  /** For a child: the last three calls. */
  tail(): readonly CallPrint[];
  history(): readonly CallPrint[];
}

export interface LoopFound {
  readonly pattern: 'repeated' | 'alternating' | 'similar';
  readonly tool: string;
  readonly count: number;
  /** Where there is progress nothing is found. */
  readonly progress: false;
  readonly message: string;
}

export interface ObservedCall {
  /** So that `learned` finds it again. */
  readonly id?: string;
  readonly tool: string;
  /** What is not known to change anything only reads. */
  readonly effect?: ToolEffect;
  readonly arguments: Json;
  /** Parameters that the tool declares `volatile`. */
  readonly volatile?: readonly string[];
  /** Calls of one turn were all made before any of their results was seen. */
  readonly turn?: number;
}

/** JSON, so that it can be kept over a restart and handed to a child. Holds no argument in the clear. */
export interface CallPrint {
  readonly tool: string;
  readonly key: string;
  /** By argument that counts: a digest of its value. */
  readonly fields: Readonly<Record<string, string>>;
  readonly turn?: number;
}

/** A directive that was looked at from all sides and may become a thread. */
export interface Prepared {
  item: DirectiveItem;
  directive: Directive;
  inputs: JsonObject;
  hooks: readonly CompiledHook[];
  model: ResolvedModel;
  price: Price;
  limits: EffectiveLimits;
  /** What those above had left when it was prepared, for what is shared out at its start. */
  room?: LimitAmounts;
  stream?: boolean;
  plan?: 'run' | 'check';
}

/** What a thread needs from outside. Made once by the runtime; the harness has no clock of its own. */
export interface HarnessPorts extends PreparePorts {
  kernel: Kernel;
  /** The kernel asks no person about the tier of a call that carries this object. */
  tierExemption: object;
  store: Store;
  clock: Clock;
  random: RandomBytes;
  tokens: TokenPort;
  model: ModelPort;
  /** The language, for directives whose process is a script. */
  script: ScriptPort;
  /** Writes a new version of a directive of this project and signs it with the user's key. */
  changeDirective?(id: string, text: string): Outcome<null>;
  /** A frame with the policies in force, and what else is to hold in it. */
  frame(more?: Pick<FrameOptions, 'guards' | 'ports'>): Frame;
  /** `AGENTS.md` of the project and the universal text of the bundle. */
  instructions(): { agents: string; universal: string };
  threads: ThreadsPort;
  watch: WatchPort;
  /** Where machines share the store: what new rows say. Absent: the store is this project's, its path is enough. */
  identity?(): Outcome<ThreadIdentity>;
  /** In a replay: what comes from outside is taken from the journal. */
  replay?: ReplayPort;
}

/** Of a project, the same on every machine that has it. */
interface ThreadIdentity {
  /** Stable id, in the place of its path. */
  project: string;
  /** Digest of everything that can change what a thread does. */
  items: string;
  tenant?: string;
}

/** What is looked at before a thread exists: no registry, no key of our own. */
export interface PreparePorts {
  project: string;
  library: Library;
  policies(): PolicyState;
  prices(): Prices;
  models(): JsonObject;
  /** Is the key for this provider there? Says how to set it when it is not. */
  env: Readonly<Record<string, string | undefined>>;
}

/** The other threads, here and elsewhere. */
export interface ThreadsPort {
  live: LiveThreads;
  /** Who holds the leases: one name per process. */
  owner: string;
  /** Runners that the program registered, by name. */
  runners?: Readonly<Record<string, Runner>>;
  /** The ports of another project, over this registry; `allow` is asked before it is opened. */
  elsewhere(path: string, allow: (real: string) => Outcome<null>): Promise<Outcome<HarnessPorts>>;
  /** Goes on with a thread that nobody works on. */
  resume(id: string): Promise<Outcome<ThreadResult>>;
  /** The journal of a thread that is held here, its secrets in place. */
  history(id: string): Answer<StoredEvent[]>;
}

export interface LiveThread {
  readonly thread: Thread;
  /** Never rejects. */
  readonly done: Promise<ThreadResult>;
}

interface PlaceInLine {
  /** Resolves when all who came before have left. */
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
  /** Starts one, when not too many others are starting. */
  admit<T>(start: () => Promise<T>): Promise<T>;
  /** Resolves when a thread of this id runs here. */
  entered(id: string): Promise<void>;
  /** A place in the line of those who wait for the same. */
  queueUp(key: string): PlaceInLine;
  /** Goes on with a thread; whoever asks while that is under way is given the same answer. */
  resumed(id: string, resume: () => Promise<Outcome<ThreadResult>>): Promise<Outcome<ThreadResult>>;
  /** The same for one that was taken just now; what this process had of it before has lost its lease, and ends first. */
  taken(id: string, goOn: () => Promise<Outcome<ThreadResult>>): Promise<Outcome<ThreadResult>>;
  /** Each ends its step and is left to others, also those that are only about to run; resolves when nothing runs. */
  handOver(): Promise<void>;
  /** Stops all of them, also those that are only about to run; resolves when nothing runs. */
  close(ending: Ending): Promise<void>;
}

export interface HeldLease extends Lease {
  readonly store: Pick<Store, 'renew'>;
  /** How long it was when it was had. */
  readonly lease_ms: number;
  /** Undefined: it is gone. `asked`: when it was asked for, by the clock of the keeper. */
  readonly renewed: (answer: Renewed | undefined, asked: number) => void;
}

export interface LeaseKeeper {
  /** Renewed at a third of what the store gives, until the answer is called. `since`: when the lease began. */
  keep(lease: HeldLease, since?: number): () => void;
  beat(): void;
  /** By the clock that `since` is read from. */
  now(): number;
}
