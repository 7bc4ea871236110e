// Making frames. Parallel branches hold different children of one parent
// and cannot disturb each other; "pop" is simply going on with the frame one had.
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
  /** Replace ports of the same name; the others stay. */
  ports?: Ports;
  /** Come after those already in force; nothing is taken away. */
  guards?: GuardSet;
  /** Only for one statement: `with { guards: … }`. Privileged and policy guards run all the same. */
  selection?: GuardSelection;
  /** What is performed next is a part of the operation that the frame is of. */
  isPart?: true;
  /** Already composed with the one in force (see `narrowedBy`). */
  policy?: FramePolicy;
  ctx?: ContextFacts;
  /** A pipeline stage holds the budget that guards inside it share. */
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
    // A buffer belongs to one operation; a new place for effects is a new start.
    emit: ports?.effects ? undefined : frame.emit,
  };
}

/** What is done inside of a part is no part of the same whole. */
function selectionIn({ selection, op }: Frame): GuardSelection | undefined {
  if (!selection?.partOf || selection.partOf.op === op) return selection;
  const { partOf: _, ...rest } = selection;
  return rest;
}

/** Stage 1: `ctx.op`, and the operation's labels, also those a policy gives it, for all inside. */
export function pushOperation(
  frame: Frame,
  op: Operation,
  retry: RetryBudget | undefined,
  inputs: readonly Argument[],
): Frame {
  const { held } = frame;
  const given = frame.policy.operationLabels(op, held);
  const isPlain = given.length === 0 && !op.labels?.length;
  return {
    parent: frame,
    ports: frame.ports,
    guards: frame.guards,
    policy: frame.policy,
    influence: frame.influence,
    held: isPlain ? held : [...new Set([...held, ...(op.labels ?? []), ...given])],
    op,
    inputs,
    isJudging: frame.isJudging,
    isHooking: frame.isHooking,
    isApproved: false,
    // INVARIANT: an exception is for one operation; what happens inside it is judged by itself.
    exception: frame.isPart ? frame.exception : undefined,
    isPart: false,
    selection: frame.selection?.partOf ? selectionIn(frame) : frame.selection,
    retry,
    emit: frame.emit,
    // Inside a function that a hook calls, the call is what is being done.
    facts: frame.facts.op && op.type === 'exe' ? { ...frame.facts, op: undefined } : frame.facts,
  };
}
