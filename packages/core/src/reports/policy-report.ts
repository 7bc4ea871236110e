// Reports the policy in force for `policy show`: all levels merged, each line with its source. A setting that
// another level overrides, or that its level may not set, is included and marked.
import { type Json, type JsonObject, type Outcome, ok, plainText } from '../base/index.ts';
import { directiveLimits, packLimits } from '../harness/index.ts';
import type { Runtime } from '../runtime/index.ts';

type Policies = ReturnType<Runtime['policies']>['policy'];
type Level = Policies['levels'][number];

/** One setting in the merged policy. */
type PolicyLine = {
  setting: string;
  value: Json;
  /** Levels that set this value. `built in`: no level sets it. */
  from: string[];
  file?: string;
  /** True: the setting is not in force. Another level is stricter, or its file is not signed. */
  void?: true;
};

const BUILT_IN = 'built in';
const DAY_MS = 24 * 60 * 60 * 1000;
const SURFACES = ['cli', 'library', 'script', 'mcp', 'web', 'acp', 'schedule'];

/** Returns the value in force with its levels, then a void line for each level with another value. */
function settled(
  levels: readonly Level[],
  setting: string,
  value: Json | undefined,
  read: (level: Level) => Json | undefined,
): PolicyLine[] {
  const rows = levels.flatMap((level) => {
    const word = read(level);
    return word === undefined ? [] : [{ level: level.level, word: JSON.stringify(word) }];
  });
  if (value === undefined && rows.length === 0) return [];
  const from = rows.flatMap(({ level, word }) => (word === JSON.stringify(value) ? [level] : []));
  const holds: PolicyLine[] =
    value === undefined
      ? []
      : [{ setting, value, from: from.length > 0 ? [...new Set(from)] : [BUILT_IN] }];
  const voidLines = rows
    .filter(({ word }) => word !== JSON.stringify(value))
    .map(
      ({ level, word }): PolicyLine => ({
        setting,
        value: JSON.parse(word) as Json,
        from: [level],
        void: true,
      }),
    );
  return [...holds, ...voidLines];
}

function words(policy: Policies): PolicyLine[] {
  const { levels, retention, transcript, notify } = policy;
  const one = (
    setting: string,
    value: Json | undefined,
    read: (level: Level) => Json | undefined,
  ) => settled(levels, setting, value, read);
  return [
    ...one('unsigned', policy.allowsUnsigned ? 'allow' : 'restrict', (level) => level.unsigned),
    ...one('sandbox', policy.sandbox, (level) => level.sandbox),
    ...one('install', policy.install, (level) => level.install),
    ...one('anneal', policy.anneal, (level) => level.anneal),
    ...one('acp.may_approve', policy.acp.may_approve, (level) => level.acp?.may_approve),
    ...one('acp.words', policy.acp.words, (level) => level.acp?.words),
    ...one('prices', policy.allowsLowerPrices ? 'project' : 'user', (level) => level.prices),
    ...one('transcript', transcript, (level) => level.transcript),
    ...one('approvals.days', policy.approvalMs / DAY_MS, (level) => level.approvals?.days),
    ...one('retention.days', retention.days, (level) => level.retention?.days),
    ...one('retention.keep_failed', retention.keep_failed, (level) => level.retention?.keep_failed),
    // The target of a notification can contain a key, so only the names are shown.
    ...one(
      'notify',
      notify && Object.keys(notify).toSorted(),
      (level) => level.notify && Object.keys(level.notify).toSorted(),
    ),
    ...Object.entries(policy.limits).flatMap(([name, value]) =>
      one(`limits.${name}`, value, (level) => level.limits?.[name]),
    ),
    ...[...policy.rules].flatMap(([name, state]) =>
      one(`rules.${name}`, state, ({ rules, packs }) =>
        rules && Object.hasOwn(rules, name)
          ? rules[name]
          : packs?.includes(name)
            ? 'deny'
            : undefined,
      ),
    ),
  ];
}

const surfaceLines = (policy: Policies): PolicyLine[] =>
  SURFACES.flatMap((surface) => {
    const ofSurface = ({ surfaces }: Level) =>
      surfaces && Object.hasOwn(surfaces, surface) ? surfaces[surface] : undefined;
    const { levels } = policy;
    const about = `surfaces.${surface}`;
    return [
      ...settled(
        levels,
        `${about}.effects`,
        [...policy.effects(surface)],
        (level) => ofSurface(level)?.effects,
      ),
      ...settled(
        levels,
        `${about}.directives`,
        policy.directives(surface),
        (level) => ofSurface(level)?.directives,
      ),
    ];
  });

/** Returns a right and its scope as one line. */
const grantText = ({ capability, scope }: { capability: string; scope?: object | undefined }) =>
  [capability, ...Object.entries(scope ?? {}).map(([field, glob]) => `${field} ${glob}`)].join(' ');

/** A setting, its value, and false if it is not in force. */
type ReportEntry = [string, Json, boolean?];

