// From a judgement to what happens: go on, refuse, ask a person, or try again.
import type { Failure, Outcome } from '../base/index.ts';
import { decisionOf, denial, type Finding, type Judgement, type Objection } from './decision.ts';
import type { Frame } from './frame.ts';
import { type MaybePromise, shielded, whenDone } from './maybe.ts';
import type { Operation } from './operation.ts';
import type { Answer, Question } from './ports.ts';
import { requestRetry } from './retry-request.ts';

const deciding = ({ findings }: Judgement, kind: Objection): Finding =>
  findings.find((finding) => finding.kind === kind) as Finding;

function retry(op: Operation, judgement: Judgement, frame: Frame): Failure {
  const finding = deciding(judgement, 'retry');
  const budget = frame.retry;
  if (!budget) {
    const reason = `asked for another attempt (${finding.text}), but nothing here can be retried`;
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

const REFUSALS: Readonly<Record<Exclude<Answer, 'approved'>, { code: string; reason: string }>> = {
  denied: { code: 'permission_denied', reason: 'a person said no' },
  expired: { code: 'permission_denied', reason: 'the question was not answered in time' },
  pending: { code: 'needs_input', reason: 'waits for an answer' },
};

function ask(op: Operation, judgement: Judgement, frame: Frame): MaybePromise<Failure | undefined> {
  const { findings, phase, inputs } = judgement;
  const finding = deciding(judgement, 'ask');
  const asking = findings.filter(({ kind }) => kind === 'ask');
  const { ports } = frame;
  if (!ports.ask) {
    const reason = `nobody can be asked here: ${finding.text}`;
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
  const settle = (outcome: Outcome<Answer>): Failure | undefined => {
    if (!outcome.ok)
      return denial(op, judgement, finding, { reason: outcome.error.detail.message });
    if (outcome.output === 'approved') return undefined;
    const { code, reason } = REFUSALS[outcome.output] ?? REFUSALS.denied;
    const answer = outcome.output;
    return denial(op, judgement, finding, { reason: `${reason}: ${finding.text}`, code, answer });
  };
  return whenDone(
    shielded(
      'asking a person',
      () => ports.ask?.(question, frame) as MaybePromise<Outcome<Answer>>,
    ),
    settle,
  );
}

/** Undefined: go on. */
export function carryOut(
  op: Operation,
  judgement: Judgement,
  frame: Frame,
): MaybePromise<Failure | undefined> {
  const decision = decisionOf(judgement.findings);
  if (decision === 'allow') return undefined;
  if (decision === 'deny') return denial(op, judgement, deciding(judgement, 'deny'));
  return decision === 'ask' ? ask(op, judgement, frame) : retry(op, judgement, frame);
}
