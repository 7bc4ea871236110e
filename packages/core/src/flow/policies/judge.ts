// Implements the policy part of stage 5: label rules of every level, named rules, and tiers that need approval.
// INVARIANT: levels are always judged one by one and all their objections count, so one more level can
// only narrow. This file never answers "allow".
import type { Finding, Frame, FramePolicy, LabelRule, ModelReader, RuleState } from '../frame.ts';
import {
  type Argument,
  type ArgumentOrigin,
  coversKey,
  isRisk,
  keysOf,
  normalizePattern,
  type Operation,
  type OperationRisk,
  specificity,
} from '../operation.ts';
import { carries, type Descriptor, EMPTY, filtersFor, mergeDescriptors } from '../values/labels.ts';
import { vouchedInAll } from '../values/result-fields.ts';
import type { Value } from '../values/value.ts';
import { type Judged, NAMED_RULES, type NamedRule, type RuleFacts } from './named-rules.ts';
import type { Policy } from './policy.ts';

/** The most specific pattern of a rule decides. Of two patterns of equal length the stricter one decides. */
type FlowVerdict = 'deny' | 'ask' | 'allow';

interface WeighedPattern {
  readonly pattern: string;
  readonly verdict: FlowVerdict;
  readonly weight: number;
}

const STRICTNESS: Readonly<Record<FlowVerdict, number>> = { deny: 2, ask: 1, allow: 0 };

/** Returns the closed kinds: `op:cmd:git` among the exceptions closes the rest of `op:cmd`. */
function closedKinds(rule: LabelRule): string[] {
  const allowed = (rule.allow ?? []).map(normalizePattern);
  const kinds = allowed.map((pattern) => pattern.split(/[:/]/).slice(0, 2).join(':'));
  return kinds.filter((kind) => !allowed.includes(kind) && kind !== 'op:*');
}

function patternsOf(rule: LabelRule): readonly WeighedPattern[] {
  const of = (verdict: FlowVerdict, patterns: readonly string[]) =>
    patterns.map((text) => {
      const pattern = normalizePattern(text);
      return { pattern, verdict, weight: specificity(pattern) };
    });
  return [
    ...of('deny', [...(rule.deny ?? []), ...closedKinds(rule)]),
    ...of('ask', rule.ask ?? []),
    ...of('allow', rule.allow ?? []),
  ].toSorted((a, b) => b.weight - a.weight || STRICTNESS[b.verdict] - STRICTNESS[a.verdict]);
}

interface FlowRule {
  readonly label: string;
  decide(keys: readonly string[]): { verdict: FlowVerdict; pattern: string } | undefined;
}

interface LabelTable {
  readonly source: string;
  /** True if a privileged guard may make exceptions to these rules. */
  readonly yields: boolean;
  readonly rules: ReadonlyMap<string, FlowRule>;
  /** The reason that a broken policy gives instead of the rule. */
  readonly closed?: string;
}

function createLabelTable(policy: Policy, yields: boolean): LabelTable {
  const { level, labels = {}, capabilities } = policy;
  const rules = Object.entries(labels).map(([label, rule]): [string, FlowRule] => {
    const patterns = patternsOf(rule);
    const decide: FlowRule['decide'] = (keys) =>
      patterns.find(({ pattern }) => keys.some((key) => coversKey(pattern, key)));
    return [label, { label, decide }];
  });
  const { closed } = capabilities ?? {};
  return { source: `policy:${level}`, yields, rules: new Map(rules), ...(closed && { closed }) };
}

/** Returns the rules for the marks of a descriptor. */
const rulesFor = ({ rules }: LabelTable, { taint }: Descriptor): readonly FlowRule[] =>
  [...new Set(taint.flatMap(filtersFor))].flatMap((filter) => rules.get(filter) ?? []);

/** The judging part of a policy in force. */
type PolicyJudge = Pick<FramePolicy, 'mayObject' | 'judge' | 'resultLabels'>;

const NO_FINDINGS: readonly Finding[] = Object.freeze([]);
const NO_LABELS: readonly string[] = Object.freeze([]);

/**
 * Returns the origin of a value that was passed on unchanged, from the declaration of the tool that
 * returned it.
 */
function originByFacts(value: Value, forKind: string | undefined): ArgumentOrigin | undefined {
  if (!carries(value.meta.descriptor, 'untrusted')) return undefined;
  const kind = vouchedInAll(value, forKind);
  return kind && { kind };
}

const isFixed = ({ follows, fixed = {} }: Operation, { name, value }: Argument): boolean =>
  follows === true &&
  Object.hasOwn(fixed, name) &&
  JSON.stringify(fixed[name]) === JSON.stringify(value.data);

