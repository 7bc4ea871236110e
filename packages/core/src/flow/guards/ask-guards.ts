// Hot: runs for every operation, and a promise costs more than an operation that no rule is about. Calls
// the guards in a fixed order: per input, policy, per operation. Each guard gets the values as the guards
// before it left them, and every guard is called, whatever the others decided.
import {
  catchToOutcome,
  inTurn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  toOutcome,
  whenReady,
} from '../../base/index.ts';
import type {
  Finding,
  Frame,
  Guard,
  GuardView,
  MaybePromise,
  ModelReader,
  Phase,
  PolicyException,
  TraceEntry,
  Verdict,
} from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import {
  carries,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  mergeAll,
  mergeDescriptors,
  toolsIn,
} from '../values/labels.ts';
import { elementOf, isValue, type Value } from '../values/value.ts';
import { lazyObject } from '../values/value-view.ts';
import { crashed, type Judgement, MAX_ATTEMPTS } from './decision.ts';
import { type Allowed, insidePart, isExcepting, liftedFrom } from './exceptions.ts';
import { relabelled, replaced, wasReplaced } from './guard.ts';
import { isSelected } from './guard-set.ts';

/** The subject of a guard: one input by its index, the result, or all inputs together. */
type GuardSubject = number | 'output' | 'all';

type ChangeValue = (value: Value, position: number) => Value;

type Objecting = Extract<Verdict, { text: string }>;

/** Judges one phase of one attempt. */
class GuardRound implements Judgement {
  readonly phase: Phase;
  readonly op: Operation;
  readonly frame: Frame;
  inputs: readonly Argument[];
  output: Value | undefined;
  readonly findings: Finding[] = [];
  readonly trace: TraceEntry[] = [];
  /** Guards on labels that were called for an input. They are not called again for the operation. */
  readonly #answered = new Set<Guard>();
  exception: PolicyException | undefined;
  /** Operations that guards with the right to make exceptions have allowed. */
  readonly #allowed: Allowed[] = [];

  constructor(phase: Phase, op: Operation, frame: Frame, inputs: readonly Argument[]) {
    this.phase = phase;
    this.op = op;
    this.frame = frame;
    this.inputs = inputs;
  }

