// Many judges, one decision: deny > ask > retry > allow VALUE > allow. All reasons and hints are
// kept, whoever wins.
import { type Failure, type Fault, fail, type Json } from '../base/index.ts';
import type { Frame } from './frame.ts';
import type { Phase, TraceEntry } from './guard.ts';
import type { Argument, Operation } from './operation.ts';
import { redactor } from './redact.ts';
import type { Value } from './value.ts';

export type Objection = 'deny' | 'ask' | 'retry';

/** What one guard or rule had to say against an operation. */
export interface Finding {
  readonly kind: Objection;
  /** The guard's or rule's name. */
  readonly guard: string;
  readonly filter: string;
  readonly text: string;
  /** The input it was about, when it was about one. */
  readonly input: string | undefined;
  readonly sources: readonly string[];
}

export interface Judgement {
  readonly phase: Phase;
  /** What the guards passed on. */
  readonly inputs: readonly Argument[];
  readonly output: Value | undefined;
  readonly findings: readonly Finding[];
  readonly trace: readonly TraceEntry[];
  /** In which it was judged: attempts and hints so far. */
  readonly frame: Frame;
}

const STRICTEST_FIRST: readonly Objection[] = ['deny', 'ask', 'retry'];

export function decisionOf(findings: readonly Finding[]): Objection | 'allow' {
  return (
    STRICTEST_FIRST.find((kind) => findings.some((finding) => finding.kind === kind)) ?? 'allow'
  );
}

const MAX_SOURCES = 20;

// The whole judgement, for whoever may look at the data it is about; no JSON ever shows it.
const JUDGEMENT = Symbol('judgement');

export const judgementOf = (fault: Fault): Judgement | undefined =>
  (fault.detail as { [JUDGEMENT]?: Judgement })[JUDGEMENT];

export const operationName = (op: Operation): string =>
  op.name === '' || op.name === op.type ? op.type : `${op.type} ${op.name}`;

const textsOf = (findings: readonly Finding[], kind: Objection): string[] =>
  findings.filter((finding) => finding.kind === kind).map(({ text }) => text);

const textOf = (data: Json): string => (typeof data === 'string' ? data : JSON.stringify(data));

const traceJson = (trace: readonly TraceEntry[]): Json => trace.map((entry) => ({ ...entry }));

/** The fault of a refusal: guard, filter, operation, all reasons, where the data came from. */
export function denial(
  op: Operation,
  judgement: Judgement,
  deciding: Finding,
  why?: { reason: string; code?: string; answer?: string },
): Failure {
  const { findings, phase, inputs, output } = judgement;
  const redact = redactor([...inputs.map(({ value }) => value), ...(output ? [output] : [])]);
  const reasons = [...(why ? [why.reason] : []), ...textsOf(findings, 'deny')];
  if (reasons.length === 0) reasons.push(deciding.text);
  const clean = (texts: readonly string[]) => texts.map(redact);
  const [first = ''] = clean(reasons);
  const message = `${operationName(op)} was denied by ${deciding.guard} (${deciding.filter}): ${first}`;
  const failure = fail(why?.code ?? 'permission_denied', redact(message), {
    guard: deciding.guard,
    filter: deciding.filter,
    phase,
    operation: operationName(op),
    op_type: op.type,
    input: deciding.input ?? null,
    reasons: clean(reasons),
    questions: clean(textsOf(findings, 'ask')),
    hints: clean(textsOf(findings, 'retry')),
    sources: clean(deciding.sources.slice(0, MAX_SOURCES)),
    trace: traceJson(
      judgement.trace.map((entry) => ({
        ...entry,
        reason: entry.reason === null ? null : redact(entry.reason),
        replacement: entry.replacement === null ? null : redact(textOf(entry.replacement)),
      })),
    ),
    ...(why?.answer ? { answer: why.answer } : {}),
  });
  Object.assign(failure.error.detail, { [JUDGEMENT]: judgement });
  return failure;
}

/** May a `denied` arm catch it? Refusals of capabilities and limits never are. */
export const isCatchableDenial = (failure: Failure): boolean =>
  failure.error.code === 'permission_denied' && typeof failure.error.detail.guard === 'string';
