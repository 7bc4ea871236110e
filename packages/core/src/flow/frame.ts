// Where we are while something acts: an immutable linked frame, and what it holds of guards, policies
// and ports. Types only: each of those parts is made by a folder above and is handed the whole frame,
// so what they know of one another is said here, once.
import type { Json, Outcome } from '../base/index.ts';
import type { Argument, InputRole, LookAtPlace, Operation, PreviewWrite } from './operation.ts';
import type { Descriptor } from './values/labels.ts';
import type { Value } from './values/value.ts';

/** For ports and closures that may answer at once; who calls them awaits. */
export type MaybePromise<T> = T | Promise<T>;

/** Who performs again when a guard says retry, and how often it has. */
export interface RetryBudget {
  /** From 1. */
  readonly attempt: number;
  readonly max: number;
  /** Hints of the attempts so far, oldest first. */
  readonly hints: readonly string[];
  /** Running out of attempts is a limit reached, not a refusal: pipelines. */
  readonly isLimit?: boolean;
}

/** Namespaces of `ctx` that others fill; a function is read when `ctx` is (live counters). */
export interface ContextFacts {
  readonly pipe?: Json | (() => Json);
  readonly guard?: Json | (() => Json);
  readonly denied?: boolean;
  readonly errors?: Json;
  readonly errorMarks?: Descriptor;
  readonly for?: Json;
  readonly loop?: Json;
  readonly while?: Json;
  readonly args?: Json | (() => Json);
  readonly tools?: Json | (() => Json);
  readonly profile?: Json;
  readonly hooks?: Json | (() => Json);
  readonly thread?: Json | (() => Json);
  readonly cost?: Json | (() => Json);
  readonly limits?: Json | (() => Json);
  /** The operation a script hook was called for: `ctx.op` in everything the hook says. */
  readonly op?: Operation | undefined;
  /** What `ctx.labels`, `ctx.taint` and `ctx.sources` show: the judged value's marks. */
  readonly descriptor?: Descriptor;
}

export interface Frame {
  readonly parent: Frame | undefined;
  readonly ports: Ports;
  readonly guards: GuardSet;
  readonly policy: FramePolicy;
  /** Marks of the conditions under which we act. */
  readonly influence: Descriptor;
  /** Labels of the functions we are inside of. */
  readonly held: readonly string[];
  readonly op: Operation | undefined;
  readonly inputs: readonly Argument[];
  /** A guard is being evaluated: guards and script hooks are off for what it does. */
  readonly isJudging: boolean;
  /** A script hook runs: script hooks are off for what it does, guards are not. */
  readonly isHooking: boolean;
  /** A person was asked about this very operation and said yes. */
  readonly isApproved: boolean;
  /** Identity of the file that the person was shown. A write is refused if the file has changed since. */
  readonly approved?: string;
  /** What a privileged guard has lifted for this very operation, and for the parts of it judged again. */
  readonly exception: PolicyException | undefined;
  /** The next operation is a part of this one: the body that a call consists of. */
  readonly isPart: boolean;
  readonly selection: GuardSelection | undefined;
  readonly retry: RetryBudget | undefined;
  readonly emit: ((effect: Effect) => void) | undefined;
  readonly facts: ContextFacts;
}

export interface Input {
  readonly name: string;
  readonly role?: InputRole;
  readonly kind?: string;
  readonly place?: LookAtPlace;
  readonly preview?: PreviewWrite;
  readonly value: Value | ((note: InputNote) => MaybePromise<Outcome<Value>>);
}

/** For inputs that are evaluated: the frame to do it in, and what to leave behind. */
export interface InputNote {
  readonly frame: Frame;
  /** The state in which a pipeline ended: `ctx.pipe` while its value is judged. */
  pipe(state: Json): void;
}

export type Phase = 'before' | 'after';
export type GuardTiming = Phase | 'always';

export interface LabelChange {
  readonly add?: readonly string[];
  /** Privileged guards only; never `src:…` or `dir:…`. */
  readonly remove?: readonly string[];
  /** Removes every label there is. */
  readonly clear?: boolean;
  /** Of an operation's inputs each; otherwise those that are replaced, or the first. */
  readonly ofAll?: boolean;
}

interface Allowing {
  readonly labels?: LabelChange;
  /** An arm said so; otherwise none had anything to say. */
  readonly isSaid?: true;
}

export type Verdict =
  | ({ readonly kind: 'allow' } & Allowing)
  | ({ readonly kind: 'allow_value'; readonly value: Value | Json } & Allowing)
  | {
      readonly kind: 'deny' | 'retry' | 'ask';
      readonly text: string;
      /** Of what the text was made of, and of the conditions that chose it. */
      readonly marks?: Descriptor;
    };