  #marksOf(subject: GuardSubject): Descriptor {
    const { inputs, output, frame } = this;
    if (subject === 'all') {
      const all = output ? [output] : inputs.map(({ value }) => value);
      return mergeAll([frame.influence, ...all.map((value) => value.meta.descriptor)]);
    }
    const one = subject === 'output' ? output : inputs[subject]?.value;
    return mergeDescriptors(one?.meta.descriptor ?? EMPTY, frame.influence);
  }

  #inputOf(subject: GuardSubject): Argument | undefined {
    return typeof subject === 'number' ? this.inputs[subject] : undefined;
  }

  /** Returns `ctx.guard` for the evaluation of one guard. */
  #factsOf(guard: Guard, subject: GuardSubject, marks: Descriptor): JsonObject {
    const { phase, inputs, output, findings, trace } = this;
    const budget = this.frame.retry;
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
        typeof subject === 'number'
          ? (inputs[subject]?.value.data ?? null)
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

  /**
   * Returns `ctx.tools`: the tools that made the judged data, without those that only influenced a condition.
   */
  #toolsOf(subject: GuardSubject): JsonObject {
    const { inputs, output, frame } = this;
    const { tools } = frame.facts;
    const listed = typeof tools === 'function' ? tools() : tools;
    const one = output ?? this.#inputOf(subject)?.value;
    const judged = one ? [one] : inputs.map(({ value }) => value);
    const history = toolsIn(judged.map(({ meta }) => meta.descriptor));
    return { calls: [], ...(isObject(listed) ? listed : {}), history };
  }

  /** Changes the judged value: the result, one input, or all inputs at these positions. */
  #apply(subject: GuardSubject, change: ChangeValue, positions: number): void {
    if (this.output) {
      this.output = change(this.output, 0);
      return;
    }
    this.inputs = this.inputs.map((input, at) => {
      const position = typeof subject === 'number' ? (at === subject ? 0 : positions) : at;
      return position < positions ? { ...input, value: change(input.value, position) } : input;
    });
  }

  /** A list replaces inputs by position. Any other value replaces the first input. */
  #listFor(subject: GuardSubject, value: Value | Json | undefined): readonly Json[] | undefined {
    const data = isValue(value) ? value.data : value;
    return subject === 'all' && !this.output && Array.isArray(data) ? data : undefined;
  }

  /** Returns true if a value was replaced. */
  #replace(subject: GuardSubject, guard: Guard, value: Value | Json): boolean {
    const list = this.#listFor(subject, value);
    let any = false;
    const by = { guard, phase: this.phase, isOfAll: subject === 'all' };
    const change: ChangeValue = (old, at) => {
      if (wasReplaced(old, by)) return old;
      any = true;
      const one = list && isValue(value) ? elementOf(value, at) : value;
      return replaced(old, list && !isValue(value) ? (list[at] ?? null) : one, by);
    };
    this.#apply(subject, change, list ? list.length : 1);
    return any;
  }

  #note(guard: Guard, decision: string, reason: string | null, replacement: Json = null): void {
    const guardName = guard.name.replace(/^@/, '');
    this.trace.push({ guardName, decision, reason, replacement });
  }

  #object(subject: GuardSubject, guard: Guard, objection: Objecting): void {
    const { name: by, on: filter } = guard;
    const { kind, text, marks } = objection;
    const input = this.#inputOf(subject)?.name;
    const { sources } = this.#marksOf(subject);
    const finding = { kind, guard: by, filter, text, input, sources };
    this.findings.push(marks ? { ...finding, marks } : finding);
    this.#note(guard, kind, text);
  }

  #settle(subject: GuardSubject, guard: Guard, answer: Outcome<Verdict>): void {
    if (!answer.ok) {
      const text = `the guard could not be evaluated: ${answer.error.detail.message}`;
      const marks = descriptorOfFault(answer.error);
      return this.#object(subject, guard, { kind: 'deny', text, marks });
    }
    const verdict = answer.output;
    if (verdict.kind !== 'allow' && verdict.kind !== 'allow_value') {
      return this.#object(subject, guard, verdict);
    }
    const { labels } = verdict;
    if ((labels?.clear || labels?.remove?.length) && !guard.privileged) {
      const text = 'only a privileged guard may remove labels';
      return this.#object(subject, guard, { kind: 'deny', text });
    }
    const value = verdict.kind === 'allow_value' ? verdict.value : undefined;
    const isReplaced = value !== undefined && this.#replace(subject, guard, value);
    if (labels) {
      const count = labels.ofAll ? this.inputs.length : this.#listFor(subject, value)?.length;
      this.#apply(subject, (old) => relabelled(old, labels, guard), count ?? 1);
    }
    if (verdict.isSaid && isExcepting(guard, this.op))
      this.#allowed.push({ guard, inputs: this.inputs });
    const replacement = isValue(value) ? value.data : (value ?? null);
    this.#note(guard, 'allow', null, isReplaced ? replacement : null);
  }

  /** Calls one guard, with guards off for its own operations. */
  #ask(subject: GuardSubject, guard: Guard, op = this.op): MaybePromise<void> {
    const { phase, frame, inputs, output } = this;
    const marks = this.#marksOf(subject);
    const facts = {
      ...frame.facts,
      // The judged operation stays `op`, also while the guard performs operations of its own.
      op,
      guard: () => this.#factsOf(guard, subject, marks),
      tools: () => this.#toolsOf(subject),
      descriptor: marks,
    };
    const view = {
      phase,
      op,
      input: this.#inputOf(subject),
      inputs,
      output,
      // INVARIANT: guards are off for operations of a guard, policies never are.
      frame: {
        ...frame,
        parent: frame,
        inputs,
        guards: frame.guards.locked,
        isJudging: true,
        facts,
      },
    };
    return whenReady(answerOf(guard, view), (answer) => this.#settle(subject, guard, answer));
  }

  #askAll(subject: GuardSubject, guards: readonly Guard[]): MaybePromise<void> {
    return inTurn(guards, (guard) => {
      if (!this.#concerns(subject, guard) || !this.#isSelected(subject, guard)) return undefined;
      this.#answered.add(guard);
      const before = this.findings.length;
      return whenReady(this.#ask(subject, guard), () => {
        const statement = typeof subject === 'number' ? statementAround(this.frame) : undefined;
        const isAllowed = this.findings.length === before;
        return statement && isAllowed ? this.#ask(subject, guard, statement) : undefined;
      });
    });
  }

  #isSelected(subject: GuardSubject, guard: Guard): boolean {
    const { selection } = this.frame;
    if (!isSelected(guard, selection)) return false;
    if (!selection?.partOf || guard.privileged || guard.locked) return true;
    if (subject === 'all') return !wasAsked(guard, selection.partOf, this.phase);
    return subject !== 'output' && !wasAskedAbout(guard, selection.partOf, this.#inputOf(subject));
  }

  #concerns(subject: GuardSubject, guard: Guard): boolean {
    const { filter } = guard;
    if (filter.kind !== 'label') return true;
    if (subject === 'all') return !this.#answered.has(guard);
    // An earlier privileged guard may have removed the label.
    return carries(this.#marksOf(subject), filter.label);
  }

  /** Judges each input. Without inputs, the conditions of the operation are judged. */
  perInput(): MaybePromise<void> {
    const { frame, inputs } = this;
    const { guards, influence } = frame;
    if (inputs.length === 0) return this.#askAll(0, guards.forMarks(influence, 'before'));
    return inTurn(inputs, ({ value }, index) => {
      const marks = mergeDescriptors(value.meta.descriptor, influence);
      return this.#askAll(index, guards.forMarks(marks, 'before'));
    });
  }

  perOperation(): MaybePromise<void> {
    const { frame, op, phase, inputs } = this;
    const onKeys = frame.guards.forOperation(op, frame.held, phase);
    const onLabels = phase === 'before' ? guardsOfLabels(op, inputs, frame) : NOBODY;
    if (onLabels.length === 0) return this.#askAll('all', onKeys);
    const all = new Set([...onKeys, ...onLabels]);
    return this.#askAll(
      'all',
      frame.guards.list.filter((guard) => all.has(guard)),
    );
  }

  /** Judges replaced values again, because policies judged the values before the replacement. */
  rejudge(judged: readonly Argument[]): MaybePromise<void> {
    const { frame, op, inputs, findings } = this;
    const changed = inputs.filter(({ value }, at) => value !== judged[at]?.value);
    if (changed.length === 0) return undefined;
    const before = findings.length;
    const isMarked = inputs.some(({ value }, at) => !isWithin(value, judged[at]?.value));
    const locked = frame.guards.forOperation(op, frame.held, 'before').filter((one) => one.locked);
    return whenReady(isMarked ? this.judgePolicy() : undefined, () =>
      whenReady(this.#askAll('all', locked), () => {
        const earlier = new Set(findings.slice(0, before).map(wordsOf));
        const again = findings.splice(before).filter((finding) => !earlier.has(wordsOf(finding)));
        findings.push(...again);
      }),
    );
  }

  perResult(output: Value): MaybePromise<void> {
    this.output = output;
    const { frame, op } = this;
    return this.#askAll('output', frame.guards.forResult(op, output.meta.descriptor));
  }

  lift(): void {
    const { frame, inputs, findings } = this;
    if (this.#allowed.length === 0) return;
    const result = liftedFrom(findings, this.#allowed, inputs, frame);
    if (!result) return;
    this.exception = result.exception;
    this.inputs = result.inputs;
    this.trace.push(...result.trace);
    findings.splice(0, findings.length, ...result.left);
  }

  /** Judges by the policy, with the origins of the inputs if they are known. */
  judgePolicy(): MaybePromise<void> {
    const { origins } = this.frame.ports;
    if (!origins) return this.#judge();
    return whenReady(origins.trace(this.op, this.inputs), (traced) => {
      this.inputs = traced;
      this.#judge();
    });
  }

  #judge(): void {
    const { op, frame, inputs } = this;
    const { policy, held: outerLabels, influence } = frame;
    for (const objection of policy.judge(
      op,
      outerLabels,
      inputs,
      influence,
      readerOf(frame),
      frame.parent,
    )) {
      const finding = insidePart(objection, frame);
      if (!finding) continue;
      this.findings.push(finding);
      const { kind, guard, text } = finding;
      this.trace.push({ guardName: guard, decision: kind, reason: text, replacement: null });
    }
  }
}

