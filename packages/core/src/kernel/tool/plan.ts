// Resolves a tool's id to one plan: configs merged from the primitive up (the leaf wins, lists are
// replaced), inherited parameters, and the requirements of every link. Resolving runs nothing.
import {
  asJson,
  didYouMean,
  type Failure,
  fail,
  freezeJson,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  setOwn,
} from '../../base/index.ts';
import type { Operation, ResultFacts, ToolEffect } from '../../flow/index.ts';
import {
  type Chain,
  type Item,
  type Library,
  mergedConfig,
  type Retry,
  type Tool,
  type ToolParameter,
} from '../../items/index.ts';
import {
  type CapabilityCatalog,
  normalizeCapability,
  RISK_TIERS,
  type RiskTier,
} from '../../trust/index.ts';
import type { PrimitiveCall } from '../primitive.ts';
import { PROGRAM } from '../primitives/program-tools.ts';
import { checkSignature, shownFile } from '../rights/item-marks.ts';
import { configFailure } from './check-config.ts';
import { hasPatterns, inheritParameters, schemaOf } from './parameters.ts';

export type PlannedTool = Extract<Item, { kind: 'tool' }>;

export interface Plan {
  leaf: PlannedTool;
  tool: Tool;
  /** Links from the leaf to the tool above the primitive. */
  links: readonly PlannedTool[];
  primitive: string;
  /** Full ids from the leaf to the primitive, as results and errors show them in `chain`. */
  chain: readonly string[];
  config: JsonObject;
  parameters: readonly ToolParameter[];
  schema: JsonObject;
  requires: readonly string[];
  effect: ToolEffect;
  env: ReadonlySet<string>;
  retries: readonly { toolId: string; retry: Retry }[];
  timeoutMs: number;
  action?: string;
  /** The first link whose signature is broken or not trusted. The chain is then not used. */
  broken?: { link: PlannedTool; failure: Failure };
  unsigned?: PlannedTool;
  /** The config problem for which the primitive would refuse every call. Absent: none. */
  misconfigured?: Failure;
  hasPatterns: boolean;
  /** Schema of the output, from the nearest link that declares one. */
  outputSchema?: JsonObject;
  category: string;
  /** True if the leaf carries a signature. */
  isSigned: boolean;
  /** True if the config has nothing to fill in. */
  isFixed: boolean;
  /** True if the config mentions streaming. */
  canStream: boolean;
  /** Declarations of the links about results, merged. Absent: none. */
  resultFacts?: ResultFacts;
  roles: ReadonlyMap<string, ToolParameter['role']>;
  /** Kinds of parameters that accept one kind of thing. */
  kinds: ReadonlyMap<string, string>;
  /** The built-in function that writes. Present if every link is from the bundle. */
  writes?: string;
  /** The built-in function that writes, for any tool above it. Its changes can be previewed. */
  previews?: string;
  dependencies: readonly Json[];
  op: Operation;
  /** Facts for the primitive, and the same with the strictest sandbox. */
  facts: PrimitiveCall['tool'];
  strictFacts: PrimitiveCall['tool'];
}

const DEFAULT_TIMEOUT_MS = 120_000;

type ChosenAction = Tool['actions'][number];

/** Returns the action that the parameter `action` names. A tool without actions has none. */
function chooseAction(
  leaf: PlannedTool,
  tool: Tool,
  parameters: JsonObject,
): Outcome<ChosenAction | undefined> {
  if (tool.actions.length === 0) return ok(undefined);
  const names = tool.actions.map((action) => action.name);
  const requested = getOwn(parameters, 'action');
  const action = tool.actions.find(({ name }) => name === requested);
  if (!action) {
    const problem =
      requested === undefined ? 'no `action`' : `unknown action \`${plainText(requested)}\``;
    const hint = didYouMean(plainText(requested), names) ?? `use one of: ${names.join(', ')}`;
    return fail('invalid_input', `tool \`${leaf.id}\` received ${problem}; ${hint}`, {
      actions: names,
    });
  }
  return ok(action);
}

