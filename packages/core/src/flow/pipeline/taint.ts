// Stage 7: computes the marks of an operation's result. INVARIANT: the result always carries every mark of
// every input, of captured values, of the conditions, of the operation, and its own. Bodies never change
// labels. The one exception is `untrusted` of data that an operation with `reads` reads; see `marksOfReading`.
import { createRecent } from '../../base/index.ts';
import type { Frame } from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import {
  addLabels,
  carries,
  type Descriptor,
  describe,
  EMPTY,
  mergeDescriptors,
  removeLabels,
  withCapability,
} from '../values/labels.ts';
import { addMarks, relabel, type Value } from '../values/value.ts';

const declared = createRecent<string, Descriptor>(1024);
const declaredBy = new WeakMap<Operation, Descriptor>();

/** Returns labels, source label and sources of the operation itself. */
function ownMarks(op: Operation): Descriptor {
  const { labels, source, sources } = op;
  if (!labels?.length && !sources?.length) {
    if (source === undefined) return EMPTY;
    return declared.get(source) ?? declared.set(source, describeOwn(op));
  }
  const cached = declaredBy.get(op);
  if (cached) return cached;
  const key = JSON.stringify([labels, source, sources]);
  const marks = declared.get(key) ?? declared.set(key, describeOwn(op));
  declaredBy.set(op, marks);
  return marks;
}

const describeOwn = ({ labels, source, sources }: Operation): Descriptor =>
  describe({
    ...(labels ? { labels } : {}),
    ...(source === undefined ? {} : { taint: [source] }),
    ...(sources ? { sources } : {}),
  });

/** Source labels of data from outside, which a policy may label if it has no label. */
const ENTRANCES = new Set(['src:file', 'src:network', 'src:user']);

export interface OperationInputs {
  readonly op: Operation;
  readonly frame: Frame;
  /** The inputs after the guards have changed them. */
  readonly inputs: readonly Argument[];
  readonly captured: Descriptor;
}

/** Returns the marks of everything that went in, for results and for faults. */
export function marksOfInputs({ op, frame, inputs, captured }: OperationInputs): Descriptor {
  let marks = mergeDescriptors(frame.influence, captured);
  for (const { value } of inputs) marks = mergeDescriptors(marks, value.meta.descriptor);
  return mergeDescriptors(marks, ownMarks(op));
}

/** Inputs with the text that an operation with `reads` reads. All others come from its caller. */
const READ: ReadonlySet<string> = new Set(['of', 'from']);

/**
 * Drops `untrusted`, which happens nowhere else. The operation labels every text that an untrusted author
 * could have written. The rest is words of the caller's schema, numbers, dates and existing records.
 * INVARIANT: no other mark is ever dropped, and none at all if the caller's request or the conditions of
 * the call are untrusted, because then the schema is untrusted too.
 */
function marksOfReading(operation: OperationInputs): Descriptor {
  const isPicking = operation.op.reads === 'picked';
  const [read, requests]: [Argument[], Argument[]] = [[], []];
  for (const input of operation.inputs) (READ.has(input.name) ? read : requests).push(input);
  // Records have their own marks. The choice among them adds none.
  if (isPicking) {
    const around = marksOfInputs({ ...operation, inputs: [] });
    const chosenBy = marksOfInputs({ ...operation, inputs: requests });
    return mergeDescriptors(removeLabels(chosenBy, ['untrusted']), around);
  }
  const marks = marksOfInputs(operation);
  const isUntrusted = carries(marksOfInputs({ ...operation, inputs: requests }), 'untrusted');
  return isUntrusted ? marks : removeLabels(marks, ['untrusted']);
}

export function taintResult(operation: OperationInputs, result: Value): Value {
  const { op, inputs } = operation;
  for (const { value } of inputs) if (value === result) return taintPassedOn(operation, result);
  const { policy, held: outerLabels, influence } = operation.frame;
  const inputMarks = op.reads ? marksOfReading(operation) : marksOfInputs(operation);
  const marks = mergeDescriptors(inputMarks, policy.mark);
  const added = policy.resultLabels(op, outerLabels, inputs, influence);
  const marked = addMarks(result, added.length === 0 ? marks : addLabels(marks, added));
  if (op.source === undefined) return marked;
  const { labels } = marked.meta.descriptor;
  const isEntering = labels.length === 0 && ENTRANCES.has(op.source);
  const labelled =
    isEntering && policy.unlabelled.length > 0
      ? addMarks(marked, describe({ labels: policy.unlabelled }))
      : marked;
  const { descriptor, elements } = labelled.meta;
  // This operation made new data, so its kind is recorded.
  return elements ? labelled : relabel(labelled, withCapability(descriptor, op.type));
}

/**
 * Returns a result that is one of the inputs (an assignment). Its marks are exact, down to its elements.
 * The operation adds only marks that it lacks, so that a guard does not judge replaced data again.
 */
function taintPassedOn({ op, frame, inputs, captured }: OperationInputs, result: Value): Value {
  let marks = mergeDescriptors(mergeDescriptors(frame.influence, captured), frame.policy.mark);
  for (const { value } of inputs) {
    if (value !== result) marks = mergeDescriptors(marks, value.meta.descriptor);
  }
  const own = ownMarks(op);
  if (own === EMPTY) return marks === EMPTY ? result : addMarks(result, marks);
  const has = result.meta.descriptor;
  const isKnown =
    own.taint.every((mark) => has.taint.includes(mark)) &&
    own.labels.every((mark) => has.labels.includes(mark));
  const added = isKnown ? describe({ sources: own.sources }) : own;
  return addMarks(result, mergeDescriptors(marks, added));
}