const wordsOf = ({ guard, filter, text, input }: Finding): string =>
  JSON.stringify([guard, filter, text, input]);

/** True if the new value has no mark that the old one lacked. */
function isWithin(value: Value, old: Value | undefined): boolean {
  const { taint } = old?.meta.descriptor ?? EMPTY;
  return value.meta.descriptor.taint.every((mark) => taint.includes(mark));
}

/** Returns the model that made this call itself. Undefined for operations inside of its tool. */
const readerOf = ({ ports, parent }: Frame): ModelReader | undefined =>
  parent?.op === undefined ? ports.origins?.reader() : undefined;

const answerOf = (guard: Guard, view: GuardView): MaybePromise<Outcome<Verdict>> =>
  catchToOutcome(
    () => toOutcome(guard.decide(view)),
    (error) => crashed(`guard ${guard.name}`, error),
  );

const NOBODY: readonly Guard[] = Object.freeze([]);
const NO_LABELS: readonly string[] = Object.freeze([]);

/**
 * Returns guards on a label of the operation itself: declared, from its risk, or given by a policy.
 * Labels of surrounding functions do not count. Empty without inputs, because guards judge data.
 */
function guardsOfLabels(
  op: Operation,
  inputs: readonly Argument[],
  frame: Frame,
): readonly Guard[] {
  return inputs.length === 0 ? NOBODY : frame.guards.forLabels(labelsOfOperation(op, frame));
}

