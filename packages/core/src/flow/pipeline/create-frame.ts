// Creates frames. Parallel branches have different children of one parent and cannot affect each other.
// Leaving a frame means using its parent again.
import type {
  ContextFacts,
  Frame,
  FramePolicy,
  GuardSelection,
  GuardSet,
  Ports,
  RetryBudget,
} from '../frame.ts';
import { combineGuards, NO_GUARDS } from '../guards/guard-set.ts';
import type { Argument, Operation } from '../operation.ts';
import { BUILT_IN_POLICY } from '../policies/compose.ts';
import { type Descriptor, EMPTY, mergeDescriptors } from '../values/labels.ts';

const NO_FACTS: ContextFacts = Object.freeze({});
const NO_INPUTS: readonly Argument[] = Object.freeze([]);
const NO_LABELS: readonly string[] = Object.freeze([]);

export interface FrameOptions {
  ports?: Ports;
  guards?: GuardSet;
  policy?: FramePolicy;
  ctx?: ContextFacts;
}

/** Returns a root frame. Without a policy the built-in rules apply. */
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
    isApproved: false,
    exception: undefined,
    isPart: false,
    selection: undefined,
    retry: undefined,
    emit: undefined,
    facts: options.ctx ?? NO_FACTS,
  };
}

interface FrameAdditions {
  /** Replaces ports of the same name. The others stay. */
  ports?: Ports;
  /** Added after the guards in force. No guard is removed. */
  guards?: GuardSet;
  /** Selection of one statement: `with { guards: … }`. Privileged and policy guards always run. */
  selection?: GuardSelection;
  /** True if the next operation is a part of the operation of this frame. */
  isPart?: true;
  /** A policy that is composed with the one in force (see `narrowedBy`). */
  policy?: FramePolicy;
  ctx?: ContextFacts;
  /** Retry budget of a pipeline stage, which guards inside share. */
  retry?: RetryBudget;
  influence?: Descriptor;
}

export function childFrame(frame: Frame, additions: FrameAdditions): Frame {
  const { ports, guards, selection, policy, ctx, retry, influence, isPart } = additions;
  return {
    ...frame,
    parent: frame,
    ports: ports ? { ...frame.ports, ...ports } : frame.ports,
    guards: guards ? combineGuards(frame.guards, guards) : frame.guards,
    selection: selection ?? frame.selection,
    policy: policy ?? frame.policy,
    isPart: isPart ?? frame.isPart,
    facts: ctx ? { ...frame.facts, ...ctx } : frame.facts,
    retry: retry ?? frame.retry,
    influence: influence ? mergeDescriptors(frame.influence, influence) : frame.influence,
    // A buffer belongs to one operation. A new destination for effects needs a new one.
    emit: ports?.effects ? undefined : frame.emit,
  };
}

/** Returns the selection for an inner operation. `partOf` applies only to direct parts of the operation. */
function selectionIn({ selection, op }: Frame): GuardSelection | undefined {
  if (!selection?.partOf || selection.partOf.op === op) return selection;
  const { partOf: _, ...rest } = selection;
  return rest;
}

/** Stage 1: sets `ctx.op` and adds the operation's labels, also those of a policy, for everything inside. */
export function pushOperation(
  frame: Frame,
  op: Operation,
  retry: RetryBudget | undefined,
  inputs: readonly Argument[],
): Frame {
  const { held: outerLabels } = frame;
  const policyLabels = frame.policy.operationLabels(op, outerLabels);
  const isPlain = policyLabels.length === 0 && !op.labels?.length;
  return {
    parent: frame,
    ports: frame.ports,
    guards: frame.guards,
    policy: frame.policy,
    influence: frame.influence,
    held: isPlain
      ? outerLabels
      : [...new Set([...outerLabels, ...(op.labels ?? []), ...policyLabels])],
    op,
    inputs,
    isJudging: frame.isJudging,
    isHooking: frame.isHooking,
    isApproved: false,
    // INVARIANT: an exception is always for one operation; the operations inside of it are judged themselves.
    exception: frame.isPart ? frame.exception : undefined,
    isPart: false,
    selection: frame.selection?.partOf ? selectionIn(frame) : frame.selection,
    retry,
    emit: frame.emit,
    // Inside of a function that a hook calls, the call is the present operation.
    facts: frame.facts.op && op.type === 'exe' ? { ...frame.facts, op: undefined } : frame.facts,
  };
}
