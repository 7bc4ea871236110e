// Types of the frame: an immutable linked record of the present operation, with its guards, policy and ports. The
// folders above implement the parts, and each part receives the whole frame.
import type { Json, Outcome } from '../base/index.ts';
import type { Argument, InputRole, LookAtPlace, Operation, PreviewWrite } from './operation.ts';
import type { Descriptor } from './values/labels.ts';
import type { Value } from './values/value.ts';

/** The result of ports and closures that may answer synchronously. The caller awaits it. */
export type MaybePromise<T> = T | Promise<T>;

/** The maximum number of attempts of an operation that guards can retry, and the attempts so far. */
export interface RetryBudget {
  /** Number of the present attempt, from 1. */
  readonly attempt: number;
  readonly max: number;
  /** Hints of earlier attempts, oldest first. */
  readonly hints: readonly string[];
  /** True: exhausted attempts count as a reached limit, not as a refusal. Pipelines set it. */
  readonly isLimit?: boolean;
}

/**
 * Namespaces of `ctx` that other folders fill. A function is called when `ctx` is read, for counters
 * that change.
 */
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
  /** The operation that a script hook was called for, which the hook reads as `ctx.op`. */
  readonly op?: Operation | undefined;
  /** The judged value's marks for `ctx.labels`, `ctx.taint` and `ctx.sources`. */
  readonly descriptor?: Descriptor;
}

