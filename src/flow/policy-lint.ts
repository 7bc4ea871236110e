// A policy against the project it is for: does everything it names exist, and is every tool that
// can do harm covered by something?
import { type Diagnostic, nearest } from '../base/index.ts';
import { coversKey, isGlob, isRisk, normalizePattern, type OperationRisk } from './operation.ts';
import type { Policy } from './policy.ts';
import { composePolicies } from './policy-compose.ts';

export interface KnownTool {
  readonly id: string;
  readonly risk: readonly OperationRisk[];
  /** Declared parameters and their roles. */
  readonly parameters: readonly { readonly name: string; readonly role?: string }[];
}

export interface KnownNames {
  readonly tools: readonly KnownTool[];
  /** Labels that tools, directives and other policies declare. */
  readonly labels: readonly string[];
}

/** Marks the product itself puts on values. */
const OWN_LABELS = [
  '*',
  'secret',
  'untrusted',
  'trusted',
  'sensitive',
  'known',
  'influenced',
  'pii',
];
const isAutomatic = (label: string): boolean => /^(src|dir):/.test(label);

function finding(policy: Policy, code: string, message: string, hint?: string): Diagnostic {
  return {
    file: policy.file ?? `policy (${policy.level})`,
    line: 1,
    column: 1,
    code,
    severity: 'warning',
    message,
    ...(hint === undefined ? {} : { hint }),
  };
}

const suggestion = (word: string, known: Iterable<string>): string | undefined => {
  const close = nearest(word, known);
  return close === undefined ? undefined : `did you mean \`${close}\`?`;
};

/** Every pattern of the policy with the setting it stands in. */
function patternsIn(policy: Policy): { pattern: string; where: string }[] {
  const fromLabels = Object.entries(policy.labels ?? {}).flatMap(([label, rule]) =>
    (['deny', 'ask', 'allow'] as const).flatMap((verdict) =>
      (rule[verdict] ?? []).map((pattern) => ({ pattern, where: `labels.${label}.${verdict}` })),
    ),
  );
  const fromOperations = Object.entries(policy.operations ?? {}).flatMap(([label, patterns]) =>
    patterns.map((pattern) => ({ pattern, where: `operations.${label}` })),
  );
  const fromGuards = (policy.guards ?? [])
    .filter(({ on }) => on.startsWith('op:'))
    .map(({ on }) => ({ pattern: on, where: 'guards' }));
  return [...fromLabels, ...fromOperations, ...fromGuards];
}

/** `op:tool:…` must cover at least one tool there is. */
function toolFindings(policy: Policy, known: KnownNames): Diagnostic[] {
  return patternsIn(policy).flatMap(({ pattern, where }) => {
    const key = normalizePattern(pattern);
    if (!key.startsWith('op:tool:')) return [];
    const covers = known.tools.some(({ id }) => coversKey(key, `op:tool:${id.toLowerCase()}`));
    if (covers) return [];
    const message = `${where}: no tool is called \`${key.slice('op:tool:'.length)}\``;
    const ids = known.tools.map(({ id }) => id);
    const hint = isGlob(key) ? undefined : suggestion(key.slice('op:tool:'.length), ids);
    return [finding(policy, 'unknown_tool', message, hint)];
  });
}

function labelFindings(policy: Policy, known: KnownNames): Diagnostic[] {
  const all = [...OWN_LABELS, ...known.labels, ...(policy.defaults?.unlabelled ?? [])];
  const named = [
    ...Object.keys(policy.labels ?? {}).map((label) => ({ label, where: 'labels' })),
    ...(policy.guards ?? [])
      .filter(({ on }) => !on.startsWith('op:') && !on.startsWith('@'))
      .map(({ on }) => ({ label: on, where: 'guards' })),
  ];
  return named
    .filter(({ label }) => !isAutomatic(label) && !all.includes(label))
    .map(({ label, where }) =>
      finding(
        policy,
        'unknown_label',
        `${where}: nothing is ever labelled \`${label}\``,
        suggestion(label, all),
      ),
    );
}

/** `input.args.NAME` in a guard on one tool must be a parameter of that tool. */
function parameterFindings(policy: Policy, known: KnownNames): Diagnostic[] {
  return (policy.guards ?? []).flatMap(({ on, when = '' }) => {
    if (!on.startsWith('op:tool:')) return [];
    const key = normalizePattern(on);
    const tools = known.tools.filter(({ id }) => coversKey(key, `op:tool:${id.toLowerCase()}`));
    if (tools.length === 0) return [];
    const names = new Set(tools.flatMap(({ parameters }) => parameters.map(({ name }) => name)));
    const used = [...when.matchAll(/\b(?:input|ctx)\.args\.([A-Za-z_]\w*)/g)].map(
      ([, name = '']) => name,
    );
    return used
      .filter((name) => !names.has(name))
      .map((name) =>
        finding(
          policy,
          'unknown_parameter',
          `guards: \`${on}\` has no parameter \`${name}\``,
          suggestion(name, names),
        ),
      );
  });
}

/** A tool with risk is covered when its rule is on and it says which parameter is which. */
function coverageFindings(policy: Policy, known: KnownNames): Diagnostic[] {
  const { rules } = composePolicies([policy]);
  const ruleFor = { exfil: 'no-secret-exfil', destructive: 'no-untrusted-destructive' } as const;
  return known.tools.flatMap(({ id, risk, parameters }) => {
    const found: Diagnostic[] = [];
    for (const kind of ['exfil', 'destructive'] as const) {
      if (!risk.includes(kind) || rules.get(ruleFor[kind]) !== 'off') continue;
      if (isDenied(policy, id)) continue;
      const message = `\`${id}\` is ${kind}, and \`${ruleFor[kind]}\` is off`;
      found.push(
        finding(
          policy,
          'uncovered_tool',
          message,
          `turn the rule on, or add a guard on \`op:tool:${id}\``,
        ),
      );
    }
    if (risk.includes('exfil') && !parameters.some(({ role }) => role === 'destination')) {
      const hint = 'give the parameter that says where data goes `role: destination`';
      found.push(
        finding(policy, 'no_destination', `\`${id}\` is exfil but names no destination`, hint),
      );
    }
    return found;
  });
}

const isDenied = (policy: Policy, id: string): boolean =>
  patternsIn(policy).some(
    ({ pattern, where }) =>
      !where.endsWith('.allow') &&
      coversKey(normalizePattern(pattern), `op:tool:${id.toLowerCase()}`),
  );

/** An exception without a rule it is an exception from. */
function idleFindings(policy: Policy): Diagnostic[] {
  return Object.entries(policy.operations ?? {})
    .filter(([label]) => !isRisk(label.split(':', 1)[0] ?? '') && !usesLabel(policy, label))
    .map(([label]) =>
      finding(
        policy,
        'unused_label',
        `operations.${label}: no rule and no guard mentions \`${label}\``,
      ),
    );
}

const usesLabel = (policy: Policy, label: string): boolean =>
  patternsIn(policy).some(
    ({ pattern, where }) =>
      !where.startsWith('operations') &&
      coversKey(normalizePattern(pattern), `op:${label.toLowerCase()}`),
  );

/** Warnings only: what is wrong in itself was reported when the file was read. */
export function lintPolicy(policy: Policy, known: KnownNames): Diagnostic[] {
  return [
    ...toolFindings(policy, known),
    ...labelFindings(policy, known),
    ...parameterFindings(policy, known),
    ...coverageFindings(policy, known),
    ...idleFindings(policy),
  ];
}
