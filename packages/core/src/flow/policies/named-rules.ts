// Defines the rules with a name. Built-in rules apply unless an operator or user sets another state. Packs
// apply if a policy names them. No `labels` entry lifts a rule.
import type { ModelReader } from '../frame.ts';
import {
  type Argument,
  type ArgumentOrigin,
  coversKey,
  type Operation,
  type OperationRisk,
} from '../operation.ts';
import { carries, type Descriptor, EMPTY } from '../values/labels.ts';
import { elementOf, type Value } from '../values/value.ts';

/** One input as rules judge it. The conditions of an operation count as one more input. */
export interface Judged {
  readonly name: string;
  readonly role: Argument['role'];
  readonly kind?: string | undefined;
  readonly marks: Descriptor;
  /** Absent for a condition and for the call as a whole. */
  readonly value?: Value;
  readonly origin?: ArgumentOrigin | undefined;
  /** True for a condition and for the call as a whole, which are not parameters. */
  readonly isImplied?: true;
  /** True for a path at which a new file may be created. */
  readonly isPlace?: boolean;
  /** True for a value that the author fixed. Used only for an operation that may follow addresses. */
  readonly isFixed?: boolean;
}

export interface RuleFacts {
  readonly op: Operation;
  readonly keys: readonly string[];
  readonly risks: ReadonlySet<OperationRisk>;
  readonly inputs: readonly Judged[];
  /** The model that makes the call. Absent: no model does. */
  readonly reader?: ModelReader | undefined;
  /** True if the operation has the label only because of the surrounding call, whose arguments were judged. */
  isInherited(label: string): boolean;
}

export interface NamedRule {
  readonly name: string;
  readonly isBuiltIn: boolean;
  /** The answer without a setting. Absent: `deny`. */
  readonly answer?: 'ask';
  readonly text: string;
  /** The mark that an input must have to offend. Absent: an input may offend by a missing label. */
  readonly mark?: string;
  offenders(facts: RuleFacts): readonly Judged[];
  /** Labels that the rule adds to results instead of refusing. */
  readonly adds?: string;
}

const marked =
  (label: string) =>
  ({ marks }: Judged) =>
    carries(marks, label);
const untrusted = marked('untrusted');

/** True if the value and all its elements have the label. A container has the union of their marks. */
function isAllMarked(value: Value, label: string): boolean {
  const { data, meta } = value;
  if (!carries(meta.descriptor, label)) return false;
  if (!meta.elements || typeof data !== 'object' || data === null) return true;
  return Object.keys(data).every((key) => isAllMarked(elementOf(value, key), label));
}

const lacks =
  (label: string) =>
  ({ marks, value }: Judged): boolean =>
    value ? !isAllMarked(value, label) : !carries(marks, label);

/** True unless the role is `content`: content may be tainted, steering inputs may not. */
const steers = ({ role }: Judged): boolean => role !== 'content';
const isOf = ({ origin }: Judged, ...kinds: readonly ArgumentOrigin['kind'][]): boolean =>
  origin !== undefined && kinds.includes(origin.kind);

/**
 * True if a trusted source vouches for the value; otherwise an untrusted author may have chosen it.
 * Untrusted text that is passed on stays untrusted. The name of an entry of a directory may be a
 * destination, but not content.
 */
const isVouchedFor = (input: Judged): boolean =>
  input.origin !== undefined &&
  !isOf(input, 'reference') &&
  !(input.role === 'content' && isOf(input, 'identifier'));

/**
 * True for a value that a person or the call's text named. A directory entry may be written to, but a
 * target of destruction must be named.
 */
const isStated = (input: Judged): boolean =>
  isVouchedFor(input) && !isOf(input, 'result', 'identifier', 'directory');

/** True if no model under untrusted influence chose the value. Directory entries count. */
const isUnswayed = (input: Judged): boolean => isVouchedFor(input) && !isOf(input, 'result');
/** True if the value was named for this operation. */
const isNamed = ({ origin }: Judged): boolean => origin !== undefined && origin.kind !== 'fixed';

const NO_READER: ModelReader = { marks: EMPTY };

/** Returns the offending inputs. The call as a whole offends if none of its arguments was named. */
const offending = (
  { inputs, reader = NO_READER }: RuleFacts,
  isRelevant: (input: Judged) => boolean,
  isEnough: (input: Judged) => boolean,
): readonly Judged[] => {
  const relevant = inputs.filter(isRelevant);
  const offenders = relevant.filter((input) => untrusted(input) && !isEnough(input));
  if (offenders.length > 0 || !carries(reader.marks, 'untrusted')) return offenders;
  return relevant.some((input) => isNamed(input) && isEnough(input))
    ? []
    : [{ name: 'call', role: undefined, marks: reader.marks, isImplied: true }];
};

const isSwayed = ({ reader = NO_READER }: RuleFacts): boolean => carries(reader.marks, 'untrusted');

const steeredBy =
  (risk: OperationRisk) =>
  (facts: RuleFacts): readonly Judged[] =>
    facts.risks.has(risk) ? offending(facts, steers, isSwayed(facts) ? isStated : isUnswayed) : [];

/**
 * Returns the inputs that decide about the destination, or about the operation at all. If a model has
 * read untrusted text, everything that leaves counts.
 */