export interface Frame {
  readonly parent: Frame | undefined;
  readonly ports: Ports;
  readonly guards: GuardSet;
  readonly policy: FramePolicy;
  /** Marks of the conditions that led to this operation. */
  readonly influence: Descriptor;
  /** Labels of the functions around this operation. */
  readonly held: readonly string[];
  readonly op: Operation | undefined;
  readonly inputs: readonly Argument[];
  /** True while a guard is evaluated: guards and script hooks are off for its operations. */
  readonly isJudging: boolean;
  /** True while a script hook runs: script hooks are off for its operations, guards are not. */
  readonly isHooking: boolean;
  readonly isApproved: boolean;
  /**
   * Identity of the file that the person saw. A write is refused if the file has changed since. Absent:
   * no person saw a file.
   */
  readonly approved?: string;
  /** Exception that a privileged guard made for this operation and its parts. Undefined: no exception. */
  readonly exception: PolicyException | undefined;
  /** True if the next operation is a part of this one, namely the body of a call. */
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

/** Passed to an input that is evaluated: the frame for the evaluation, and where to report facts. */
export interface InputNote {
  readonly frame: Frame;
  /** Reports the state of a finished pipeline, which is `ctx.pipe` while its value is judged. */
  pipe(state: Json): void;
}

export type Phase = 'before' | 'after';
export type GuardTiming = Phase | 'always';

export interface LabelChange {
  readonly add?: readonly string[];
  /** Labels to remove. Only a privileged guard can remove labels. `src:…` and `dir:…` always stay. */
  readonly remove?: readonly string[];
  /** Removes all labels of the value. */
  readonly clear?: boolean;
  /** True changes all inputs of an operation. Otherwise only the replaced inputs change, or the first one. */
  readonly ofAll?: boolean;
}

interface Allowing {
  readonly labels?: LabelChange;
  /** Present if an arm of the guard matched. Absent: no arm matched. */
  readonly isSaid?: true;
}

export type Verdict =
  | ({ readonly kind: 'allow' } & Allowing)
  | ({ readonly kind: 'allow_value'; readonly value: Value | Json } & Allowing)
  | {
      readonly kind: 'deny' | 'retry' | 'ask';
      readonly text: string;
      /** Marks of the text's parts, and of the conditions that chose it. */
      readonly marks?: Descriptor;
    };

/** The data that a guard judges. A guard per input gets `input`, the others judge `inputs` together. */
export interface GuardView {
  readonly phase: Phase;
  readonly op: Operation;
  readonly input: Argument | undefined;
  readonly inputs: readonly Argument[];
  /** The result. Undefined in the phase `before`. */
  readonly output: Value | undefined;
  /** The frame for the guard's evaluation: guards are off and `ctx.guard` is filled. */
  readonly frame: Frame;
}

export type GuardFilter =
  | { readonly kind: 'label'; readonly label: string }
  | { readonly kind: 'operation'; readonly pattern: string }
  | { readonly kind: 'function'; readonly name: string };

/** Files that a policy closes to tools and processes, whatever path they use. */
export interface ClosedFiles {
  /**
   * Returns why this path, relative to the project, may not be read or written. Undefined: it may. A
   * process is refused only paths that the policy denies by name, because no process could start with
   * a list of allowed paths.
   */
  refusal(mode: 'r' | 'w', path: string, isProcess: boolean): string | undefined;
  /** Every glob that can affect an answer for a process. */
  readonly globs: readonly string[];
}

export interface Guard {
  /** Unique in this process, so that two guards with one name are distinct. */
  readonly id: string;
  /** `@name`, or the location of a guard without a name. */
  readonly name: string;
  readonly on: string;
  readonly filter: GuardFilter;
  readonly timing: GuardTiming;
  readonly privileged: boolean;
  /** True for a guard of a policy. No statement can deselect it. */
  readonly locked: boolean;
  /**
   * True for a privileged guard of a policy file or of a script that a person started. Its `allow` is an
   * exception to rules.
   */
  readonly lifts: boolean;
  /** Files that a policy closes. Checked for every file that a tool or a process uses. */
  readonly closes?: ClosedFiles;
  decide(view: GuardView): MaybePromise<Outcome<Verdict>>;
}

export interface TraceEntry {
  readonly guardName: string;
  readonly decision: string;
  readonly reason: string | null;
  /** The replacement of the value, or null if it was not replaced. */
  readonly replacement: Json;
}

/** `with { guards: … }` of one statement. Names contain their `@`. */
export interface GuardSelection {
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  /**
   * The frame of the operation that a directly inner one is a part of. Guards that judged the whole are
   * not called for the part; guards on the actual effect are.
   */
  readonly partOf?: Frame;
}

export interface GuardSet {
  /** All guards of the set in source order. */
  readonly list: readonly Guard[];
  /** Guards of policies. They also run while a guard is evaluated. */
  readonly locked: GuardSet;
  /** Returns guards on a label among these marks, in source order. */
  forMarks(descriptor: Descriptor, phase: Phase): readonly Guard[];
  /** Returns guards on a label of an operation's result, in source order. An effect has no result. */
  forResult(op: Operation, descriptor: Descriptor): readonly Guard[];
  /** Returns guards with timing `before` on a label of the operation itself, in source order. */
  forLabels(labels: readonly string[]): readonly Guard[];
  /** Returns guards on the operation or its function, in source order. */
  forOperation(op: Operation, outerLabels: readonly string[], phase: Phase): readonly Guard[];
  /** True if a guard with timing `after` could object to some result of this operation. */
  mayObjectAfter(op: Operation, outerLabels: readonly string[]): boolean;
}

export type Objection = 'deny' | 'ask' | 'retry';

/** The objection of one guard or rule against an operation. */
export interface Finding {
  readonly kind: Objection;
  readonly guard: string;
  readonly filter: string;
  readonly text: string;
  /** Name of the input that the objection is about. Undefined: it is about the operation. */
  readonly input: string | undefined;
  readonly sources: readonly string[];
  /** Remedies: changes that would avoid the objection. */
  readonly ways?: readonly string[];
  /** Marks of the parts of the text. */
  readonly marks?: Descriptor;
  /** The effect of an exception on the objection. Absent: no exception lifts it. */
  readonly yields?: Yielding;
}

interface Yielding {
  /** The objection that remains after an exception, because policy files and locked policies state it. */
  readonly leaves: 'ask' | 'off';
  /** The mark that the input must not have. Absent: the input lacks a mark. */
  readonly mark?: string | undefined;
  /** Marks of the input or condition. Absent: the objection is about the operation. */
  readonly marks?: Descriptor | undefined;
  readonly isImplied?: boolean | undefined;
}

export interface PolicyException {
  /** Lifted rules and filters, in the form of `exceptions.ts`. */
  readonly lifted: ReadonlySet<string>;
  /** Id that marks the judged inputs. A value that is made only of these inputs has the mark too. */
  readonly id: string;
  /** Marks of the conditions that were judged together with the inputs. */
  readonly influence: Descriptor;
}

/** Settings that a script may add to the policy in force. */
export interface PolicyRules {
  /** Rules by label. `*` means every operation, whatever labels its inputs have. */
  labels?: Record<string, LabelRule>;
  /** Operations that get a risk or label, such as `exfil: ["op:cmd:curl"]`. */
  operations?: Record<string, string[]>;
  defaults?: { unlabelled?: string[] };
  rules?: Record<string, RuleState>;
  packs?: string[];
  /** True if no privileged guard lifts its refusals. */
  locked?: boolean;
}

/** Rules over operation keys and labels of operations. The most specific pattern wins. */
export interface LabelRule {
  deny?: string[];
  ask?: string[];
  /** Exceptions. An exception for one operation denies all others of its kind. */
  allow?: string[];
}

export type RuleState = 'deny' | 'ask' | 'off';

/** The part of the policy in force that the pipeline uses. `ComposedPolicy` implements it. */
export interface FramePolicy {
  /** `policyContext` of every value that is created under it. */
  readonly mark: Descriptor;
  readonly guards: GuardSet;
  /** The `dir:` labels that its rules and guards name. */
  readonly folders: readonly string[];
  /** `none`: processes may run without a sandbox. */
  readonly sandbox: 'none' | 'required';
  /** Labels for unlabelled data from outside. */
  readonly unlabelled: readonly string[];
  /** Returns the labels that `operations` gives an operation. */
  operationLabels(op: Operation, outerLabels: readonly string[]): readonly string[];
  /** True if results of this tool get no `untrusted` label of their own. */
  trusts(tool: string): boolean;
  /** Returns this policy with one more level, such as that of a script. It can only narrow. */
  narrowedBy(more: PolicyRules): FramePolicy;
  /** Returns false if certainly no label rule, risk or tier applies, the common case. */
  mayObject(
    op: Operation,
    outerLabels: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
  ): boolean;
  /**
   * Returns all objections. `reader`: the model that makes the call, which untrusted text may have
   * influenced. `around`: the frame of the surrounding operation.
   */
  judge(
    op: Operation,
    outerLabels: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
    reader?: ModelReader,
    around?: Frame,
  ): readonly Finding[];
  /** Returns the labels that rules add to the result. */
  resultLabels(
    op: Operation,
    outerLabels: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
  ): readonly string[];
}

/**
 * Output such as a printed line or a written file. It is buffered while a guard with timing `after` may object.
 */
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
  /** Names of the guards and rules that require an approval. `questions` has the same order. */
  readonly guards: readonly string[];
  readonly questions: readonly string[];
  readonly reasons: readonly string[];
  readonly arguments: readonly Argument[];
  readonly sources: readonly string[];
}