/** What a guard may look at. Per-input guards have `input`, the others judge `inputs` together. */
export interface GuardView {
  readonly phase: Phase;
  readonly op: Operation;
  readonly input: Argument | undefined;
  readonly inputs: readonly Argument[];
  /** The result; undefined before. */
  readonly output: Value | undefined;
  /** Guards are off in it, and `ctx.guard` is filled. */
  readonly frame: Frame;
}

export type GuardFilter =
  | { readonly kind: 'label'; readonly label: string }
  | { readonly kind: 'operation'; readonly pattern: string }
  | { readonly kind: 'function'; readonly name: string };

/** Files that a policy closes to tools and processes, whatever they are given: a folder, or nothing at all. */
export interface ClosedFiles {
  /**
   * Why this one, by its path from the project, may not be read or written. A process is held to what is
   * denied by name, not to a list of what is allowed: it could not begin.
   */
  refusal(mode: 'r' | 'w', path: string, isProcess: boolean): string | undefined;
  /** Every glob that an answer for a process can depend on. */
  readonly globs: readonly string[];
}

export interface Guard {
  /** Unique in this process, so that two guards of one name never answer for each other. */
  readonly id: string;
  /** `@name`, or the place where an unnamed one stands. */
  readonly name: string;
  readonly on: string;
  readonly filter: GuardFilter;
  readonly timing: GuardTiming;
  readonly privileged: boolean;
  /** Part of a policy: no statement can leave it out. */
  readonly locked: boolean;
  /** Privileged, of a policy file or of the script that a person started: its word is an exception. */
  readonly lifts: boolean;
  /** Of a policy: asked for every file that a tool or a process would touch. */
  readonly closes?: ClosedFiles;
  decide(view: GuardView): MaybePromise<Outcome<Verdict>>;
}

export interface TraceEntry {
  readonly guardName: string;
  readonly decision: string;
  readonly reason: string | null;
  /** What the value was replaced by; null when it was not. */
  readonly replacement: Json;
}

/** `with { guards: … }` for one statement; names carry their `@`. */
export interface GuardSelection {
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  /**
   * The whole that an operation directly inside is a part of: those that were asked about it are not asked
   * again; those that only what is really done concerns are.
   */
  readonly partOf?: Frame;
}

export interface GuardSet {
  /** In source order. */
  readonly list: readonly Guard[];
  /** Those of policies: in force also while a guard is being evaluated. */
  readonly locked: GuardSet;
  /** Guards whose label these marks hold, in source order. */
  forMarks(descriptor: Descriptor, phase: Phase): readonly Guard[];
  /** The same for the result of an operation; effects have none. */
  forResult(op: Operation, descriptor: Descriptor): readonly Guard[];
  /** Guards before whose label an operation itself has, in source order. */
  forLabels(labels: readonly string[]): readonly Guard[];
  /** Guards on the operation or its function, in source order. */
  forOperation(op: Operation, held: readonly string[], phase: Phase): readonly Guard[];
  /** Could an after-guard object to this operation, whatever its result turns out to be? */
  mayObjectAfter(op: Operation, held: readonly string[]): boolean;
}

export type Objection = 'deny' | 'ask' | 'retry';

/** What one guard or rule had to say against an operation. */
export interface Finding {
  readonly kind: Objection;
  readonly guard: string;
  readonly filter: string;
  readonly text: string;
  /** The input it was about, when it was about one. */
  readonly input: string | undefined;
  readonly sources: readonly string[];
  /** What somebody can do so that it is not said again. */
  readonly ways?: readonly string[];
  /** Of what its text was made of. */
  readonly marks?: Descriptor;
  /** Absent: no exception lifts it. */
  readonly yields?: Yielding;
}

interface Yielding {
  /** What policy files and locked policies say to it all the same. */
  readonly leaves: 'ask' | 'off';
  /** The mark by which the input offends; absent: it offends by what it lacks. */
  readonly mark?: string | undefined;
  /** Of the input it is about, or of the condition; absent: it is about the operation. */
  readonly marks?: Descriptor | undefined;
  readonly isImplied?: boolean | undefined;
}

export interface PolicyException {
  /** Rules and filters, as `exceptions.ts` writes them. */
  readonly lifted: ReadonlySet<string>;
  /** Under which the inputs are noted, so that what is made of them only is known. */
  readonly id: string;
  /** Of the conditions that were judged with them. */
  readonly influence: Descriptor;
}

