// Asking the guards, in the fixed order: per input, policy, per operation. Each sees what the one
// before it made; every one is asked, whatever the others said.
import type { Json, JsonObject, Outcome } from '../../base/index.ts';
import type { Finding, Frame, Guard, Phase, TraceEntry, Verdict } from '../frame.ts';
import { eachInTurn, type MaybePromise, shielded, whenDone } from '../maybe.ts';
import type { Argument, Operation } from '../operation.ts';
import { carries, type Descriptor, EMPTY, mergeAll, mergeDescriptors } from '../values/labels.ts';
import { isValue, makeValue, relabel, type Value } from '../values/value.ts';
import { lazyObject } from '../values/value-view.ts';
import { type Judgement, MAX_ATTEMPTS } from './decision.ts';
import { relabelled, replaced, wasReplaced } from './guard.ts';
import { isSelected } from './guard-set.ts';

/** One phase of one attempt, while it is being judged. */
export interface Hearing {
  readonly phase: Phase;
  readonly op: Operation;
  readonly frame: Frame;
  inputs: readonly Argument[];
  output: Value | undefined;
  readonly findings: Finding[];
  readonly trace: TraceEntry[];
}

/** What a guard judges: one input, the result, or all inputs together. */
type Subject = { kind: 'input'; index: number } | { kind: 'output' } | { kind: 'all' };

function marksOf(hearing: Hearing, subject: Subject): Descriptor {
  const { inputs, output, frame } = hearing;
  const one = subject.kind === 'input' ? inputs[subject.index]?.value : output;
  if (subject.kind !== 'all')
    return mergeDescriptors(one?.meta.descriptor ?? EMPTY, frame.influence);
  const all = output ? [output] : inputs.map(({ value }) => value);
  return mergeAll([frame.influence, ...all.map((value) => value.meta.descriptor)]);
}

/** `ctx.guard` while one guard is asked. */
function guardFacts(
  hearing: Hearing,
  guard: Guard,
  subject: Subject,
  marks: Descriptor,
): JsonObject {
  const { phase, inputs, output, findings, trace, frame } = hearing;
  const budget = frame.retry;
  const texts = (kind: Finding['kind']) =>
    findings.filter((finding) => finding.kind === kind).map(({ text }) => text);
  return lazyObject({
    name: () => guard.name,
    filter: () => guard.on,
    timing: () => phase,
    try: () => budget?.attempt ?? 1,
    tries: () => (budget?.hints ?? []).map((hint, at) => ({ attempt: at + 1, hint })),
    max: () => budget?.max ?? MAX_ATTEMPTS,
    input: () =>
      subject.kind === 'input'
        ? (inputs[subject.index]?.value.data ?? null)
        : inputs.map(({ value }) => value.data),
    output: () => output?.data ?? null,
    labels: () => [...marks.labels],
    taint: () => [...marks.taint],
    sources: () => [...marks.sources],
    reason: () => texts('deny')[0] ?? null,
    reasons: () => texts('deny'),
    hints: () =>
      findings
        .filter(({ kind }) => kind === 'retry')
        .map(({ guard, text }) => ({ guardName: guard.replace(/^@/, ''), hint: text })),
    hintHistory: () => [...(budget?.hints ?? [])],
    decision: () => null,
    trace: () => trace.map((entry) => ({ ...entry })),
  });
}

const withInput = (inputs: readonly Argument[], index: number, value: Value): readonly Argument[] =>
  inputs.map((input, at) => (at === index ? { ...input, value } : input));

type Change = (value: Value, position: number) => Value;

/** Applies a change to the judged value; a list replaces inputs by position, else the first one. */
function applyTo(hearing: Hearing, subject: Subject, change: Change, positions: number): void {
  if (hearing.output) hearing.output = change(hearing.output, 0);
  else if (subject.kind === 'input') {
    const old = hearing.inputs[subject.index];
    if (old) hearing.inputs = withInput(hearing.inputs, subject.index, change(old.value, 0));
  } else {
    hearing.inputs = hearing.inputs.map((input, at) =>
      at < positions ? { ...input, value: change(input.value, at) } : input,
    );
  }
}

const dataOf = (value: Value | Json): Json => (isValue(value) ? value.data : value);

/** True when a value was replaced. */
function replace(hearing: Hearing, subject: Subject, guard: Guard, verdict: Verdict): boolean {
  if (verdict.kind !== 'allow_value') return false;
  const { phase } = hearing;
  const { value } = verdict;
  const data = isValue(value) ? value.data : value;
  const isList = subject.kind === 'all' && !hearing.output && Array.isArray(data);
  const list: Json[] = isList ? data : [];
  let any = false;
  const change: Change = (old, at) => {
    if (wasReplaced(old, guard, phase)) return old;
    any = true;
    const item = isList ? (list[at] ?? null) : value;
    const marked =
      isList && isValue(value) ? relabel(makeValue(item as Json), value.meta.descriptor) : item;
    return replaced(old, marked, guard, phase);
  };
  applyTo(hearing, subject, change, isList ? list.length : 1);
  return any;
}

function find(
  hearing: Hearing,
  subject: Subject,
  guard: Guard,
  kind: Finding['kind'],
  text: string,
) {
  const input = subject.kind === 'input' ? hearing.inputs[subject.index]?.name : undefined;
  const { sources } = marksOf(hearing, subject);
  hearing.findings.push({ kind, guard: guard.name, filter: guard.on, text, input, sources });
}

