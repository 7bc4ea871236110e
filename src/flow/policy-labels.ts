// `labels` of one policy: which marks may meet which operations. Among the patterns of a rule that
// cover a key of the operation the most specific one speaks; at equal length the stricter one.
import type { Descriptor } from './descriptor.ts';
import { filtersFor } from './descriptor.ts';
import { coversKey, normalizePattern, specificity } from './operation.ts';
import type { LabelRule } from './policy.ts';

export type FlowVerdict = 'deny' | 'ask' | 'allow';

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

export interface FlowRule {
  readonly label: string;
  decide(keys: readonly string[]): { verdict: FlowVerdict; pattern: string } | undefined;
}

export interface LabelTable {
  readonly isEmpty: boolean;
  /** Rules for the marks of a descriptor; remembered, because descriptors are interned. */
  rulesFor(descriptor: Descriptor): readonly FlowRule[];
  /** The rules that ask for no mark (`*`). */
  readonly general: readonly FlowRule[];
}

export function createLabelTable(labels: Readonly<Record<string, LabelRule>>): LabelTable {
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