function judgedInputs(op: Operation, inputs: readonly Argument[], influence: Descriptor): Judged[] {
  const judged: Judged[] = inputs.map((argument) => {
    const { name, role, kind, value, origin, place } = argument;
    return {
      name,
      role,
      kind,
      marks: value.meta.descriptor,
      value,
      origin: origin ?? originByFacts(value, kind),
      isPlace: place !== undefined,
      isFixed: isFixed(op, argument),
    };
  });
  if (influence !== EMPTY) {
    judged.push({ name: 'condition', role: undefined, marks: influence, isImplied: true });
  }
  return judged;
}

const risksOf = (op: Operation, keys: readonly string[]): ReadonlySet<OperationRisk> => {
  const risks = new Set<OperationRisk>(op.risk);
  for (const key of keys) {
    const word = key.split(':', 2)[1] ?? '';
    if (isRisk(word)) risks.add(word);
  }
  return risks;
};

const yieldingOf = (
  leaves: 'ask' | 'off',
  mark: string | undefined,
  input: Judged | undefined,
): NonNullable<Finding['yields']> => ({
  leaves,
  mark,
  marks: input?.marks,
  isImplied: input?.isImplied,
});

function labelFindings(tables: readonly LabelTable[], { keys, inputs }: RuleFacts): Finding[] {
  const findings: Finding[] = [];
  for (const table of tables) {
    const check = ({ label, decide }: FlowRule, input?: Judged): void => {
      const match = decide(keys);
      if (!match || match.verdict === 'allow') return;
      const { verdict: kind, pattern } = match;
      const what = label === '*' ? 'this operation' : `data labelled \`${label}\``;
      const text =
        kind === 'deny'
          ? (table.closed ?? `${what} may not reach \`${pattern}\``)
          : `may ${what} reach \`${pattern}\`?`;
      const sources = input?.marks.sources ?? [];
      findings.push({
        kind,
        guard: table.source,
        filter: label,
        text,
        input: input?.name,
        sources,
        ...(table.yields && { yields: yieldingOf('off', label, input) }),
      });
    };
    const general = table.rules.get('*');
    if (general) check(general);
    for (const input of inputs) {
      for (const rule of rulesFor(table, input.marks)) check(rule, input);
    }
  }
  return findings;
}

/** Returns the remedies other than an approval. They exist only if a model made the call. */
function waysOut({ reader }: RuleFacts, input: Judged): readonly string[] {
  const { name, kind, marks, isImplied, isPlace } = input;
  if (!reader || !carries(marks, 'untrusted')) return [];
  const { from } = reader;
  return [
    ...(isImplied ? [] : [`name the value of \`${name}\` in the message or an input`]),
    ...(kind === undefined ? [] : [`use an unchanged value of a field of kind \`${kind}\``]),
    ...(isPlace ? ['create a new file in a folder that the directive grants for writing'] : []),
    ...(from === undefined
      ? []
      : [`if \`${from}\` can be trusted, add \`trusted: { tools: [${from}] }\` to a policy`]),
  ];
}

/** Returns the findings of a named rule. `stated`: the state that remains after an exception. */
function ruleFindings(
  rule: NamedRule,
  state: RuleState,
  stated: RuleState,
  facts: RuleFacts,
): Finding[] {
  if (state === 'off') return [];
  return rule.offenders(facts).map((input) => ({
    kind: state,
    guard: `policy:${rule.name}`,
    filter: rule.name,
    text: rule.text,
    input: input.name,
    sources: input.marks.sources,
    ways: waysOut(facts, input),
    ...(stated !== 'deny' && stated !== state && { yields: yieldingOf(stated, rule.mark, input) }),
  }));
}

/** Flags: which parts of a policy the marks of one value can concern. */
const NOTHING = 0;
const A_LABEL = 1;
const A_RULE = 2;

/** True if a key of this operation could name a risk. It only compares prefixes, because it runs every time. */
function isRisky({ risk, labels, opLabels }: Operation, outerLabels: readonly string[]): boolean {
  if (outerLabels.length > 0 || risk?.length || labels?.length) return true;
  for (const key of opLabels) {
    if (key.startsWith('op:exfil') || key.startsWith('op:destructive')) return true;
    if (key.startsWith('op:privileged') || key.startsWith('op:advice')) return true;
  }
  return false;
}

const isLabelled = (labels: readonly string[], label: string): boolean =>
  labels.some((one) => coversKey(label, one.toLowerCase()));

/**
 * True if the label is neither the operation's own nor given to it, but belongs to a surrounding
 * function that had arguments.
 */