/** Returns the refusal if a link cannot be read by this version. It names the link. */
function unreadable(library: Library, links: readonly PlannedTool[]): Failure | undefined {
  const link = links.find(({ tool }) => !tool);
  if (!link) return undefined;
  const first = link.diagnostics.find(({ severity }) => severity === 'error');
  const file = first && shownFile(library, first.file);
  const place = first ? `${file}:${first.line}:${first.column}: ${first.message}` : '';
  return fail('config_invalid', `tool \`${link.id}\` is unavailable: ${place}`, {
    failed_at: { tool_id: link.id },
  });
}

/** Levels from the most trusted to the least. INVARIANT: a chain is always trusted as its weakest link. */
const SOURCES = ['bundle', 'installed', 'user', 'project'] as const;

function sourceOf(
  leaf: PlannedTool,
  links: readonly PlannedTool[],
): PrimitiveCall['tool']['source'] {
  if (leaf.file.startsWith(PROGRAM)) return 'program';
  return SOURCES.findLast((source) => links.some((link) => link.source === source)) ?? 'project';
}

/** Returns the highest tier of the needed capabilities. A request that only reads counts as reading. */
export function riskTier(
  requires: readonly string[],
  effect: ToolEffect,
  catalog: CapabilityCatalog,
): RiskTier {
  const tiers = requires.map((capability): RiskTier => {
    if (capability === 'net.http' && effect === 'read') return 'read';
    // An unknown name has the highest tier.
    return catalog.get(capability)?.tier ?? 'system';
  });
  if (effect === 'write') tiers.push('write');
  return RISK_TIERS.findLast((tier) => tiers.includes(tier)) ?? 'read';
}

/**
 * Returns the keys of an operation, such as `op:tool:fs/write_file` and its prefixes, the most general first.
 */
export function toolKeys(id: string, action?: string): string[] {
  const parts = id.split('/');
  const keys = parts.map((_, index) => `op:tool:${parts.slice(0, index + 1).join('/')}`);
  return ['op:tool', ...keys, ...(action ? [`op:tool:${id}:${action}`] : [])];
}

