// Where we are: an immutable linked frame. Parallel branches hold different children of one parent
// and cannot disturb each other; "pop" is simply going on with the frame one had.
import type { Fault, Json, Outcome } from '../../base/index.ts';
import type { TraceEntry } from '../guards/guard.ts';
import {
  combineGuards,
  type GuardSelection,
  type GuardSet,
  NO_GUARDS,
} from '../guards/guard-set.ts';
import type { MaybePromise } from '../maybe.ts';
import type { Argument, Operation } from '../operation.ts';
import { BUILT_IN_POLICY, type ComposedPolicy } from '../policies/compose.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from '../values/labels.ts';
import type { Value } from '../values/value.ts';

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
  /** Of the values the errors are about. */
  readonly errorMarks?: Descriptor;
  readonly for?: Json;
  readonly loop?: Json;
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
  readonly policy: ComposedPolicy;
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
  readonly selection: GuardSelection | undefined;
  readonly retry: RetryBudget | undefined;
  readonly emit: ((effect: Effect) => void) | undefined;
  readonly facts: ContextFacts;
}

const NO_FACTS: ContextFacts = Object.freeze({});
const NO_INPUTS: readonly Argument[] = Object.freeze([]);
const NO_LABELS: readonly string[] = Object.freeze([]);

export interface FrameOptions {
  ports?: Ports;
  guards?: GuardSet;
  policy?: ComposedPolicy;
  ctx?: ContextFacts;
}

/** A root. Without a policy the built-in rules hold all the same. */
export function createFrame(options: FrameOptions = {}): Frame {
  const policy = options.policy ?? BUILT_IN_POLICY;
  const ports = options.ports ?? {};
  return {
    parent: undefined,
    ports,
    guards: combineGuards(policy.guards, options.guards ?? NO_GUARDS),
    policy,
    influence: EMPTY,
    held: NO_LABELS,
    op: undefined,
    inputs: NO_INPUTS,
    isJudging: false,
    isHooking: false,
    selection: undefined,
    retry: undefined,
    emit: undefined,
    facts: options.ctx ?? NO_FACTS,
  };
}

export interface FrameAdditions {
  /** Replace ports of the same name; the others stay. */
  ports?: Ports;
  /** Come after those already in force; nothing is taken away. */
  guards?: GuardSet;
  /** Only for one statement: `with { guards: … }`. Privileged and policy guards run all the same. */
  selection?: GuardSelection;
  /** Already composed with the one in force (see `narrowPolicy`). */
  policy?: ComposedPolicy;
  ctx?: ContextFacts;
  /** A pipeline stage holds the budget that guards inside it share. */
  retry?: RetryBudget;
  influence?: Descriptor;
}

export function childFrame(frame: Frame, additions: FrameAdditions): Frame {
  const { ports, guards, selection, policy, ctx, retry, influence } = additions;
  return {
    ...frame,
    parent: frame,
    ports: ports ? { ...frame.ports, ...ports } : frame.ports,
    guards: guards ? combineGuards(frame.guards, guards) : frame.guards,
    selection: selection ?? frame.selection,
    policy: policy ?? frame.policy,
    facts: ctx ? { ...frame.facts, ...ctx } : frame.facts,
    retry: retry ?? frame.retry,
    influence: influence ? mergeDescriptors(frame.influence, influence) : frame.influence,
    // A buffer belongs to one operation; a new place for effects is a new start.
    emit: ports?.effects ? undefined : frame.emit,
  };
}

/** Everything done in the new frame is judged, and marked, with these marks too. */
export const withInfluence = (frame: Frame, descriptor: Descriptor): Frame =>
  descriptor === EMPTY ? frame : childFrame(frame, { influence: descriptor });

function heldInside(frame: Frame, op: Operation): readonly string[] {
  const given = frame.policy.operationLabels(op, frame.held);
  if (given.length === 0 && !op.labels?.length) return frame.held;
  return [...new Set([...frame.held, ...(op.labels ?? []), ...given])];
}

