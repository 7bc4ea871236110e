// Composes several levels into one policy. INVARIANT: a level can never widen what the others allow.
//
// Settings that open something (a rule off, a private host, unsigned items) need authority: they count
// from an operator's or user's file, or from a project's file with a valid signature. An untrusted
// project can only close. Settings of the bundle are defaults, which apply if no level with authority
// has the setting. A denial of the bundle on a surface applies until a person's policy lists exactly
// that denial under `open`.
import {
  createRecent,
  fail,
  type Json,
  type JsonObject,
  matchGlob,
  type Outcome,
  ok,
} from '../../base/index.ts';
import type { Ceiling, Grant } from '../../trust/index.ts';
import type { Frame, FramePolicy, GuardSet, PolicyRules, RuleState } from '../frame.ts';
import { defineGuard } from '../guards/guard.ts';
import { compileGuards } from '../guards/guard-expression.ts';
import { combineGuards, createGuardSet, NO_GUARDS } from '../guards/guard-set.ts';
import { createLabeler } from '../operation.ts';
import { type Descriptor, describe } from '../values/labels.ts';
import { createPolicyJudge } from './judge.ts';
import { NAMED_RULES } from './named-rules.ts';
import {
  type AcpPolicy,
  type DirectiveAccess,
  lowestLimits,
  type Policy,
  type PolicyLevel,
  type SurfacePolicy,
  TOOL_EFFECTS,
  type ToolEffect,
} from './policy.ts';

export interface ComposedPolicy extends FramePolicy {
  /** The levels, from the operator to the bundle. */
  readonly levels: readonly Policy[];
  narrowedBy(more: PolicyRules): ComposedPolicy;
  readonly rules: ReadonlyMap<string, RuleState>;
  /** Returns the ceilings for a caller without a token on this surface. All of them must allow. */
  ceilings(surface?: string): Ceiling[];
  effects(surface: string): readonly ToolEffect[];
  directives(surface: string): DirectiveAccess;
  /** True if a dialog of a client on this surface may decide approvals. */
  elicits(surface: string): boolean;
  /** The strictest statement of any level counts. */
  readonly acp: Required<AcpPolicy>;
  readonly limits: Readonly<Record<string, number | string>>;
  readonly allowsUnsigned: boolean;
  readonly install: 'allow' | 'ask' | 'deny';
  readonly anneal: 'ask' | 'auto';
  /** True if price files of the project may lower the prices of the user, the bundle and the price package. */
  readonly allowsLowerPrices: boolean;
  /** The form in which threads read untrusted text. One level with `reference` is sufficient. */
  readonly untrusted: 'show' | 'reference';
  /** True if a private or loopback host is allowed. Public hosts are not checked here. */
  isHostAllowed(host: string): boolean;
  /** Time in milliseconds after which a pending approval request expires. */
  readonly approvalMs: number;
  /** Checks by id, not by provider, whether a model may be called. Fails with `permission_denied`. */
  allowsModel(id: string): Outcome<null>;
  readonly retention: { readonly days?: number; readonly keep_failed?: boolean };
  readonly notify: JsonObject | undefined;
  readonly transcript: 'preview' | 'full';
}

/** Maximum number of hosts whose answer is cached. */
const MAX_HOSTS = 200;

const RANK: readonly PolicyLevel[] = ['operator', 'user', 'project', 'bundle'];

/** True for levels of a person. A project never counts, even if it is signed. */
const isPersons = ({ level }: Policy): boolean => level === 'operator' || level === 'user';

const hasAuthority = (policy: Policy): boolean =>
  isPersons(policy) || (policy.level === 'project' && policy.signed === true);

type Reader<T> = (policy: Policy) => T | undefined;

/**
 * Returns the statements in force: those with authority (else the bundle's), and those of every other level.
 */
function statements<T>(levels: readonly Policy[], read: Reader<T>): { base: T[]; narrowing: T[] } {
  const statementsOf = (list: readonly Policy[]) =>
    list.map(read).filter((value): value is T & {} => value !== undefined && value !== null);
  const strong = statementsOf(levels.filter(hasAuthority));
  const bundle = statementsOf(levels.filter(({ level }) => level === 'bundle'));
  const weak = statementsOf(
    levels.filter((policy) => policy.level === 'project' && !hasAuthority(policy)),
  );
  return { base: strong.length > 0 ? strong : bundle, narrowing: weak };
}

