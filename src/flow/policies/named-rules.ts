// The rules that are known by name. Built-in ones hold unless an operator or user says otherwise;
// packs hold where a policy names them. No `labels` entry lifts a rule.

import type { Argument, Operation, OperationRisk } from '../operation.ts';
import { carries, type Descriptor } from '../values/labels.ts';

/** One input as rules see it; the conditions an operation stands under count as one more. */
export interface Judged {
  readonly name: string;
  readonly role: Argument['role'];
  readonly marks: Descriptor;
}

export interface RuleFacts {
  readonly op: Operation;
  readonly keys: readonly string[];
  readonly risks: ReadonlySet<OperationRisk>;
  readonly inputs: readonly Judged[];
}

export interface NamedRule {
  readonly name: string;
  readonly isBuiltIn: boolean;
  readonly text: string;
  /** The mark without which no input offends; absent: one may offend by what it lacks. */
  readonly mark?: string;
  /** The inputs that offend. */
  offenders(facts: RuleFacts): readonly Judged[];
  /** Marks it adds to results instead of refusing anything. */
  readonly adds?: string;
}

const marked =
  (label: string) =>
  ({ marks }: Judged) =>
    carries(marks, label);
const untrusted = marked('untrusted');

/** Content may be tainted; what steers the operation may not. */
const steers = ({ role }: Judged): boolean => role !== 'content';

const whenRisky =
  (risk: OperationRisk, offends: (input: Judged) => boolean) =>
  ({ risks, inputs }: RuleFacts): readonly Judged[] =>
    risks.has(risk) ? inputs.filter(offends) : [];

const RECIPIENT = /^(recipients?|to|cc|bcc|address|destination|url)$/i;

/** Where a sending operation sends to: by role, by the usual names, else the first input. */
function destinations(inputs: readonly Judged[]): readonly Judged[] {
  const byRole = inputs.filter(({ role }) => role === 'destination');
  if (byRole.length > 0) return byRole;
  const byName = inputs.filter(({ name }) => RECIPIENT.test(name));
  return byName.length > 0 ? byName : inputs.slice(0, 1);
}

const isSend = ({ keys, risks, inputs }: RuleFacts): boolean =>
  keys.includes('op:exfil:send') ||
  (risks.has('exfil') && inputs.some(({ role }) => role === 'destination'));

const isModel = ({ op, keys }: RuleFacts): boolean =>
  op.type === 'model' || keys.includes('op:llm');

export const NAMED_RULES: readonly NamedRule[] = [
  {
    name: 'no-secret-exfil',
    isBuiltIn: true,
    mark: 'secret',
    text: 'secrets do not leave',
    offenders: whenRisky('exfil', marked('secret')),
  },
  {
    name: 'no-untrusted-destructive',
    isBuiltIn: true,
    mark: 'untrusted',
    text: 'untrusted data does not decide what is destroyed',
    offenders: whenRisky('destructive', (input) => steers(input) && untrusted(input)),
  },
  {
    name: 'no-untrusted-privileged',
    isBuiltIn: true,
    mark: 'untrusted',
    text: 'untrusted data does not steer privileged operations',
    offenders: whenRisky('privileged', (input) => steers(input) && untrusted(input)),
  },
  {
    name: 'untrusted-destination',
    isBuiltIn: true,
    mark: 'untrusted',
    text: 'the destination must have a trusted origin',
    offenders: ({ risks, inputs }) =>
      risks.size > 0
        ? inputs.filter((input) => input.role === 'destination' && untrusted(input))
        : [],
  },
  {
    name: 'no-sensitive-exfil',
    isBuiltIn: false,
    mark: 'sensitive',
    text: 'sensitive data does not leave',
    offenders: whenRisky('exfil', marked('sensitive')),
  },
  {
    name: 'no-send-to-unknown',
    isBuiltIn: false,
    text: 'messages go to known destinations only (label `known`)',
    offenders: (facts) =>
      isSend(facts) ? destinations(facts.inputs).filter((input) => !marked('known')(input)) : [],
  },
  {
    name: 'untrusted-llms-get-influenced',
    isBuiltIn: false,
    mark: 'untrusted',
    text: 'what a model makes of untrusted data is marked `influenced`',
    offenders: (facts) => (isModel(facts) ? facts.inputs.filter(untrusted) : []),
    adds: 'influenced',
  },
];

export const RULE_NAMES: readonly string[] = NAMED_RULES.map(({ name }) => name);
export const PACK_NAMES: readonly string[] = NAMED_RULES.filter(({ isBuiltIn }) => !isBuiltIn).map(
  ({ name }) => name,
);
