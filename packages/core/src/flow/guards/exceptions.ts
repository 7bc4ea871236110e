// Exceptions to policy. An arm of a privileged guard that allows an operation lifts, for that operation,
// what `labels` and rules of scripts' policies and the built-in rules have against it.
// INVARIANT: nothing else yields. Capabilities, guards and policy files are not asked here; a policy says
// of each of its findings itself whether it does (`yields`).
import type { Finding, Frame, Guard, PolicyException, TraceEntry } from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import { carries, type Descriptor, markReplaced } from '../values/labels.ts';
import { relabel } from '../values/value.ts';

/** A guard that allowed, and what it allowed it with. */
export interface Allowed {
  readonly guard: Guard;
  readonly inputs: readonly Argument[];
}

/** Code that calls a function is asked about by the function's guards, and is another operation. */
export const isExcepting = ({ lifts, filter }: Guard, op: Operation): boolean =>
  lifts && (filter.kind !== 'function' || op.type === 'exe');

/** Which guards make an exception, if what they saw is what is going to happen. */
const inForce = (allowed: readonly Allowed[], inputs: readonly Argument[]): readonly Allowed[] =>
  allowed.filter((one) =>
    one.inputs.every(({ value }, at) => value.data === inputs[at]?.value.data),
  );

const ruleOf = ({ guard, filter }: Finding): string => `${guard} ${filter}`;

/** Nothing of it, or the question that policy files want to be asked. */
const remainderOf = (finding: Finding): Finding | undefined => {
  const { yields, ...plain } = finding;
  if (!yields) return finding;
  return yields.leaves === 'ask' ? { ...plain, kind: 'ask' } : undefined;
};

let serial = 0;

const entryOf = (id: string, mark: string): string => `lift ${id} ${mark}`;

/** The note ends where data is mixed with what no guard has looked at (see `mergeReplaced`). */
const noted = (input: Argument, id: string): Argument => {
  const { descriptor } = input.value.meta;
  const marked = descriptor.taint.reduce(
    (so, mark) => markReplaced(so, entryOf(id, mark)),
    descriptor,
  );
  return { ...input, value: relabel(input.value, marked) };
};

interface Lifted {
  readonly left: readonly Finding[];
  readonly exception: PolicyException;
  readonly inputs: readonly Argument[];
  readonly trace: readonly TraceEntry[];
}

/** Undefined: there was nothing to lift. */
export function liftedFrom(
  findings: readonly Finding[],
  allowed: readonly Allowed[],
  inputs: readonly Argument[],
  { influence }: Frame,
): Lifted | undefined {
  const by = inForce(allowed, inputs);
  const yielding = by.length === 0 ? [] : findings.filter(({ yields }) => yields !== undefined);
  if (yielding.length === 0) return undefined;
  serial += 1;
  const id = `${serial}`;
  const trace = by.flatMap(({ guard }) =>
    yielding.map((finding) => ({
      guardName: guard.name.replace(/^@/, ''),
      decision: 'lift',
      reason: `${finding.guard} (${finding.filter}): ${finding.text}`,
      replacement: null,
    })),
  );
  return {
    left: findings.flatMap((finding) => remainderOf(finding) ?? []),
    exception: { lifted: new Set(yielding.map(ruleOf)), id, influence },
    inputs: inputs.map((input) => noted(input, id)),
    trace,
  };
}

/** Is all that offends in these marks what a guard has looked at? `known`: also these. */
const isKnown = (marks: Descriptor, filter: string, id: string, known: readonly string[]) =>
  marks.taint
    .filter((mark) => carries({ ...marks, taint: [mark] }, filter))
    .every((mark) => known.includes(mark) || marks.replaced.includes(entryOf(id, mark)));

const NOTHING: readonly string[] = Object.freeze([]);

/**
 * A finding about the body that a call consists of: it yields where the same was lifted for the call, and
 * is about nothing that came in by another way (a captured name, `using`).
 */
export function insidePart(finding: Finding, { exception }: Frame): Finding | undefined {
  const { yields } = finding;
  if (!exception || !yields || !exception.lifted.has(ruleOf(finding))) return finding;
  const { marks, mark, isImplied } = yields;
  if (!marks) return remainderOf(finding);
  const known = isImplied ? exception.influence.taint : NOTHING;
  const isSeen = mark !== undefined && isKnown(marks, mark, exception.id, known);
  return isSeen ? remainderOf(finding) : finding;
}