/** Returns the strictest statement. `order` is from strict to open. */
function strictest<T>(
  levels: readonly Policy[],
  order: readonly T[],
  fallback: T,
  read: Reader<T>,
): T {
  const { base, narrowing } = statements(levels, read);
  const values = [...(base.length > 0 ? base : [fallback]), ...narrowing];
  return order.find((value) => values.includes(value)) ?? (order[0] as T);
}

/** True if a privileged guard may make exceptions to its `labels` and rules. */
const isLiftable = ({ ofScript, locked }: Policy): boolean => ofScript === true && locked !== true;

/** Returns the states of the rules. `withBuiltIn` includes built-in rules that no level mentions. */
const ruleStates = (levels: readonly Policy[], withBuiltIn = true): Map<string, RuleState> =>
  new Map(
    NAMED_RULES.map(({ name, isBuiltIn, answer }): [string, RuleState] => {
      const read: Reader<RuleState> = ({ rules, packs }) =>
        rules && Object.hasOwn(rules, name)
          ? rules[name]
          : packs?.includes(name)
            ? 'deny'
            : undefined;
      const fallback: RuleState = isBuiltIn && withBuiltIn ? (answer ?? 'deny') : 'off';
      return [name, strictest<RuleState>(levels, ['deny', 'ask', 'off'], fallback, read)];
    }),
  );

type SurfaceDefaults = Required<Pick<SurfacePolicy, 'effects' | 'directives'>>;
const OPEN: SurfaceDefaults = { effects: [...TOOL_EFFECTS], directives: 'all' };
const READING: SurfaceDefaults = { effects: ['read'], directives: 'signed' };
/** Defaults of all surfaces. INVARIANT: a surface outside of this list never allows anything. */
const SURFACES: ReadonlyMap<string, SurfaceDefaults> = new Map([
  ...['cli', 'library', 'script', 'harness', 'thread', 'mcp_servers'].map(
    (name) => [name, OPEN] as const,
  ),
  ...['mcp', 'web', 'acp', 'schedule'].map((name) => [name, READING] as const),
]);
const CLOSED: SurfaceDefaults = { effects: [], directives: 'none' };
const defaultsOn = (surface: string): SurfaceDefaults => SURFACES.get(surface) ?? CLOSED;

const surfaceOf = ({ surfaces }: Policy, surface: string): SurfacePolicy | undefined =>
  surfaces && Object.hasOwn(surfaces, surface) ? surfaces[surface] : undefined;

function effectsOn(levels: readonly Policy[], surface: string): readonly ToolEffect[] {
  const { base, narrowing } = statements(levels, (policy) => surfaceOf(policy, surface)?.effects);
  const fallback = defaultsOn(surface).effects;
  const lists = [...(base.length > 0 ? base : [fallback]), ...narrowing];
  return TOOL_EFFECTS.filter((effect) => lists.every((list) => list.includes(effect)));
}

function directivesOn(levels: readonly Policy[], surface: string): DirectiveAccess {
  const fallback = defaultsOn(surface).directives;
  const read: Reader<DirectiveAccess> = (policy) => surfaceOf(policy, surface)?.directives;
  return strictest(levels, ['none', 'signed', 'all'], fallback, read);
}

function ceilingsOn(levels: readonly Policy[], surface: string | undefined): Ceiling[] {
  const general = levels.flatMap((policy) => policy.capabilities ?? []);
  if (surface === undefined) return general;
  if (!SURFACES.has(surface)) {
    return [...general, { closed: `surface \`${surface}\` is not in the list of surfaces` }];
  }
  const read: Reader<Ceiling> = (policy) => surfaceOf(policy, surface)?.capabilities;
  const ours = levels.filter(({ level }) => level !== 'bundle').flatMap((one) => read(one) ?? []);
  const isReplaced = levels.some((one) => hasAuthority(one) && read(one)?.allow !== undefined);
  return [...general, ...ours, ...shippedCeilings(levels, surface, isReplaced)];
}

/**
 * Returns the bundle's ceilings on a surface. Its denials also apply if another level adds to the
 * surface; a person's policy lifts one by listing it under `open`. Its `allow` is a default, which a level
 * with authority replaces.
 */
function shippedCeilings(
  levels: readonly Policy[],
  surface: string,
  isReplaced: boolean,
): Ceiling[] {
  const opened = new Set(
    levels.filter(isPersons).flatMap((one) => surfaceOf(one, surface)?.open?.map(grantKey) ?? []),
  );
  const undo = `your own policy takes that back with \`surfaces.${surface}.open\``;
  return levels.flatMap((policy) => {
    const { allow, deny } = surfaceOf(policy, surface)?.capabilities ?? {};
    if (policy.level !== 'bundle') return [];
    const denials = deny?.filter((one) => !opened.has(grantKey(one))) ?? [];
    return [
      ...(allow && !isReplaced ? [{ allow }] : []),
      ...(denials.length > 0 ? [{ deny: denials, undo }] : []),
    ];
  });
}