function settle(hearing: Hearing, subject: Subject, guard: Guard, answer: Outcome<Verdict>): void {
  const note = (decision: string, reason: string | null, replacement: Json = null) =>
    hearing.trace.push({ guardName: guard.name.replace(/^@/, ''), decision, reason, replacement });
  if (!answer.ok) {
    const text = `the guard could not be evaluated: ${answer.error.detail.message}`;
    find(hearing, subject, guard, 'deny', text);
    note('deny', text);
    return;
  }
  const verdict = answer.output;
  if (verdict.kind !== 'allow' && verdict.kind !== 'allow_value') {
    find(hearing, subject, guard, verdict.kind, verdict.text);
    note(verdict.kind, verdict.text);
    return;
  }
  const { labels } = verdict;
  if ((labels?.clear || labels?.remove?.length) && !guard.privileged) {
    const text = 'only a privileged guard may remove labels';
    find(hearing, subject, guard, 'deny', text);
    note('deny', text);
    return;
  }
  const replacement = replace(hearing, subject, guard, verdict);
  applyTo(hearing, subject, (value) => relabelled(value, labels, guard), hearing.inputs.length);
  note('allow', null, replacement && verdict.kind === 'allow_value' ? dataOf(verdict.value) : null);
}

/** Asks one guard, with guards off for whatever it does. */
function ask(hearing: Hearing, subject: Subject, guard: Guard): MaybePromise<undefined> {
  const { phase, op, frame, inputs, output } = hearing;
  const marks = marksOf(hearing, subject);
  const facts = {
    ...frame.facts,
    op: undefined,
    guard: () => guardFacts(hearing, guard, subject, marks),
    descriptor: marks,
  };
  const view = {
    phase,
    op,
    input: subject.kind === 'input' ? inputs[subject.index] : undefined,
    inputs,
    output,
    // INVARIANT: guards are off for what a guard does, policies never are.
    frame: { ...frame, parent: frame, inputs, guards: frame.guards.locked, isJudging: true, facts },
  };
  return whenDone(
    shielded(`guard ${guard.name}`, () => guard.decide(view)),
    (answer): undefined => settle(hearing, subject, guard, answer) as undefined,
  );
}

/** A privileged guard earlier in the line may have taken the label away. */
const stillConcerns = (hearing: Hearing, subject: Subject, guard: Guard): boolean =>
  guard.filter.kind !== 'label' || carries(marksOf(hearing, subject), guard.filter.label);

function askAll(hearing: Hearing, subject: Subject, guards: readonly Guard[]): MaybePromise<void> {
  return eachInTurn(guards, (guard) =>
    isSelected(guard, hearing.frame.selection) && stillConcerns(hearing, subject, guard)
      ? ask(hearing, subject, guard)
      : undefined,
  );
}

/** The condition alone is judged too, when an operation without inputs stands under it. */
function perInput(hearing: Hearing): MaybePromise<void> {
  const { frame, inputs } = hearing;
  if (inputs.length === 0) {
    const guards = frame.guards.forMarks(frame.influence, 'before');
    return askAll(hearing, { kind: 'input', index: 0 }, guards);
  }
  return eachInTurn(inputs, (input, index) => {
    const marks = mergeDescriptors(input.value.meta.descriptor, frame.influence);
    const guards = frame.guards.forMarks(marks, 'before');
    if (guards.length === 0) return undefined;
    return askAll(hearing, { kind: 'input', index }, guards) as MaybePromise<undefined>;
  });
}

function perOperation(hearing: Hearing): MaybePromise<void> {
  const { frame, op, phase } = hearing;
  return askAll(hearing, { kind: 'all' }, frame.guards.forOperation(op, frame.held, phase));
}

const hear = (phase: Phase, op: Operation, frame: Frame, inputs: readonly Argument[]): Hearing => ({
  phase,
  op,
  frame,
  inputs,
  output: undefined,
  findings: [],
  trace: [],
});

/** No guard and no policy could object: the common case, decided by look-ups alone. */
export function isUncontested(op: Operation, inputs: readonly Argument[], frame: Frame): boolean {
  const { guards, influence, held, policy } = frame;
  if (guards.list.length > 0) {
    if (guards.forOperation(op, held, 'before').length > 0) return false;
    if (guards.forMarks(influence, 'before').length > 0) return false;
    for (const { value } of inputs) {
      if (guards.forMarks(value.meta.descriptor, 'before').length > 0) return false;
    }
  }
  return !policy.mayObject(op, held, inputs, influence);
}

export function isUncontestedAfter(op: Operation, result: Value, frame: Frame): boolean {
  const { guards, held } = frame;
  if (guards.list.length === 0) return true;
  return (
    guards.forMarks(result.meta.descriptor, 'after').length === 0 &&
    guards.forOperation(op, held, 'after').length === 0
  );
}

export function judgeBefore(
  op: Operation,
  inputs: readonly Argument[],
  frame: Frame,
): MaybePromise<Judgement> {
  const hearing = hear('before', op, frame, inputs);
  const policy = () => {
    for (const finding of frame.policy.judge(op, frame.held, hearing.inputs, frame.influence)) {
      hearing.findings.push(finding);
      const { kind, guard, text } = finding;
      hearing.trace.push({ guardName: guard, decision: kind, reason: text, replacement: null });
    }
  };
  if (frame.guards.list.length === 0) {
    policy();
    return hearing;
  }
  const asked = whenDone(perInput(hearing), () => {
    policy();
    return perOperation(hearing);
  });
  return whenDone(asked, () => hearing);
}

export function judgeAfter(
  op: Operation,
  inputs: readonly Argument[],
  output: Value,
  frame: Frame,
): MaybePromise<Judgement> {
  const hearing = hear('after', op, frame, inputs);
  hearing.output = output;
  if (frame.guards.list.length === 0) return hearing;
  const guards = frame.guards.forMarks(output.meta.descriptor, 'after');
  const asked = whenDone(askAll(hearing, { kind: 'output' }, guards), () => perOperation(hearing));
  return whenDone(asked, () => hearing);
}
