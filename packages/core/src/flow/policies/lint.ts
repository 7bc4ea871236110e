// Checks a policy against its project: every name exists, and every tool with a risk is covered by a rule.
import { type Diagnostic, didYouMean, matchGlob, type Position } from '../../base/index.ts';
import type { GuardSource } from '../guards/guard-expression.ts';
import { coversKey, isGlob, isRisk, normalizePattern, type OperationRisk } from '../operation.ts';
import { composePolicies, grantKey } from './compose.ts';
import type { Policy } from './policy.ts';

interface KnownTool {
  readonly id: string;
  readonly risk: readonly OperationRisk[];
  readonly parameters: readonly { readonly name: string }[];
}

export interface KnownNames {
  readonly tools: readonly KnownTool[];
  /** Labels that tools, directives and other policies declare. */
  readonly labels: readonly string[];
  /** Ids of models of tiers, prices and providers. Absent: ids of models are not checked. */
  readonly models?: readonly string[];
  /** The bundle's settings of surfaces. Absent: `open` is not compared with its denials. */
  readonly shipped?: Policy['surfaces'];
}

type Path = readonly (string | number)[];

interface PolicyFinding {
  readonly path: Path;
  readonly code: string;
  readonly message: string;
  readonly hint?: string | undefined;
}

/** Marks that the runtime itself puts on values. */
export const OWN_LABELS: readonly string[] = [
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

interface LintedPattern {
  readonly written: string;
  /** The pattern in the form that keys are compared with. */
  readonly key: string;
  readonly path: Path;
}

/** Returns every pattern of the policy with the path of its setting. */
export function patternsIn(policy: Policy): LintedPattern[] {
  const at = (path: Path) => (written: string, index: number) => ({
    written,
    key: normalizePattern(written),
    path: [...path, index],
  });
  const labels = Object.entries(policy.labels ?? {}).flatMap(([label, rule]) =>
    (['deny', 'ask', 'allow'] as const).flatMap((verdict) =>
      (rule[verdict] ?? []).map(at(['labels', label, verdict])),
    ),
  );
  const operations = Object.entries(policy.operations ?? {}).flatMap(([label, patterns]) =>
    patterns.map(at(['operations', label])),
  );
  const guards = (policy.guards ?? []).flatMap(({ on }, index) =>
    on.startsWith('op:')
      ? [{ written: on, key: normalizePattern(on), path: ['guards', index, 'on'] }]
      : [],
  );
  return [...labels, ...operations, ...guards];
}

const toolKey = ({ id }: { id: string }): string => `op:tool:${id.toLowerCase()}`;

/** A pattern `op:tool:…` must cover at least one existing tool. */
function toolFindings(policy: Policy, { tools }: KnownNames): PolicyFinding[] {
  return patternsIn(policy).flatMap(({ key, path }) => {
    if (!key.startsWith('op:tool:') || tools.some((tool) => coversKey(key, toolKey(tool))))
      return [];
    const name = key.slice('op:tool:'.length);
    const ids = tools.map(({ id }) => id);
    const hint = isGlob(key) ? undefined : didYouMean(name, ids);
    return [{ path, code: 'unknown_tool', message: `tool \`${name}\` not found`, hint }];
  });
}

function trustFindings({ trusted }: Policy, { tools }: KnownNames): PolicyFinding[] {
  const ids = tools.map(({ id }) => id);
  return (trusted?.tools ?? []).flatMap((glob, index) =>
    ids.some((id) => matchGlob(glob, id))
      ? []
      : [
          {
            path: ['trusted', 'tools', index],
            code: 'unknown_tool',
            message: `tool \`${glob}\` not found`,
            hint: isGlob(glob) ? undefined : didYouMean(glob, ids),
          },
        ],
  );
}

/** Checks ids of models. A glob without a match is accepted, because a later model may match it. */
function modelFindings({ models: rule = {} }: Policy, { models }: KnownNames): PolicyFinding[] {
  if (!models) return [];
  return (['allow', 'deny'] as const).flatMap((list) =>
    (rule[list] ?? []).flatMap((glob, index) => {
      if (models.some((id) => matchGlob(glob.toLowerCase(), id.toLowerCase()))) return [];
      const hint = isGlob(glob) ? undefined : didYouMean(glob, models);
      const message = `model \`${glob}\` not found in any tier, price or provider`;
      return [{ path: ['models', list, index], code: 'unknown_model', message, hint }];
    }),
  );
}

/** Returns the labels that a policy or the guards of a directive add. */
export const labelsGivenBy = ({ defaults, operations, guards = [] }: Partial<Policy>): string[] => [
  ...(defaults?.unlabelled ?? []),
  ...Object.keys(operations ?? {}),
  ...guards.flatMap(({ verdict }) => verdict.add_labels ?? []),
];

function labelFindings(policy: Policy, names: KnownNames): PolicyFinding[] {
  const all = [...OWN_LABELS, ...names.labels, ...labelsGivenBy(policy)];
  const rules = Object.keys(policy.labels ?? {}).map((label) => ({
    label,
    path: ['labels', label],
  }));
  const guards = (policy.guards ?? []).flatMap(({ on }, index) =>
    // A guard on a label also judges operations, and risks are labels of operations.
    /^(op:|@)/.test(on) || isRisk(on.split(':', 1)[0] ?? '')
      ? []
      : [{ label: on, path: ['guards', index, 'on'] }],
  );
  const isGiven = (label: string) =>
    all.some((one) => one === label || one.startsWith(`${label}:`));
  return [...rules, ...guards]
    .filter(({ label }) => !isAutomatic(label) && !isGiven(label))
    .map(({ label, path }) => ({
      path,
      code: 'unknown_label',
      message: `no tool, directive or policy adds label \`${label}\``,
      hint: didYouMean(label, all),
    }));
}

/** `input.args.NAME` in a guard on tools must be a parameter of one of them. */
function parameterFindings(policy: Policy, declared: KnownNames): PolicyFinding[] {
  return (policy.guards ?? []).flatMap(({ on, when = '' }, index) => {
    if (!on.startsWith('op:tool:')) return [];
    const key = normalizePattern(on);
    const tools = declared.tools.filter((tool) => coversKey(key, toolKey(tool)));
    if (tools.length === 0) return [];
    const names = new Set(tools.flatMap(({ parameters }) => parameters.map(({ name }) => name)));
    return [...when.matchAll(/\b(?:input|ctx)\.args\.([A-Za-z_]\w*)/g)]
      .map(([, name = '']) => name)
      .filter((name) => !names.has(name))
      .map((name) => ({
        path: ['guards', index, 'when'],
        code: 'unknown_parameter',
        message: `\`${on}\` has no parameter \`${name}\``,
        hint: didYouMean(name, names),
      }));
  });
}

const RULE_FOR = { exfil: 'no-secret-exfil', destructive: 'no-untrusted-destructive' } as const;

/**
 * A tool with a risk must be covered by the rule of the risk, or by a rule or guard of this policy that
 * names it.
 */
function coverageFindings(policy: Policy, { tools }: KnownNames): PolicyFinding[] {
  const { rules } = composePolicies([{ ...policy, guards: [] }]);
  const restricting = patternsIn(policy).filter(({ path }) => !path.includes('allow'));
  const isNamed = (tool: KnownTool) =>
    restricting.some(({ key, path }) => path[0] !== 'operations' && coversKey(key, toolKey(tool)));
  return (['exfil', 'destructive'] as const).flatMap((risk) => {
    const rule = RULE_FOR[risk];
    if (rules.get(rule) !== 'off') return [];
    return tools
      .filter((tool) => tool.risk.includes(risk) && !isNamed(tool))
      .map((tool) => ({
        path: ['rules', rule],
        code: 'uncovered_tool',
        message: `tool \`${tool.id}\` has risk \`${risk}\`, but rule \`${rule}\` is off`,
        hint: `turn the rule on, or add a guard on \`op:tool:${tool.id}\``,
      }));
  });
}

/** Finds labels for operations that no rule or guard uses. */
function idleFindings(policy: Policy): PolicyFinding[] {
  const asking = patternsIn(policy).filter(({ path }) => path[0] !== 'operations');
  const filters = (policy.guards ?? []).map(({ on }) => on);
  const isUsed = (label: string) =>
    isRisk(label.split(':', 1)[0] ?? '') ||
    filters.some((on) => label === on || label.startsWith(`${on}:`)) ||
    asking.some(({ key }) => coversKey(key, `op:${label.toLowerCase()}`));
  return Object.keys(policy.operations ?? {})
    .filter((label) => !isUsed(label))
    .map((label) => ({
      path: ['operations', label],
      code: 'unused_label',
      message: `no rule or guard uses label \`${label}\``,
    }));
}

/** Finds privileged guards that allow every operation, which would be an exception to all rules. */
function exceptionFindings({ guards = [] }: Policy): PolicyFinding[] {
  return guards.flatMap(({ on, timing, when, privileged, verdict }, index): PolicyFinding[] =>
    privileged &&
    timing === 'before' &&
    when === undefined &&
    verdict.kind.startsWith('allow') &&
    /^(?:op:|@)/.test(on)
      ? [
          {
            path: ['guards', index],
            code: 'exception_wide',
            message: `this guard lifts refusals of rules for every operation of \`${on}\``,
            hint: 'restrict it with `when`',
          },
        ]
      : [],
  );
}

/** Finds `open` entries without effect: in a project's policy, or without a matching denial. */
function openFindings({ level, surfaces = {} }: Policy, { shipped }: KnownNames): PolicyFinding[] {
  return Object.entries(surfaces).flatMap(([name, { open = [] }]) => {
    const denied = shipped?.[name]?.capabilities?.deny ?? [];
    const keys = new Set(denied.map(grantKey));
    return open.flatMap((grant, index): PolicyFinding[] => {
      const about = { path: ['surfaces', name, 'open', index], code: 'opens_nothing' };
      if (level === 'project') {
        const message = '`open` has no effect here; set it in the policy of the user or operator';
        return [{ ...about, message }];
      }
      if (!shipped || keys.has(grantKey(grant))) return [];
      const message = `the bundle has no denial on surface \`${name}\` that equals this entry`;
      return [{ ...about, message }];
    });
  });
}

const asWarning =
  (file: string, locate: (path: Path) => Position) =>
  ({ path, code, message, hint }: PolicyFinding): Diagnostic => ({
    file,
    ...locate(path),
    code,
    severity: 'warning',
    message,
    ...(hint === undefined ? {} : { hint }),
  });

/** Checks that the names in guards of a directive exist. */
export function lintGuards(guards: readonly GuardSource[], names: KnownNames): Diagnostic[] {
  const policy: Policy = { level: 'project', guards: [...guards] };
  return [toolFindings, labelFindings, parameterFindings]
    .flatMap((find) => find(policy, names))
    .map((finding) => {
      const { file = '', line = 1, column = 1 } = guards[Number(finding.path[1])] ?? {};
      return asWarning(file, () => ({ line, column }))(finding);
    });
}

/** Returns only warnings. `parsePolicy` reports the errors of the file itself. */
export function lintPolicy(
  policy: Policy,
  names: KnownNames,
  locate: (path: Path) => Position = () => ({ line: 1, column: 1 }),
): Diagnostic[] {
  const findings = [
    ...toolFindings(policy, names),
    ...trustFindings(policy, names),
    ...modelFindings(policy, names),
    ...labelFindings(policy, names),
    ...parameterFindings(policy, names),
    ...coverageFindings(policy, names),
    ...idleFindings(policy),
    ...openFindings(policy, names),
    ...exceptionFindings(policy),
  ];
  return findings.map(asWarning(policy.file ?? `policy (${policy.level})`, locate));
}