/** Returns a key of a grant. Equal grants have the same key, whatever the order of their scope. */
export const grantKey = ({ capability, scope = {} }: Grant): string =>
  JSON.stringify([capability, Object.entries(scope).toSorted(([a], [b]) => (a < b ? -1 : 1))]);

/** Returns a check that opens a host if a level with authority lists hosts and every such list includes it. */
function hostRule(levels: readonly Policy[]): (host: string) => boolean {
  const { base, narrowing } = statements(levels, ({ hosts }) => hosts);
  const lists = [...base, ...narrowing].map((hosts) => hosts.map((glob) => glob.toLowerCase()));
  if (base.length === 0) return () => false;
  const answers = createRecent<string, boolean>(MAX_HOSTS);
  const isListed = (host: string): boolean => {
    const name = host.toLowerCase();
    return lists.every((hosts) => hosts.some((glob) => matchGlob(glob, name)));
  };
  return (host) => answers.get(host) ?? answers.set(host, isListed(host));
}

/** Returns the rule for trusted tools. Each level with authority can name tools by itself. */
function trustRule(levels: readonly Policy[]): (tool: string) => boolean {
  const globs = levels.filter(hasAuthority).flatMap(({ trusted }) => trusted?.tools ?? []);
  return globs.length === 0 ? () => false : (tool) => globs.some((glob) => matchGlob(glob, tool));
}

/** Returns why this model may not be called. Undefined: every level allows it. */
function modelRefusal(levels: readonly Policy[], id: string): string | undefined {
  const isListed = (globs: readonly string[]): boolean =>
    globs.some((glob) => matchGlob(glob.toLowerCase(), id.toLowerCase()));
  for (const { level, file, models = {}, capabilities } of levels) {
    if (capabilities?.closed !== undefined) return capabilities.closed;
    const { allow, deny = [] } = models;
    const where = `the ${level} policy${file === undefined ? '' : ` (${file})`}`;
    if (isListed(deny)) return `${where} denies model \`${id}\`; see \`models.deny\` there`;
    if (allow && !isListed(allow)) {
      return `${where} does not allow model \`${id}\`; \`models.allow\` lists ${allow.join(', ') || 'none'}`;
    }
  }
  return undefined;
}

function modelRule(levels: readonly Policy[], id: string): Outcome<null> {
  const refusal = modelRefusal(levels, id);
  if (refusal === undefined) return ok(null);
  const about = { missing: '', rule: 'models', attempted: id, model: id };
  return fail('permission_denied', refusal, about);
}

/** True if a project may lower prices: a person's policy allows it, and the project's policy is signed. */
function lowerPrices(levels: readonly Policy[]): boolean {
  const projects = levels.filter(({ level }) => level === 'project');
  const owners = levels.filter(isPersons);
  return (
    projects.length > 0 &&
    projects.every(({ signed }) => signed === true) &&
    owners.some(({ prices }) => prices === 'project') &&
    levels.every(({ prices }) => prices !== 'user')
  );
}

/** Returns the guards of a policy. If they cannot be compiled, one guard refuses everything. */
function guardsOf(policy: Policy): GuardSet {
  const mayBePrivileged = hasAuthority(policy);
  const compiled = compileGuards(policy.guards ?? [], { locked: true, mayBePrivileged });
  if (compiled.ok) return compiled.output;
  const broken = defineGuard({
    on: 'op:*',
    timing: 'before',
    locked: true,
    place: `policy:${policy.level}`,
    decide: () => compiled,
  });
  return broken.ok ? createGuardSet([broken.output]) : NO_GUARDS;
}