function destinationsChosen(facts: RuleFacts): readonly Judged[] {
  const { op, risks, inputs } = facts;
  if (risks.size === 0) return [];
  const leaves = risks.has('exfil');
  if (leaves && isSwayed(facts)) return offending(facts, () => true, isVouchedFor);
  const isTarget = ({ role, isImplied }: Judged) =>
    role === 'destination' || (leaves && (role === 'path' || role === 'command' || isImplied));
  // The operation only reads and sends nothing, so an address that was passed on unread is allowed.
  const isFollowed = (input: Judged) =>
    leaves &&
    op.follows &&
    input.role === 'destination' &&
    isOf(input, 'reference') &&
    inputs.every((other) => other === input || other.isFixed || other.isImplied);
  return inputs.filter(
    (input) => isTarget(input) && untrusted(input) && !isVouchedFor(input) && !isFollowed(input),
  );
}

const whenRisky =
  (risk: OperationRisk, offends: (input: Judged) => boolean) =>
  ({ risks, inputs }: RuleFacts): readonly Judged[] =>
    risks.has(risk) ? inputs.filter(offends) : [];

const RECIPIENT = /^(recipients?|to|cc|bcc|address|destination|url)$/i;

const TARGET = /^(?:ids?|target|path|file)$|(?:Ids?|_ids?)$/;

/** Returns the subjects of an operation: by role, without roles by the usual names, else the first input. */
function subjects(
  inputs: readonly Judged[],
  roles: readonly Judged['role'][],
  names: RegExp,
): readonly Judged[] {
  const named = inputs.filter(({ role, name }) =>
    role === undefined ? names.test(name) : roles.includes(role),
  );
  return named.length > 0 ? named : inputs.slice(0, 1);
}

/** Returns the inputs of a sending operation without a label. */
const sentWithout =
  (label: string) =>
  (facts: RuleFacts): readonly Judged[] =>
    isSend(facts) ? subjects(facts.inputs, ['destination'], RECIPIENT).filter(lacks(label)) : [];

const TARGET_ROLES = ['path', 'destination'] as const;

/** Labels are hierarchical: `exfil:send:mail` is an `exfil:send`. */
const hasLabel = (keys: readonly string[], label: string): boolean =>
  keys.some((key) => coversKey(`op:${label}`, key));

/** True for the call itself. The operations inside of it have no parameters with a meaning. */
const isCallOf = (facts: RuleFacts, label: string): boolean =>
  hasLabel(facts.keys, label) && !facts.isInherited(label);

const isTargeted = (facts: RuleFacts): boolean =>
  isCallOf(facts, 'destructive:targeted') || isDestroyed(facts);

const isDestroyed = ({ risks, inputs }: RuleFacts): boolean =>
  risks.has('destructive') && inputs.some(({ role }) => TARGET_ROLES.some((one) => one === role));

const isSend = (facts: RuleFacts): boolean =>
  isCallOf(facts, 'exfil:send') ||
  (facts.risks.has('exfil') && facts.inputs.some(({ role }) => role === 'destination'));

const isModel = ({ op, keys }: RuleFacts): boolean => op.type === 'model' || hasLabel(keys, 'llm');

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
    answer: 'ask',
    mark: 'untrusted',
    text: 'untrusted data does not decide what is destroyed',
    offenders: steeredBy('destructive'),
  },
  {
    name: 'no-untrusted-privileged',
    isBuiltIn: true,
    answer: 'ask',
    mark: 'untrusted',
    text: 'untrusted data does not steer privileged operations',
    offenders: steeredBy('privileged'),
  },
  {
    name: 'untrusted-destination',
    isBuiltIn: true,
    answer: 'ask',
    mark: 'untrusted',
    text: 'sent data and its destination need a trusted origin',
    offenders: destinationsChosen,
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
    text: 'the destination of a message needs label `known`',
    offenders: sentWithout('known'),
  },
  {
    name: 'no-send-to-external',
    isBuiltIn: false,
    text: 'a destination needs label `known:internal`',
    offenders: sentWithout('known:internal'),
  },
  {
    name: 'no-destroy-unknown',
    isBuiltIn: false,
    text: 'targets of destruction need label `known`',
    offenders: (facts) =>
      isTargeted(facts) ? subjects(facts.inputs, TARGET_ROLES, TARGET).filter(lacks('known')) : [],
  },
  {
    name: 'no-influenced-advice',
    isBuiltIn: false,
    mark: 'influenced',
    text: 'data labelled `influenced` must not give advice',
    offenders: ({ keys, inputs }) =>
      hasLabel(keys, 'advice') ? inputs.filter(marked('influenced')) : [],
  },
  {
    name: 'untrusted-llms-get-influenced',
    isBuiltIn: false,
    mark: 'untrusted',
    text: 'model output from untrusted data gets label `influenced`',
    offenders: (facts) => (isModel(facts) ? facts.inputs.filter(untrusted) : []),
    adds: 'influenced',
  },
];

export const RULE_NAMES: readonly string[] = NAMED_RULES.map(({ name }) => name);
export const PACK_NAMES: readonly string[] = NAMED_RULES.filter(({ isBuiltIn }) => !isBuiltIn).map(
  ({ name }) => name,
);