/** Returns the operation's own labels, its risks, and the labels that the policy in force gives it. */
export function labelsOfOperation(op: Operation, { policy }: Frame): readonly string[] {
  const { labels = NO_LABELS, risk = NO_LABELS } = op;
  const policyLabels = policy.operationLabels(op, NO_LABELS);
  return labels.length + risk.length + policyLabels.length === 0
    ? NO_LABELS
    : [...labels, ...risk, ...policyLabels];
}

/**
 * True if a label guard was called about this value as an input of the whole operation. A value from
 * elsewhere, such as a captured name, was not. Without an input the conditions count.
 */
function wasAskedAbout(guard: Guard, { inputs, influence, guards }: Frame, input?: Argument) {
  if (input && !inputs.some(({ value }) => value === input.value)) return false;
  const marks = mergeDescriptors(input?.value.meta.descriptor ?? EMPTY, influence);
  return guards.forMarks(marks, 'before').includes(guard);
}

/**
 * Returns the `run` statement around a call, or around the stages of a pipeline. Inputs of the call are
 * inputs of the statement, which has no others, so a guard on a label is called about both.
 */
function statementAround({ op, parent }: Frame): Operation | undefined {
  const isInside = op?.type === 'exe' || op?.type === 'pipeline-stage';
  return isInside && parent?.op?.type === 'run' && parent.inputs.length === 0
    ? parent.op
    : undefined;
}

/** True if the guard was called about the operation of this frame, or about one of its inputs. */
function wasAsked(guard: Guard, frame: Frame, phase: Phase): boolean {
  const { op, held: outerLabels, inputs, influence, guards } = frame;
  if (!op) return false;
  if (guards.forOperation(op, outerLabels, phase).includes(guard)) return true;
  if (guard.filter.kind !== 'label') return false;
  if (guardsOfLabels(op, inputs, frame).includes(guard)) return true;
  return inputs.some(({ value }) =>
    guards.forMarks(mergeDescriptors(value.meta.descriptor, influence), phase).includes(guard),
  );
}

/** Returns true if no guard and no policy can object, the common case. It only does look-ups. */
export function isUncontested(op: Operation, inputs: readonly Argument[], frame: Frame): boolean {
  const { guards, influence, held: outerLabels, policy } = frame;
  if (guards.list.length > 0) {
    if (guards.forOperation(op, outerLabels, 'before').length > 0) return false;
    if (guardsOfLabels(op, inputs, frame).length > 0) return false;
    if (guards.forMarks(influence, 'before').length > 0) return false;
    for (const { value } of inputs) {
      if (guards.forMarks(value.meta.descriptor, 'before').length > 0) return false;
    }
  }
  const read = readerOf(frame)?.marks ?? EMPTY;
  return !policy.mayObject(op, outerLabels, inputs, mergeDescriptors(influence, read));
}

export function isUncontestedAfter(op: Operation, result: Value, frame: Frame): boolean {
  const { guards, held: outerLabels } = frame;
  return (
    guards.forResult(op, result.meta.descriptor).length === 0 &&
    guards.forOperation(op, outerLabels, 'after').length === 0
  );
}

export function judgeBefore(
  op: Operation,
  inputs: readonly Argument[],
  frame: Frame,
): MaybePromise<Judgement> {
  const round = new GuardRound('before', op, frame, inputs);
  const hasGuards = frame.guards.list.length > 0;
  return whenReady(hasGuards ? round.perInput() : undefined, () =>
    whenReady(round.judgePolicy(), () => {
      const judged = round.inputs;
      return whenReady(hasGuards ? round.perOperation() : undefined, () =>
        whenReady(round.rejudge(judged), () => {
          round.lift();
          return round;
        }),
      );
    }),
  );
}

export function judgeAfter(
  op: Operation,
  inputs: readonly Argument[],
  output: Value,
  frame: Frame,
): MaybePromise<Judgement> {
  const round = new GuardRound('after', op, frame, inputs);
  return whenReady(round.perResult(output), () => whenReady(round.perOperation(), () => round));
}