export interface ApprovalAnswer {
  readonly answer: 'approved' | 'denied' | 'pending' | 'expired';
  readonly why?: string;
  /** Identity of the file that the person saw. The write is refused if the file differs. */
  readonly holds?: string;
  /** Id of the approval request in the queue. */
  readonly approval?: string;
}

/** Script hooks may replace values but make no decisions. Undefined leaves the value unchanged. */
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
  /** The first tool that returned untrusted text to the model. */
  readonly from?: string | undefined;
}

/** The origins of a model's calls: the text that it has read, and the arguments from a trusted source. */
export interface OriginPort {
  reader(): ModelReader;
  /** Returns the same inputs, with their origins. */
  trace(op: Operation, inputs: readonly Argument[]): MaybePromise<readonly Argument[]>;
}

/** Functions that the pipeline calls at fixed stages. Every operation inside of a frame uses the same ports. */
export interface Ports {
  /** Called in stages 5 and 8 if the verdict is `ask`. Absent: the operation is refused. */
  ask?(question: Question, frame: Frame): MaybePromise<Outcome<ApprovalAnswer>>;
  /** True if an earlier answer of a person covers this call, so that the rule `ask_first` need not ask. Absent: none does. */
  answered?(op: Operation, inputs: readonly Argument[]): MaybePromise<boolean>;
  /** Called in stage 5, before policies judge. Absent: only the marks of the arguments count. */
  origins?: OriginPort;
  /** Runs just before stage 5 and just before stage 8. */
  scriptHooks?: ScriptHooks;
  /** Receives effects in stage 6, as soon as no guard with timing `after` can object. */
  effects?(effect: Effect): void;
  /**
   * Called in stage 7. Returns a mark for the result of an operation that used these marks. Absent: no
   * provenance is recorded.
   */
  trail?(op: Operation, used: Descriptor): Descriptor;
}
