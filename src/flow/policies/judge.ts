// Stage 5, the policy part: label rules of every level, named rules, tiers that need approval.
// INVARIANT: levels are judged one by one and all their objections count, so adding a level can only
// narrow. Nothing here ever answers "allow".

import type { Finding, FramePolicy, LabelRule, RuleState } from '../frame.ts';
import {
  type Argument,
  coversKey,
  isRisk,
  keysOf,
  normalizePattern,
  type Operation,
  type OperationRisk,
  specificity,
} from '../operation.ts';
import { type Descriptor, EMPTY, filtersFor } from '../values/labels.ts';
import { type Judged, NAMED_RULES, type NamedRule, type RuleFacts } from './named-rules.ts';
import type { Policy } from './policy.ts';

// `labels` of one policy: which marks may meet which operations. Among the patterns of a rule that
// cover a key of the operation the most specific one speaks; at equal length the stricter one.

type FlowVerdict = 'deny' | 'ask' | 'allow';

interface Pattern {
  readonly pattern: string;
  readonly verdict: FlowVerdict;
  readonly weight: number;
}

const STRICTNESS: Readonly<Record<FlowVerdict, number>> = { deny: 2, ask: 1, allow: 0 };

/** `op:cmd:git` closes `op:cmd`: with exceptions named, the rest of that kind is meant to be shut. */
function closedKinds(rule: LabelRule): string[] {
  const allowed = (rule.allow ?? []).map(normalizePattern);
  const kinds = allowed.map((pattern) => pattern.split(/[:/]/).slice(0, 2).join(':'));
  return kinds.filter((kind) => !allowed.includes(kind) && kind !== 'op:*');
}

function patternsOf(rule: LabelRule): readonly Pattern[] {
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
  readonly isEmpty: boolean;
  /** Rules for the marks of a descriptor; remembered, because descriptors are interned. */
  rulesFor(descriptor: Descriptor): readonly FlowRule[];
  /** The rules that ask for no mark (`*`). */
  readonly general: readonly FlowRule[];
}

function createLabelTable(labels: Readonly<Record<string, LabelRule>>): LabelTable {
  const rules = new Map<string, FlowRule>();
  for (const [label, rule] of Object.entries(labels)) {
    const patterns = patternsOf(rule);
    rules.set(label, {
      label,
      decide: (keys) => patterns.find(({ pattern }) => keys.some((key) => coversKey(pattern, key))),
    });
  }
  const general = [...rules.values()].filter(({ label }) => label === '*');
  const known = new WeakMap<Descriptor, readonly FlowRule[]>();
  const search = (descriptor: Descriptor): readonly FlowRule[] => {
    const filters = new Set(descriptor.taint.flatMap(filtersFor));
    return [...filters].flatMap((filter) => rules.get(filter) ?? []);
  };
  return {
    isEmpty: rules.size === 0,
    general,
    rulesFor(descriptor) {
      if (rules.size === 0 || descriptor.taint.length === 0) return [];
      const found = known.get(descriptor) ?? search(descriptor);
      known.set(descriptor, found);
      return found;
    },
  };
}

/** The part of a policy in force that judges. */
type PolicyJudge = Pick<FramePolicy, 'mayObject' | 'judge' | 'resultLabels'>;

const NO_FINDINGS: readonly Finding[] = Object.freeze([]);
const NO_LABELS: readonly string[] = Object.freeze([]);

function judgedInputs(inputs: readonly Argument[], influence: Descriptor): Judged[] {
  const judged: Judged[] = inputs.map(({ name, role, value }) => ({
    name,
    role,
    marks: value.meta.descriptor,
  }));
  if (influence !== EMPTY) judged.push({ name: 'condition', role: undefined, marks: influence });
  return judged;
}

/** May a key name a risk? Asked for every operation, so it only looks at the beginning. */
const namesRisk = (key: string): boolean =>
  key.startsWith('op:exfil') || key.startsWith('op:destructive') || key.startsWith('op:privileged');