/** Returns the folders that a rule, filter or condition of a policy names. */
function foldersNamed(levels: readonly Policy[]): string[] {
  const written = levels.flatMap(({ labels = {}, guards = [] }) => [
    ...Object.keys(labels),
    ...guards.flatMap(({ on, when = '' }) => [on, ...when.split(/["'`]/)]),
  ]);
  return [...new Set(written.map((one) => one.trim()).filter((one) => one.startsWith('dir:')))];
}

const first = <T extends Json>(levels: readonly Policy[], read: Reader<T>): T | undefined =>
  levels.map(read).find((value) => value !== undefined);

const markOf = (levels: readonly Policy[], rules: ReadonlyMap<string, RuleState>): Descriptor =>
  describe({
    policyContext: [
      ...levels.filter(({ level }) => level !== 'bundle').map(({ level }) => `policy:${level}`),
      ...NAMED_RULES.filter(({ name, isBuiltIn }) => !isBuiltIn && rules.get(name) !== 'off').map(
        ({ name }) => `pack:${name}`,
      ),
    ],
  });

const elicits = (levels: readonly Policy[], surface: string): boolean =>
  levels.every((policy) => surfaceOf(policy, surface)?.elicitation !== false);

/** Returns the policy in force. The order of `policies` does not matter. */
export function composePolicies(policies: readonly Policy[]): ComposedPolicy {
  const levels = RANK.flatMap((rank) => policies.filter(({ level }) => level === rank));
  const trusted = levels.filter((policy) => hasAuthority(policy) || policy.level === 'bundle');
  const rules = ruleStates(levels);
  const stated = ruleStates(
    levels.filter((policy) => !isLiftable(policy)),
    false,
  );
  const operationLabels = createLabeler(levels.map(({ operations }) => operations ?? {}));
  const approve = [...new Set(levels.flatMap((policy) => policy.approve ?? []))];
  return {
    ...createPolicyJudge(levels, { states: rules, stated, approve, isLiftable, operationLabels }),
    levels,
    narrowedBy: (more) =>
      composePolicies([...levels, { ...more, level: 'project', signed: false, ofScript: true }]),
    rules,
    mark: markOf(levels, rules),
    guards: levels.map(guardsOf).reduce(combineGuards, NO_GUARDS),
    trusts: trustRule(levels),
    operationLabels,
    folders: foldersNamed(levels),
    unlabelled: [...new Set(levels.flatMap(({ defaults }) => defaults?.unlabelled ?? []))],
    ceilings: (surface) => ceilingsOn(levels, surface),
    effects: (surface) => effectsOn(levels, surface),
    directives: (surface) => directivesOn(levels, surface),
    elicits: (surface) => elicits(levels, surface),
    acp: {
      may_approve: elicits(levels, 'acp') && levels.every(({ acp }) => acp?.may_approve !== false),
      words: levels.some(({ acp }) => acp?.words === 'untrusted') ? 'untrusted' : 'user',
    },
    limits: lowestLimits(levels.map(({ limits }) => limits ?? {})),
    allowsUnsigned:
      strictest(levels, ['restrict', 'allow'], 'restrict', ({ unsigned }) => unsigned) === 'allow',
    sandbox: strictest(levels, ['required', 'none'], 'required', ({ sandbox }) => sandbox),
    install: strictest(levels, ['deny', 'ask', 'allow'], 'ask', ({ install }) => install),
    anneal: strictest(levels, ['ask', 'auto'], 'ask', ({ anneal }) => anneal),
    allowsLowerPrices: lowerPrices(levels),
    untrusted: levels.some(({ untrusted }) => untrusted === 'reference') ? 'reference' : 'show',
    isHostAllowed: hostRule(levels),
    approvalMs: Math.min(...approvalDays(levels)) * DAY_MS,
    allowsModel: (id) => modelRule(levels, id),
    retention: first(levels, ({ retention }) => retention) ?? {},
    notify: first(trusted, ({ notify }) => notify),
    transcript: first(trusted, ({ transcript }) => transcript) ?? 'preview',
  };
}

const ofGuards = new WeakMap<GuardSet, readonly string[]>();

/** Returns the `dir:` labels that any rule or guard in force names. */
export function namedFolders({ policy, guards }: Pick<Frame, 'policy' | 'guards'>): string[] {
  const filtered =
    ofGuards.get(guards) ?? guards.list.map(({ on }) => on).filter((on) => on.startsWith('dir:'));
  ofGuards.set(guards, filtered);
  return filtered.length === 0
    ? [...policy.folders]
    : [...new Set([...policy.folders, ...filtered])];
}

const DAY_MS = 24 * 60 * 60 * 1000;
const APPROVAL_DAYS = 7;

/**
 * Returns the days of all levels, of which the shortest counts. A level without authority cannot exceed
 * the default.
 */
function approvalDays(levels: readonly Policy[]): readonly number[] {
  const { base, narrowing } = statements(levels, ({ approvals }) => approvals?.days);
  return [...(base.length > 0 ? base : [APPROVAL_DAYS]), ...narrowing];
}

export const BUILT_IN_POLICY: ComposedPolicy = composePolicies([]);