/** What a script may add to the policy in force. */
export interface PolicyRules {
  /** By label; `*` stands for every operation, whatever its inputs carry. */
  labels?: Record<string, LabelRule>;
  /** Gives operations a risk or label: `exfil: ["op:cmd:curl"]`. */
  operations?: Record<string, string[]>;
  defaults?: { unlabelled?: string[] };
  rules?: Record<string, RuleState>;
  packs?: string[];
  /** No privileged guard lifts what it refuses. */
  locked?: boolean;
}

/** Over operation keys and labels of operations; the most specific pattern wins. */
export interface LabelRule {
  deny?: string[];
  ask?: string[];
  /** Exceptions. A kind of operation that is mentioned here is closed for everything else. */
  allow?: string[];
}

export type RuleState = 'deny' | 'ask' | 'off';

/** What the pipeline asks of the policy in force; all of it is a `ComposedPolicy`. */
export interface FramePolicy {
  /** `policyContext` for every value made under it. */
  readonly mark: Descriptor;
  readonly guards: GuardSet;
  /** The `dir:` labels that a rule or a guard of it names. */
  readonly folders: readonly string[];
  /** `none`: processes may run in no sandbox. */
  readonly sandbox: 'none' | 'required';
  /** Labels for data from outside that carries none. */
  readonly unlabelled: readonly string[];
  /** Labels that `operations` gives an operation. */
  operationLabels(op: Operation, held: readonly string[]): readonly string[];
  /** Do its results carry no `untrusted` of their own? */
  trusts(tool: string): boolean;
  /** One more level below those in force, e.g. a script's: it can only narrow. */
  narrowedBy(more: PolicyRules): FramePolicy;
  /** False when no label rule, no risk and no tier could be concerned: the common case. */
  mayObject(
    op: Operation,
    held: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
  ): boolean;
  /** `reader`: a model that calls this itself; it may speak for strangers. `around`: what it is done in. */
  judge(
    op: Operation,
    held: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
    reader?: ModelReader,
    around?: Frame,
  ): readonly Finding[];
  /** Labels that rules put on the result. */
  resultLabels(
    op: Operation,
    held: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
  ): readonly string[];
}

/** Something that leaves: a line shown, a file written. Held back while an after-guard may object. */
export interface Effect {
  readonly kind: string;
  readonly value: Value;
  readonly text?: string;
  readonly target?: string;
  readonly line?: number;
}

export interface Question {
  readonly op: Operation;
  readonly phase: 'before' | 'after';
  /** Who asks (guards, rules) and what, in the same order. */
  readonly guards: readonly string[];
  readonly questions: readonly string[];
  readonly reasons: readonly string[];
  readonly arguments: readonly Argument[];
  readonly sources: readonly string[];
}

export interface Asked {
  readonly answer: 'approved' | 'denied' | 'pending' | 'expired';
  /** What the person said to it. */
  readonly why?: string;
  /** The content that they were shown: what is written is held to it. */
  readonly holds?: string;
  /** Under which id the question stands in the queue. */
  readonly approval?: string;
}

/** Script hooks may replace values, never decide. Undefined leaves the value as it is. */
export interface ScriptHooks {
  before?(
    op: Operation,
    inputs: readonly Argument[],
    frame: Frame,
  ): MaybePromise<readonly (Value | Json | undefined)[] | undefined>;
  after?(
    op: Operation,
    result: Value,
    inputs: readonly Argument[],
    frame: Frame,
  ): MaybePromise<Value | Json | undefined>;
}

export interface ModelReader {
  readonly marks: Descriptor;
  /** The tool that first brought it strangers' words. */
  readonly from?: string | undefined;
}

/** Of a model's calls: what it has read, and which of its arguments it has from somebody trusted. */
export interface OriginPort {
  reader(): ModelReader;
  /** The same inputs, with their origins. */
  trace(op: Operation, inputs: readonly Argument[]): MaybePromise<readonly Argument[]>;
}

/** Each has one fixed place among the ten stages; everything done inside a frame finds them there. */
export interface Ports {
  /** Stages 5 and 8, when the verdict is `ask`. Absent: nobody can be asked, so the answer is no. */
  ask?(question: Question, frame: Frame): MaybePromise<Outcome<Asked>>;
  /** Stage 5, before policies judge. Absent: arguments are what their marks say. */
  origins?: OriginPort;
  /** Just before 5 and just before 8. */
  scriptHooks?: ScriptHooks;
  /** Stage 6, as soon as no after-guard can object any more. */
  effects?(effect: Effect): void;
  /** Stage 7: a mark for what an operation made of what it used, where somebody keeps a trail. */
  trail?(op: Operation, used: Descriptor): Descriptor;
}