function isInherited(
  op: Operation,
  policyLabels: readonly string[],
  label: string,
  around: Frame | undefined,
): boolean {
  if (
    isLabelled(policyLabels, label) ||
    keysOf(op, policyLabels).some((key) => coversKey(`op:${label}`, key))
  )
    return false;
  let from: Frame | undefined;
  for (let at = around; at && isLabelled(at.held, label); at = at.parent) from = at;
  return from !== undefined && from.inputs.length > 0;
}

interface JudgeSettings {
  readonly states: ReadonlyMap<string, RuleState>;
  /** Rule states of policy files and locked policies. No exception lifts them. */
  readonly stated: ReadonlyMap<string, RuleState>;
  readonly approve: readonly string[];
  isLiftable(policy: Policy): boolean;
  operationLabels: FramePolicy['operationLabels'];
}

export function createPolicyJudge(
  levels: readonly Policy[],
  { states, stated, approve, isLiftable, operationLabels }: JudgeSettings,
): PolicyJudge {
  const tables = levels
    .map((policy) => createLabelTable(policy, isLiftable(policy)))
    .filter(({ rules }) => rules.size > 0);
  const stateOf = (from: ReadonlyMap<string, RuleState>, { name }: NamedRule): RuleState =>
    from.get(name) ?? 'off';
  const isGeneral = tables.some(({ rules }) => rules.has('*'));
  const active = NAMED_RULES.filter((rule) => stateOf(states, rule) !== 'off');
  const judging = active.filter(({ adds }) => adds === undefined);
  const adding = active.filter(({ adds }) => adds !== undefined);
  const watched = new Set(judging.flatMap(({ mark }) => mark ?? []));
  const watchesAll = judging.some(({ mark }) => mark === undefined);

  // Descriptors are interned, so each one is examined once.
  const concerns = new WeakMap<Descriptor, number>();
  function concernOf(descriptor: Descriptor): number {
    if (descriptor.taint.length === 0) return NOTHING;
    const before = concerns.get(descriptor);
    if (before !== undefined) return before;
    const isLabelled = tables.some((table) => rulesFor(table, descriptor).length > 0);
    const isWatched = [...watched].some((mark) => carries(descriptor, mark));
    const concern = (isLabelled ? A_LABEL : NOTHING) | (isWatched ? A_RULE : NOTHING);
    concerns.set(descriptor, concern);
    return concern;
  }

  const factsOf = (
    op: Operation,
    outerLabels: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
    reader?: ModelReader,
    around?: Frame,
  ): RuleFacts => {
    const keys = keysOf(op, outerLabels);
    return {
      op,
      keys,
      risks: risksOf(op, keys),
      inputs: judgedInputs(op, inputs, influence),
      reader,
      isInherited: (label) => isInherited(op, operationLabels(op, NO_LABELS), label, around),
    };
  };

  const mayObject: PolicyJudge['mayObject'] = (op, outerLabels, inputs, influence) => {
    if (isGeneral || (op.tier !== undefined && approve.includes(op.tier))) return true;
    const isAtRisk = isRisky(op, outerLabels);
    if (isAtRisk ? watchesAll : tables.length === 0) return isAtRisk;
    let concern = concernOf(influence);
    for (const { value } of inputs) concern |= concernOf(value.meta.descriptor);
    return isAtRisk ? concern !== NOTHING : (concern & A_LABEL) !== 0;
  };

  const tierFinding = (op: Operation): Finding[] =>
    op.tier !== undefined && approve.includes(op.tier)
      ? [
          {
            kind: 'ask',
            guard: 'policy:approve',
            filter: op.tier,
            text: `operations of tier \`${op.tier}\` need approval`,
            input: undefined,
            sources: [],
          },
        ]
      : [];

  return {
    mayObject,
    judge(op, outerLabels, inputs, influence, reader, around) {
      const marks = mergeDescriptors(influence, reader?.marks ?? EMPTY);
      if (!mayObject(op, outerLabels, inputs, marks)) return NO_FINDINGS;
      const facts = factsOf(op, outerLabels, inputs, influence, reader, around);
      return [
        ...labelFindings(tables, facts),
        ...judging.flatMap((rule) =>
          ruleFindings(rule, stateOf(states, rule), stateOf(stated, rule), facts),
        ),
        ...tierFinding(op),
      ];
    },
    resultLabels(op, outerLabels, inputs, influence) {
      if (adding.length === 0) return NO_LABELS;
      const facts = factsOf(op, outerLabels, inputs, influence);
      return adding.flatMap(({ offenders, adds = [] }) =>
        offenders(facts).length > 0 ? adds : [],
      );
    },
  };
}
