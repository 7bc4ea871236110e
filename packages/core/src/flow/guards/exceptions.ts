// Makes exceptions to policies. If an arm of a privileged guard allows an operation, the objections of
// `labels`, of rules of scripts' policies and of built-in rules are lifted for that operation. INVARIANT:
// nothing else is ever lifted. Capabilities, guards and policy files are not consulted here; a policy
// states for each of its findings whether it yields (`yields`).
import type { Finding, Frame, Guard, PolicyException, TraceEntry } from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import { carries, type Descriptor, markReplaced } from '../values/labels.ts';
import { relabel } from '../values/value.ts';

/** A guard that allowed the operation, and the inputs that it judged. */
export interface Allowed {
  readonly guard: Guard;
  readonly inputs: readonly Argument[];
}

/** A function's guards also judge the calling code, which is another operation and gets no exception. */
export const isExcepting = ({ lifts, filter }: Guard, op: Operation): boolean =>
  lifts && (filter.kind !== 'function' || op.type === 'exe');

/** Returns the guards whose judged inputs are still the actual inputs. */
const inForce = (allowed: readonly Allowed[], inputs: readonly Argument[]): readonly Allowed[] =>
  allowed.filter((one) =>
    one.inputs.every(({ value }, at) => value.data === inputs[at]?.value.data),
  );

const ruleOf = ({ guard, filter }: Finding): string => `${guard} ${filter}`;

/** Returns the remaining part of a finding: none, or the approval that policy files require. */
const remainderOf = (finding: Finding): Finding | undefined => {
  const { yields, ...plain } = finding;
  if (!yields) return finding;
  return yields.leaves === 'ask' ? { ...plain, kind: 'ask' } : undefined;
};

let serial = 0;

const entryOf = (id: string, mark: string): string => `lift ${id} ${mark}`;

/**
 * Marks an input with the exception. A value made of it and of unjudged data does not have the mark (see
 * `mergeReplaced`).
 */
const withMark = (input: Argument, id: string): Argument => {
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

/** Returns undefined if no finding was lifted. */
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
    inputs: inputs.map((input) => withMark(input, id)),
    trace,
  };
}

/**
 * True if a guard of this exception judged all marks that the filter is about. `judgedMarks`: further
 * marks that count as judged.
 */
const areJudged = (marks: Descriptor, filter: string, id: string, judgedMarks: readonly string[]) =>
  marks.taint
    .filter((mark) => carries({ ...marks, taint: [mark] }, filter))
    .every((mark) => judgedMarks.includes(mark) || marks.replaced.includes(entryOf(id, mark)));

const NOTHING: readonly string[] = Object.freeze([]);

/**
 * Judges a finding about the body of a call again. It yields if the same finding was lifted for the
 * call, and if it is not about data that came in another way (a captured name, `using`).
 */
export function insidePart(finding: Finding, { exception }: Frame): Finding | undefined {
  const { yields } = finding;
  if (!exception || !yields || !exception.lifted.has(ruleOf(finding))) return finding;
  const { marks, mark, isImplied } = yields;
  if (!marks) return remainderOf(finding);
  const judgedMarks = isImplied ? exception.influence.taint : NOTHING;
  const isJudged = mark !== undefined && areJudged(marks, mark, exception.id, judgedMarks);
  return isJudged ? remainderOf(finding) : finding;
}