const risksOf = (op: Operation, keys: readonly string[]): ReadonlySet<OperationRisk> => {
  const risks = new Set<OperationRisk>(op.risk);
  for (const key of keys) {
    const word = key.split(':', 2)[1] ?? '';
    if (isRisk(word)) risks.add(word);
  }
  return risks;
};

function labelFindings(
  tables: readonly { source: string; table: LabelTable }[],
  { keys, inputs }: RuleFacts,
): Finding[] {
  const findings: Finding[] = [];
  for (const { source, table } of tables) {
    const check = (
      rule: { label: string; decide: LabelTable['general'][number]['decide'] },
      input?: Judged,
    ) => {
      const found = rule.decide(keys);
      if (!found || found.verdict === 'allow') return;
      const what = rule.label === '*' ? 'this operation' : `data labelled \`${rule.label}\``;
      const text =
        found.verdict === 'deny'
          ? `${what} may not reach \`${found.pattern}\``
          : `may ${what} reach \`${found.pattern}\`?`;
      const { verdict: kind } = found;
      const sources = input?.marks.sources ?? [];
      findings.push({ kind, guard: source, filter: rule.label, text, input: input?.name, sources });
    };
    for (const rule of table.general) check(rule);
    for (const input of inputs) for (const rule of table.rulesFor(input.marks)) check(rule, input);
  }
  return findings;
}

function ruleFindings(rule: NamedRule, state: RuleState, facts: RuleFacts): Finding[] {
  if (state === 'off' || rule.adds) return [];
  return rule.offenders(facts).map((input) => ({
    kind: state,
    guard: `policy:${rule.name}`,
    filter: rule.name,
    text: rule.text,
    input: input.name,
    sources: input.marks.sources,
  }));
}

export function createPolicyJudge(
  levels: readonly Policy[],
  states: ReadonlyMap<string, RuleState>,
  approve: readonly string[],
): PolicyJudge {
  const tables = levels
    .map(({ level, labels = {} }) => ({
      source: `policy:${level}`,
      table: createLabelTable(labels),
    }))
    .filter(({ table }) => !table.isEmpty);
  const isGeneral = tables.some(({ table }) => table.general.length > 0);
  const rules = NAMED_RULES.map((rule) => ({ rule, state: states.get(rule.name) ?? 'off' })).filter(
    ({ state }) => state !== 'off',
  );
  const adding = rules.filter(({ rule }) => rule.adds);

  const factsOf = (
    op: Operation,
    held: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
  ): RuleFacts => {
    const keys = keysOf(op, held);
    return { op, keys, risks: risksOf(op, keys), inputs: judgedInputs(inputs, influence) };
  };

  const mayObject: PolicyJudge['mayObject'] = (
    op: Operation,
    held: readonly string[],
    inputs: readonly Argument[],
    influence: Descriptor,
  ): boolean => {
    if (isGeneral || held.length > 0 || op.tier !== undefined) return true;
    if (op.risk?.length || op.labels?.length) return true;
    if (op.opLabels.some(namesRisk)) return true;
    if (tables.length === 0) return false;
    return tables.some(
      ({ table }) =>
        table.rulesFor(influence).length > 0 ||
        inputs.some(({ value }) => table.rulesFor(value.meta.descriptor).length > 0),
    );
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
    judge(op, held, inputs, influence) {
      if (!mayObject(op, held, inputs, influence)) return NO_FINDINGS;
      const facts = factsOf(op, held, inputs, influence);
      return [
        ...labelFindings(tables, facts),
        ...rules.flatMap(({ rule, state }) => ruleFindings(rule, state, facts)),
        ...tierFinding(op),
      ];
    },
    resultLabels(op, held, inputs, influence) {
      if (adding.length === 0) return NO_LABELS;
      const facts = factsOf(op, held, inputs, influence);
      return adding
        .filter(({ rule }) => rule.offenders(facts).length > 0)
        .flatMap(({ rule }) => rule.adds ?? []);
    },
  };
}