/** Stage 1: `ctx.op`, and the operation's labels, also those a policy gives it, for all inside. */
export function pushOperation(
  frame: Frame,
  op: Operation,
  retry: RetryBudget | undefined,
  inputs: readonly Argument[],
): Frame {
  return {
    parent: frame,
    ports: frame.ports,
    guards: frame.guards,
    policy: frame.policy,
    influence: frame.influence,
    held: heldInside(frame, op),
    op,
    inputs,
    isJudging: frame.isJudging,
    isHooking: frame.isHooking,
    selection: frame.selection,
    retry,
    emit: frame.emit,
    // Inside a function that a hook calls, the call is what is being done.
    facts: frame.facts.op && op.type === 'exe' ? { ...frame.facts, op: undefined } : frame.facts,
  };
}

// What the pipeline asks of those above it. Each port has one fixed place among the ten stages; a
// frame passes its ports on to everything done inside it.

/** Something that leaves: a line shown, a file written. Held back while an after-guard may object. */
export interface Effect {
  readonly kind: string;
  readonly value: Value;
  readonly text?: string;
  readonly target?: string;
  readonly line?: number;
}

/** The worst case of one attempt, set aside. Exactly one of the two is called, exactly once. */
export interface Reservation {
  /** The body was started: charge what it really took. */
  settle(outcome: Outcome<Value>): MaybePromise<void>;
  /** The body was never started: give everything back. */
  release(): MaybePromise<void>;
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

export type Answer = 'approved' | 'denied' | 'pending' | 'expired';

/** One attempt, for transcript, cost and audit. */
export interface RecordEntry {
  readonly op: Operation;
  /** The frame in force while it was judged: guards, taint and record see the same counters. */
  readonly frame: Frame;
  readonly arguments: readonly Argument[];
  readonly attempt: number;
  /** True when this attempt was thrown away and the operation is performed again. */
  readonly retried: boolean;
  readonly outcome: Outcome<Value>;
  readonly trace: readonly TraceEntry[];
}

export type CheckpointEvent =
  | { readonly name: 'before_step'; readonly arguments: readonly Argument[] }
  | { readonly name: 'after_step'; readonly arguments: readonly Argument[]; readonly result: Value }
  | { readonly name: 'error'; readonly fault: Fault; readonly arguments: readonly Argument[] }
  | { readonly name: 'limit'; readonly fault: Fault; readonly arguments: readonly Argument[] };

/**
 * `continue` goes on (an error or limit is returned as it is); `retry` performs the operation again
 * (after a limit: asks for the reservation again); `end` returns the given outcome instead.
 */
export type CheckpointVerdict =
  | { readonly action: 'continue' }
  | { readonly action: 'retry' }
  | { readonly action: 'end'; readonly outcome: Outcome<Value> };

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

export interface Ports {
  /** Stage 3. A refusal here cannot be caught by a `denied` arm. */
  gate?(op: Operation, inputs: readonly Value[], frame: Frame): MaybePromise<Outcome<null>>;
  /** Stage 4. */
  limits?: {
    reserve(
      op: Operation,
      inputs: readonly Value[],
      frame: Frame,
    ): MaybePromise<Outcome<Reservation>>;
  };
  /** Stages 5 and 8, when the verdict is `ask`. Absent: nobody can be asked, so the answer is no. */
  ask?(question: Question, frame: Frame): MaybePromise<Outcome<Answer>>;
  /** Just before 5 and just before 8. */
  scriptHooks?: ScriptHooks;
  /** Stage 6, as soon as no after-guard can object any more. */
  effects?(effect: Effect): void;
  /** Stage 7: a mark for what an operation made of what it used, where somebody keeps a trail. */
  trail?(op: Operation, used: Descriptor): Descriptor;
  /** Stage 9. What cannot be recorded counts as failed. */
  record?(entry: RecordEntry): MaybePromise<void>;
  checkpoint?(
    event: CheckpointEvent,
    op: Operation,
    frame: Frame,
  ): MaybePromise<CheckpointVerdict | undefined>;
}
