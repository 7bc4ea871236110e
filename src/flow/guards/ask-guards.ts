// Asking the guards, in the fixed order: per input, policy, per operation. Each sees what the one
// before it made; every one is asked, whatever the others said.
import type { Json, JsonObject, Outcome } from '../../base/index.ts';
import type { Finding, Frame, Guard, GuardView, Phase, TraceEntry, Verdict } from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import { carries, type Descriptor, EMPTY, mergeAll, mergeDescriptors } from '../values/labels.ts';
import { isValue, makeValue, relabel, type Value } from '../values/value.ts';
import { lazyObject } from '../values/value-view.ts';
import { crashed, type Judgement, MAX_ATTEMPTS } from './decision.ts';
import { relabelled, replaced, wasReplaced } from './guard.ts';
import { isSelected } from './guard-set.ts';

/** One phase of one attempt, while it is being judged. */
interface GuardRound {
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

function marksOf(round: GuardRound, subject: Subject): Descriptor {
  const { inputs, output, frame } = round;
  const one = subject.kind === 'input' ? inputs[subject.index]?.value : output;
  if (subject.kind !== 'all')
    return mergeDescriptors(one?.meta.descriptor ?? EMPTY, frame.influence);
  const all = output ? [output] : inputs.map(({ value }) => value);
  return mergeAll([frame.influence, ...all.map((value) => value.meta.descriptor)]);
}

/** `ctx.guard` while one guard is asked. */
function guardFacts(
  round: GuardRound,
  guard: Guard,
  subject: Subject,
  marks: Descriptor,
): JsonObject {
  const { phase, inputs, output, findings, trace, frame } = round;
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
function applyTo(round: GuardRound, subject: Subject, change: Change, positions: number): void {
  if (round.output) round.output = change(round.output, 0);
  else if (subject.kind === 'input') {
    const old = round.inputs[subject.index];
    if (old) round.inputs = withInput(round.inputs, subject.index, change(old.value, 0));
  } else {
    round.inputs = round.inputs.map((input, at) =>
      at < positions ? { ...input, value: change(input.value, at) } : input,
    );
  }
}

const dataOf = (value: Value | Json): Json => (isValue(value) ? value.data : value);

/** True when a value was replaced. */
function replace(round: GuardRound, subject: Subject, guard: Guard, verdict: Verdict): boolean {
  if (verdict.kind !== 'allow_value') return false;
  const { phase } = round;
  const { value } = verdict;
  const data = isValue(value) ? value.data : value;
  const isList = subject.kind === 'all' && !round.output && Array.isArray(data);
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
  applyTo(round, subject, change, isList ? list.length : 1);
  return any;
}

function find(
  round: GuardRound,
  subject: Subject,
  guard: Guard,
  kind: Finding['kind'],
  text: string,
) {
  const input = subject.kind === 'input' ? round.inputs[subject.index]?.name : undefined;
  const { sources } = marksOf(round, subject);
  round.findings.push({ kind, guard: guard.name, filter: guard.on, text, input, sources });
}

function settle(round: GuardRound, subject: Subject, guard: Guard, answer: Outcome<Verdict>): void {
  const note = (decision: string, reason: string | null, replacement: Json = null) =>
    round.trace.push({ guardName: guard.name.replace(/^@/, ''), decision, reason, replacement });
  if (!answer.ok) {
    const text = `the guard could not be evaluated: ${answer.error.detail.message}`;
    find(round, subject, guard, 'deny', text);
    note('deny', text);
    return;
  }
  const verdict = answer.output;
  if (verdict.kind !== 'allow' && verdict.kind !== 'allow_value') {
    find(round, subject, guard, verdict.kind, verdict.text);
    note(verdict.kind, verdict.text);
    return;
  }
  const { labels } = verdict;
  if ((labels?.clear || labels?.remove?.length) && !guard.privileged) {
    const text = 'only a privileged guard may remove labels';
    find(round, subject, guard, 'deny', text);
    note('deny', text);
    return;
  }
  const replacement = replace(round, subject, guard, verdict);
  applyTo(round, subject, (value) => relabelled(value, labels, guard), round.inputs.length);
  note('allow', null, replacement && verdict.kind === 'allow_value' ? dataOf(verdict.value) : null);
}

/** Asks one guard, with guards off for whatever it does. */
async function ask(round: GuardRound, subject: Subject, guard: Guard): Promise<void> {
  const { phase, op, frame, inputs, output } = round;
  const marks = marksOf(round, subject);
  const facts = {
    ...frame.facts,
    op: undefined,
    guard: () => guardFacts(round, guard, subject, marks),
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
  settle(round, subject, guard, await answerOf(guard, view));
}

async function answerOf(guard: Guard, view: GuardView): Promise<Outcome<Verdict>> {
  try {
    return await guard.decide(view);
  } catch (error) {
    return crashed(`guard ${guard.name}`, error);
  }
}

/** A privileged guard earlier in the line may have taken the label away. */
const stillConcerns = (round: GuardRound, subject: Subject, guard: Guard): boolean =>
  guard.filter.kind !== 'label' || carries(marksOf(round, subject), guard.filter.label);

async function askAll(
  round: GuardRound,
  subject: Subject,
  guards: readonly Guard[],
): Promise<void> {
  for (const guard of guards) {
    if (isSelected(guard, round.frame.selection) && stillConcerns(round, subject, guard))
      await ask(round, subject, guard);
  }
}

/** The condition alone is judged too, when an operation without inputs stands under it. */
async function perInput(round: GuardRound): Promise<void> {
  const { frame, inputs } = round;
  if (inputs.length === 0) {
    const guards = frame.guards.forMarks(frame.influence, 'before');
    await askAll(round, { kind: 'input', index: 0 }, guards);
  }
  for (const [index, { value }] of inputs.entries()) {
    const marks = mergeDescriptors(value.meta.descriptor, frame.influence);
    await askAll(round, { kind: 'input', index }, frame.guards.forMarks(marks, 'before'));
  }
}

const perOperation = (round: GuardRound): Promise<void> => {
  const { frame, op, phase } = round;
  return askAll(round, { kind: 'all' }, frame.guards.forOperation(op, frame.held, phase));
};

const startRound = (
  phase: Phase,
  op: Operation,
  frame: Frame,
  inputs: readonly Argument[],
): GuardRound => ({
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

function judgePolicy(round: GuardRound): void {
  const { op, frame, inputs } = round;
  for (const finding of frame.policy.judge(op, frame.held, inputs, frame.influence)) {
    round.findings.push(finding);
    const { kind, guard, text } = finding;
    round.trace.push({ guardName: guard, decision: kind, reason: text, replacement: null });
  }
}

export async function judgeBefore(
  op: Operation,
  inputs: readonly Argument[],
  frame: Frame,
): Promise<Judgement> {
  const round = startRound('before', op, frame, inputs);
  const hasGuards = frame.guards.list.length > 0;
  if (hasGuards) await perInput(round);
  judgePolicy(round);
  if (hasGuards) await perOperation(round);
  return round;
}

export async function judgeAfter(
  op: Operation,
  inputs: readonly Argument[],
  output: Value,
  frame: Frame,
): Promise<Judgement> {
  const round = startRound('after', op, frame, inputs);
  round.output = output;
  await askAll(round, { kind: 'output' }, frame.guards.forMarks(output.meta.descriptor, 'after'));
  await perOperation(round);
  return round;
}