/** Returns the host that the config itself names, for approval requests. */
function hostIn({ url, mcp_url }: JsonObject): { host?: string } {
  const [, host] =
    /^\w+:\/\/(?:[^/@]*@)?([^/{}?#]+)(?:[/?#]|$)/.exec(plainText(url ?? mcp_url ?? '')) ?? [];
  return host === undefined ? {} : { host };
}

const WRITERS: readonly Json[] = ['write_file', 'edit_file'];

function writerIn(primitive: string, config: JsonObject) {
  const name = primitive === 'function' ? config.function : undefined;
  return typeof name === 'string' && WRITERS.includes(name) ? name : undefined;
}

/** Returns how the operation reads untrusted text. Present for bundle tools that use the reader. */
export function readsOf({ source, tool }: PlannedTool): Operation['reads'] {
  if (source !== 'bundle' || tool?.executor_id !== 'reader') return undefined;
  return tool.config.function === 'pick' ? 'picked' : 'quarantined';
}

const PLAIN_HEADER = /^(?:accept(?:-language)?|content-type|user-agent)$/i;

/** True if the config contains credentials, so that the answer may contain data of the tool's author. */
function hasCredentials({ auth, headers }: JsonObject): boolean {
  const names = Object.keys(isObject(headers) ? headers : {});
  return (auth ?? null) !== null || names.some((name) => !PLAIN_HEADER.test(name));
}

/** Returns the parameters that the author has fixed: defaults, and enumerations of one value. */
function fixedIn(parameters: readonly ToolParameter[]): JsonObject {
  const fixed: JsonObject = {};
  for (const { name, default: fallback, enum: members } of parameters) {
    const only = members?.length === 1 ? members[0] : undefined;
    const value = fallback ?? only;
    if (value !== undefined) setOwn(fixed, name, value);
  }
  return fixed;
}

/**
 * Merges the declarations of results. Every link's declarations count, and the nearest link decides
 * about kinds. Declarations that vouch for values count only in signed files, because the author of an
 * unsigned file could vouch for any value.
 */
function resultFactsOf(tools: readonly Tool[], isUnsigned: boolean): ResultFacts | undefined {
  const declared = tools.flatMap(({ result }) => result ?? []);
  const free = declared.flatMap(({ free_text }) => free_text);
  const named = declared.flatMap(({ identifiers = [] }) => identifiers);
  // `fromEntries` is safe for a field called `__proto__`.
  const kinds = Object.fromEntries(
    declared.toReversed().flatMap((one) => Object.entries(one.kinds ?? {})),
  );
  const [free_text, identifiers] = isUnsigned ? [[...free, ...named], []] : [free, named];
  const facts: ResultFacts = {
    ...(free_text.length > 0 && { free_text: [...new Set(free_text)] }),
    ...(identifiers.length > 0 && { identifiers: [...new Set(identifiers)] }),
    ...(Object.keys(kinds).length > 0 && { kinds }),
    ...(declared.some(({ untrusted }) => untrusted) && { untrusted: true }),
    ...(!isUnsigned && tools[0]?.directory && { directory: true }),
  };
  // The kind of a value does not tell its author, so kinds alone are not facts.
  return Object.keys(facts).some((name) => name !== 'kinds') ? facts : undefined;
}

const actionParameter = (tool: Tool): ToolParameter => ({
  name: 'action',
  type: 'string',
  required: true,
  description: 'what to do',
  enum: tool.actions.map(({ name }) => name),
});

/** Returns everything that follows from the links and the chosen action. */
function planOf(
  leaf: PlannedTool,
  { links, primitive }: Chain,
  action: ChosenAction | undefined,
  catalog: CapabilityCatalog,
  misconfigured: Failure | undefined,
): Plan {
  const tools = links.map((link) => link.tool as Tool);
  const tool = tools[0] as Tool;
  const inherited = inheritParameters([
    ...(action ? [[actionParameter(tool), ...action.parameters]] : []),
    ...tools.map((link) => link.parameters),
  ]);
  const own = action?.requires ?? tool.requires;
  const below = tools.slice(1).flatMap((link) => link.handsOn ?? link.requires);
  const requires = [...new Set([...own, ...below].map(normalizeCapability))];
  const effect = action?.effect ?? tool.effect;
  const env = new Set(tools.flatMap((link) => link.env));
  // The module belongs to the link that names it, which need not be the leaf.
  const owner = links.find((link) => getOwn(link.tool?.config, 'module')) ?? leaf;
  const sees = tools.find((link) => link.sees !== undefined)?.sees;
  const schema = tool.input_schema ?? schemaOf(inherited);
  const facts: Plan['facts'] = {
    id: leaf.id,
    dir: owner.file.replace(/[^/\\]*$/, ''),
    source: sourceOf(leaf, links),
    requires,
    effect,
    sandbox: tool.sandbox,
    env: [...env],
    parameters: Object.keys(getOwn(schema, 'properties') ?? {}),
    ...(tools.some((link) => link.background) && { background: true }),
    ...(sees && { sees }),
  };
  const timeout = tools.find((link) => link.timeout !== undefined)?.timeout;
  const config = freezeJson(mergedConfig(links));
  const outputSchema = tools.find((link) => link.output_schema)?.output_schema;
  const broken = brokenSignature(links);
  const writer = writerIn(primitive, config);
  const isOfBundle = links.every(({ source }) => source === 'bundle');
  const unsigned = links.find((link) => link.signature.state === 'unsigned');
  const reads = primitive === 'reader' ? readsOf(leaf) : undefined;
  const resultFacts = resultFactsOf(tools, unsigned !== undefined);
  return Object.freeze<Plan>({
    leaf,
    tool,
    links,
    primitive,
    chain: [...links.map((link) => link.id), primitive],
    config,
    parameters: inherited,
    schema,
    requires,
    effect,
    env,
    // Retries of a connection do not apply to a call that may have had its effect.
    retries: links.flatMap(({ id, tool: link }, at) =>
      link?.retry && (at === 0 || !link.handsOn) ? [{ toolId: id, retry: link.retry }] : [],
    ),
    timeoutMs: timeout === undefined ? DEFAULT_TIMEOUT_MS : timeout * 1000,
    ...(action ? { action: action.name } : {}),
    ...(broken && { broken }),
    ...(unsigned && { unsigned }),
    ...(misconfigured && { misconfigured }),
    hasPatterns: hasPatterns(schema) || hasPatterns(outputSchema ?? null),
    ...(outputSchema && { outputSchema }),
    category: leaf.category,
    isSigned: leaf.signature.state !== 'unsigned',
    isFixed: !hasBraces(config),
    canStream: getOwn(config, 'stream') !== undefined,
    ...(resultFacts && { resultFacts }),
    ...(writer === undefined ? {} : { previews: writer, ...(isOfBundle && { writes: writer }) }),
    roles: new Map(inherited.map(({ name, role }) => [name, role])),
    kinds: new Map(inherited.flatMap(({ name, kind }) => (kind ? [[name, kind]] : []))),
    dependencies: tools.flatMap((link) => asJson(link.dependencies) as Json[]),
    op: {
      type: 'tool',
      subtype: primitive,
      name: leaf.id,
      labels: tool.labels,
      opLabels: toolKeys(leaf.id, action?.name),
      sources: [`tool:${leaf.id}`],
      risk: tool.risk,
      tier: riskTier(requires, effect, catalog),
      retryOwner: true,
      metadata: { effect, requires: [...requires], ...hostIn(config) },
      fixed: fixedIn(inherited),
      ...(reads && { reads }),
      ...(effect === 'read' && env.size === 0 && !hasCredentials(config) && { follows: true }),
    },
    facts,
    strictFacts: { ...facts, sandbox: 'strict' },
  });
}

function brokenSignature(links: readonly PlannedTool[]): Plan['broken'] {
  for (const link of links) {
    const signature = checkSignature(link);
    if (!signature.ok) return { link, failure: signature };
  }
  return undefined;
}

/** True if the config may contain a placeholder. */
const hasBraces = (config: Json): boolean =>
  typeof config === 'string'
    ? config.includes('{')
    : typeof config === 'object' && config !== null && Object.values(config).some(hasBraces);

/** The inputs of a cached plan. A chain is immutable, so a changed link gives another chain. */
interface Planned {
  catalog: CapabilityCatalog;
  /** Signature states of the links. A key can be revoked at any time. */
  signed: string;
  plans: readonly Plan[];
}

/** Cached plans of a chain, one for each action. */
const cache = new WeakMap<Chain, Planned>();
const NO_PLANS: readonly Plan[] = [];

/** Resolves a tool and, if it has actions, the one that its parameters choose. */
export function resolvePlan(
  library: Library,
  item: PlannedTool,
  parameters: JsonObject,
): Outcome<Plan> {
  // The chain is resolved at every call, because any link may have changed.
  const resolved = library.chain(item.id);
  if (!resolved.ok) return resolved;
  const chain = resolved.output;
  const { catalog } = library.capabilities();
  const signed = chain.links.map(({ signature }) => signature.state).join(' ');
  const before = cache.get(chain);
  const isSame = before?.catalog === catalog && before.signed === signed;
  const plans = isSame ? before.plans : NO_PLANS;
  for (const plan of plans) {
    if (plan.leaf !== item) continue;
    if (plan.action === undefined || plan.action === getOwn(parameters, 'action')) return ok(plan);
  }
  const chosen =
    unreadable(library, chain.links) ??
    chooseAction(item, chain.links[0]?.tool as Tool, parameters);
  if (!chosen.ok) return chosen;
  const misconfigured = configFailure(library.configFaults(chain));
  const plan = planOf(item, chain, chosen.output, catalog, misconfigured);
  cache.set(chain, { catalog, signed, plans: [...plans, plan] });
  return ok(plan);
}
