// Combines many verdicts into one decision: deny > ask > retry > allow VALUE > allow. All reasons and
// hints are kept.
import {
  createRedactor,
  type Failure,
  type Fault,
  fail,
  type Json,
  type JsonObject,
  type Outcome,
  plainText,
} from '../../base/index.ts';
import type {
  ApprovalAnswer,
  Finding,
  Frame,
  MaybePromise,
  Objection,
  Phase,
  PolicyException,
  Ports,
  Question,
  RetryBudget,
  TraceEntry,
} from '../frame.ts';
import type { Argument, Operation } from '../operation.ts';
import { carries, type Descriptor, EMPTY, markFailure, mergeAll } from '../values/labels.ts';
import type { Value } from '../values/value.ts';

export interface Judgement {
  readonly phase: Phase;
  readonly inputs: readonly Argument[];
  readonly output: Value | undefined;
  readonly findings: readonly Finding[];
  readonly trace: readonly TraceEntry[];
  readonly exception: PolicyException | undefined;
  /** The frame of the judgement, with attempts and hints so far. */
  readonly frame: Frame;
}

/** Returns the fault of a bug. Its message contains only the first line of the exception. */
export function crashed(place: string, error: unknown): Failure {
  const text = error instanceof Error ? error.message : String(error);
  return fail('internal_error', `${place} failed: ${text.split('\n', 1)[0] ?? ''}`, { place });
}

const STRICTEST_FIRST: readonly Objection[] = ['deny', 'ask', 'retry'];

export function decisionOf(findings: readonly Finding[]): Objection | 'allow' {
  return (
    STRICTEST_FIRST.find((kind) => findings.some((finding) => finding.kind === kind)) ?? 'allow'
  );
}

const MAX_SOURCES = 20;

// Key of the whole judgement on a fault, for code that may read the judged data. JSON never contains it.
const JUDGEMENT = Symbol('judgement');

export const judgementOf = (fault: Fault): Judgement | undefined =>
  (fault.detail as { [JUDGEMENT]?: Judgement })[JUDGEMENT];

export const operationName = (op: Operation): string =>
  op.name === '' || op.name === op.type ? op.type : `${op.type} ${op.name}`;

const textsOf = (findings: readonly Finding[], kind: Objection): string[] =>
  findings.filter((finding) => finding.kind === kind).map(({ text }) => text);

const traceJson = (trace: readonly TraceEntry[]): Json => trace.map((entry) => ({ ...entry }));

const MAX_PARTS = 1000;

/**
 * Returns the texts to mask in a reason, because reasons can quote judged data: the whole and every text in it.
 */
function secretTexts({ text, data, meta }: Value): string[] {
  if (!carries(meta.descriptor, 'secret')) return [];
  const texts = [text];
  const open: Json[] = [data];
  for (let item = open.pop(); item !== undefined && texts.length < MAX_PARTS; item = open.pop()) {
    if (typeof item === 'string') texts.push(item);
    else if (typeof item === 'number') texts.push(String(item));
    else if (typeof item === 'object' && item !== null) open.push(...Object.values(item));
  }
  return texts;
}

const answerJson = ({ answer, approval, why = '' }: ApprovalAnswer): JsonObject => ({
  answer,
  ...(approval !== undefined && { approval }),
  ...(why !== '' && { why }),
});

/**
 * Returns the remedies that every objecting rule accepts, including an approval. Empty if a rule denies
 * and accepts none.
 */
function waysOut({ findings }: Judgement, answer: ApprovalAnswer | undefined): string[] {
  if (findings.some(({ kind, ways = [] }) => kind === 'deny' && ways.length === 0)) return [];
  const ways = [...new Set(findings.flatMap((finding) => finding.ways ?? []))];
  if (answer?.answer !== 'pending' || answer.approval === undefined) return ways;
  return [`approve \`${answer.approval}\``, ...ways];
}

/** Returns the fault of a refusal with guard, filter, operation, all reasons and the sources of the data. */
function denial(
  op: Operation,
  judgement: Judgement,
  deciding: Finding,
  why?: { reason: string; code?: string; asked?: ApprovalAnswer },
): Failure {
  const { findings, phase, inputs, output } = judgement;
  const judged = [...inputs.map(({ value }) => value), ...(output ? [output] : [])];
  const { text: redact } = createRedactor(judged.flatMap(secretTexts));
  const reasons = [...(why ? [why.reason] : []), ...textsOf(findings, 'deny')];
  if (reasons.length === 0) reasons.push(deciding.text);
  const clean = (texts: readonly string[]) => texts.map(redact);
  const every = [...new Set(clean(reasons))].join('; ');
  const ways = waysOut(judgement, why?.asked);
  const message = `${operationName(op)} was denied by ${deciding.guard} (${deciding.filter}): ${every}${
    ways.length === 0 ? '' : `; remedies: ${ways.join('; ')}`
  }`;
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
    ...(ways.length > 0 && { ways: clean(ways) }),
    trace: traceJson(
      judgement.trace.map((entry) => ({
        ...entry,
        reason: entry.reason === null ? null : redact(entry.reason),
        replacement: entry.replacement === null ? null : redact(plainText(entry.replacement)),
      })),
    ),
    ...(why?.asked && answerJson(why.asked)),
  });
  Object.assign(failure.error.detail, { [JUDGEMENT]: judgement });
  return markFailure(failure, marksOfReasons(judgement));
}