/** Returns the denials of a level for each surface, and the denials of the bundle that it lifts. */
function surfaceCaps(level: Level, policy: Policies): ReportEntry[] {
  const textsOf = (one: Level, name: string): string[] =>
    one.surfaces?.[name]?.capabilities?.deny?.map(grantText) ?? [];
  return Object.entries(level.surfaces ?? {}).flatMap(([name, { capabilities, open = [] }]) => {
    const ceilings = policy.ceilings(name);
    const denied = new Set(ceilings.flatMap(({ deny = [] }) => deny.map(grantText)));
    const shipped = new Set(
      policy.levels.flatMap((one) => (one.level === 'bundle' ? textsOf(one, name) : [])),
    );
    const isAllowed = ceilings.some(({ allow }) => allow === capabilities?.allow);
    return [
      ...caps(`surfaces.${name}.capabilities`, capabilities ?? {}).map(
        ([about, value]): ReportEntry => [
          about,
          value,
          Array.isArray(value) ? isAllowed : denied.has(plainText(value)),
        ],
      ),
      ...open.map(grantText).map((text): ReportEntry => {
        const isTaken = shipped.has(text) && !denied.has(text);
        return [`surfaces.${name}.open`, text, isTaken];
      }),
    ];
  });
}

const caps = (
  about: string,
  { allow, deny = [] }: NonNullable<Level['capabilities']>,
): [string, Json][] => [
  ...(allow ? [[`${about}.allow`, allow.map(grantText)] as [string, Json]] : []),
  ...deny.map((grant): [string, Json] => [`${about}.deny`, grantText(grant)]),
];

/** Returns the settings of a level that add to those of other levels. */
function entries(level: Level, policy: Policies): ReportEntry[] {
  const { capabilities, models, labels = {}, operations = {}, guards = [] } = level;
  return [
    ...caps('capabilities', capabilities ?? {}),
    ...surfaceCaps(level, policy),
    ...(level.approve ?? []).map((tier): [string, Json] => ['approve', tier]),
    ...(level.hosts ?? []).map((host): [string, Json] => [
      policy.isHostAllowed(host) ? 'hosts' : 'hosts (closed)',
      host,
    ]),
    ...(models?.allow ? [['models.allow', models.allow] as [string, Json]] : []),
    ...(models?.deny ?? []).map((model): [string, Json] => ['models.deny', model]),
    ...Object.entries(labels).flatMap(([label, rule]) =>
      Object.entries(rule).map(([act, list]): [string, Json] => [`labels.${label}.${act}`, list]),
    ),
    ...Object.entries(operations).map(([label, list]): [string, Json] => [
      `operations.${label}`,
      list,
    ]),
    ...(level.defaults?.unlabelled ?? []).map((label): [string, Json] => [
      'defaults.unlabelled',
      label,
    ]),
    ...guards.map((guard): [string, Json] => ['guards', guardText(guard)]),
  ];
}

type GuardWords = NonNullable<Level['guards']>[number];

const guardText = ({ name, on, timing, when, verdict }: GuardWords): string =>
  [
    name ?? '-',
    on,
    timing ?? 'before',
    ...(when === undefined ? [] : [`when ${when}`]),
    `-> ${verdict.kind}`,
  ].join(' ');

/** Returns the effective limits and the guards that a directive adds below all levels. */
function ofDirective({ library }: Runtime, policy: Policies, name: string): Outcome<PolicyLine[]> {
  const result = library.find('directive', name);
  if (!result.ok) return result;
  const { directive } = result.output;
  if (!directive) return ok([]);
  const limits = directiveLimits(library, policy.limits, directive);
  if (!limits.ok) return limits;
  const from = [`directive ${result.output.id}`];
  const own = Object.keys(directive.limits ?? {});
  const packed = packLimits(limits.output) as Record<string, JsonObject>;
  return ok([
    ...own.flatMap((limit): PolicyLine[] => {
      const { value = null, from: source } = packed[limit] ?? {};
      return value === null
        ? []
        : [
            {
              setting: `limits.${limit}`,
              value,
              from: source === 'directive' ? from : [plainText(source)],
            },
          ];
    }),
    ...directive.guards.map(
      (guard): PolicyLine => ({ setting: 'guards', value: guardText(guard), from }),
    ),
  ]);
}

/** Data of `policy show`. */
export type PolicyReport = {
  files: JsonObject[];
  lines: PolicyLine[];
  problems: JsonObject[];
};

function filesOf(runtime: Runtime): JsonObject[] {
  const { policy, diagnostics } = runtime.policies();
  return policy.levels.map(({ level, file = '', signed = false, sha256 = '', capabilities }) => {
    const codes = diagnostics.filter((entry) => entry.file === file).map(({ code }) => code);
    const state = capabilities?.closed
      ? 'broken'
      : codes.includes('signature_changed')
        ? 'changed'
        : codes.includes('signature_untrusted')
          ? 'untrusted'
          : level === 'bundle'
            ? 'shipped'
            : signed
              ? 'signed'
              : 'unsigned';
    return { level, file, state, sha256 };
  });
}

/** Returns all levels merged, with the settings that a directive adds below them. */
export function policyReport(runtime: Runtime, directive?: string): Outcome<PolicyReport> {
  const { policy, diagnostics } = runtime.policies();
  const more = directive === undefined ? ok([]) : ofDirective(runtime, policy, directive);
  if (!more.ok) return more;
  const listed = policy.levels.flatMap((level) =>
    entries(level, policy).map(
      ([setting, value, holds = true]): PolicyLine => ({
        setting,
        value,
        from: [level.level],
        ...(level.file !== undefined && { file: level.file }),
        ...(!holds && { void: true }),
      }),
    ),
  );
  return ok({
    files: filesOf(runtime),
    lines: [...words(policy), ...surfaceLines(policy), ...listed, ...more.output],
    problems: diagnostics.map((entry) => ({ ...entry })),
  });
}