/** Returns the marks of the reasons. A reason carries the marks of its parts. */
export const marksOfReasons = ({ findings }: Pick<Judgement, 'findings'>): Descriptor =>
  mergeAll(findings.map(({ marks }) => marks ?? EMPTY));

/** True if a `denied` arm may catch it. Refusals of capabilities and limits cannot be caught. */
export const isCatchableDenial = (failure: Failure): boolean =>
  failure.error.code === 'permission_denied' && typeof failure.error.detail.guard === 'string';

/** Code of a guard's `retry`, which goes as a failure to the nearest owner of a retry budget. */
const RETRY_CODE = 'retry_requested';

/** Maximum for calls, assignments and tool calls. Pipeline stages have their own budgets. */
export const MAX_ATTEMPTS = 3;

const OWNER = Symbol('owner');

function requestRetry(owner: RetryBudget, guard: string, hint: string): Failure {
  const failure = fail(RETRY_CODE, `guard ${guard} requests another attempt: ${hint}`, {
    guard,
    hint,
  });
  Object.assign(failure.error.detail, { [OWNER]: owner });
  return failure;
}

const ownerOf = ({ detail }: Fault): RetryBudget | undefined =>
  (detail as { [OWNER]?: RetryBudget })[OWNER];

/** True if a guard made this fault. The code alone is not sufficient. */
export const isRetryRequest = (fault: Fault): boolean => ownerOf(fault) !== undefined;

/** Returns the hint if this fault asks this owner to try again. Undefined otherwise. */
export function retryHint(fault: Fault, owner: RetryBudget): string | undefined {
  const { hint } = fault.detail;
  return ownerOf(fault) === owner && typeof hint === 'string' ? hint : undefined;
}

const deciding = ({ findings }: Judgement, kind: Objection): Finding =>
  findings.find((finding) => finding.kind === kind) as Finding;

function retry(op: Operation, judgement: Judgement, frame: Frame): Failure {
  const finding = deciding(judgement, 'retry');
  const budget = frame.retry;
  if (!budget) {
    const reason = `another attempt is needed (${finding.text}), but nothing here can be retried`;
    return denial(op, judgement, finding, { reason });
  }
  if (budget.attempt >= budget.max) {
    const reason = `not satisfied after ${budget.attempt} attempts: ${finding.text}`;
    const code = budget.isLimit ? 'quota_exceeded' : 'permission_denied';
    return denial(op, judgement, finding, { reason, code });
  }
  const hints = judgement.findings.filter(({ kind }) => kind === 'retry');
  return requestRetry(budget, finding.guard, hints.map(({ text }) => text).join('; '));
}

/** Returns code and reason for an answer other than an approval, with the person's comment. */
function refusalOf({ answer, why = '' }: ApprovalAnswer): { code: string; reason: string } {
  const comment = why === '' ? '' : ` (${why})`;
  switch (answer) {
    case 'pending':
      return { code: 'needs_input', reason: 'approval is pending' };
    case 'expired':
      return { code: 'permission_denied', reason: 'the approval request expired' };
    default:
      return { code: 'permission_denied', reason: `a person denied it${comment}` };
  }
}

/** An approval. `holds`: identity of the file that a write may replace. */
interface Approved {
  readonly isApproved: true;
  readonly holds?: string;
}

async function ask(op: Operation, judgement: Judgement, frame: Frame): Promise<Failure | Approved> {
  const { findings, phase, inputs } = judgement;
  const finding = deciding(judgement, 'ask');
  const asking = findings.filter(({ kind }) => kind === 'ask');
  // One approval covers everything that requires approval of the same operation.
  if (frame.isApproved) return { isApproved: true };
  if (!frame.ports.ask) {
    const reason = `approval needed, but no person can answer here: ${finding.text}`;
    return denial(op, judgement, finding, { reason });
  }
  const question: Question = {
    op,
    phase,
    guards: asking.map(({ guard }) => guard),
    questions: asking.map(({ text }) => text),
    reasons: findings.filter(({ kind }) => kind !== 'ask').map(({ text }) => text),
    arguments: inputs,
    sources: [...new Set(asking.flatMap(({ sources }) => sources))],
  };
  const answer = await answerOf(frame.ports.ask, question, frame);
  if (!answer.ok) return denial(op, judgement, finding, { reason: answer.error.detail.message });
  if (answer.output.answer === 'approved') {
    const { holds } = answer.output;
    return { isApproved: true, ...(holds !== undefined && { holds }) };
  }
  const { code, reason } = refusalOf(answer.output);
  return denial(op, judgement, finding, {
    reason: `${reason}: ${finding.text}`,
    code,
    asked: answer.output,
  });
}

async function answerOf(
  port: NonNullable<Ports['ask']>,
  question: Question,
  frame: Frame,
): Promise<Outcome<ApprovalAnswer>> {
  try {
    return await port(question, frame);
  } catch (error) {
    return crashed('the approval request', error);
  }
}

/** Returns undefined if the operation may continue, also after an approval. */
export function carryOut(
  op: Operation,
  judgement: Judgement,
  frame: Frame,
): MaybePromise<Failure | Approved | undefined> {
  const decision = decisionOf(judgement.findings);
  if (decision === 'allow') return undefined;
  if (decision === 'deny') return denial(op, judgement, deciding(judgement, 'deny'));
  return decision === 'ask' ? ask(op, judgement, frame) : retry(op, judgement, frame);
}
