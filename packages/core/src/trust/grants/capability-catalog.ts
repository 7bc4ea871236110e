import {
  fail,
  getOwn,
  isObject,
  type Json,
  listOf,
  nearest,
  type Outcome,
  ok,
  oneOf,
  readValue,
  record,
  text,
  textLike,
} from '../../base/index.ts';

/** Returns the declared form of names as other documents write them: `kiwi-mcp.X`, `kernmantle.X`, `mcp.NAME`. */
export function normalizeCapability(name: string): string {
  const kernel = /^(?:kiwi-mcp|kernmantle)\.(.+)$/.exec(name);
  if (kernel) return `kernel.${kernel[1]}`;
  const server = /^mcp\.([^.]+)$/.exec(name);
  return server && server[1] !== 'connect' && server[1] !== '*' ? `${name}.call` : name;
}

/** True if a name in a grant is a pattern for many names. */
export const isNamePattern = (name: string): boolean => name.includes('*');

/** True if the name consists of letters, digits, `_`, `-` and (in patterns) `*`, between dots. */
export const isNameOrPattern = (name: string): boolean =>
  name.length <= 200 && /^[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*$/.test(name);

/**
 * Tiers of capabilities. The file of the bundle lists the capabilities. A file of a project may only add
 * names for its own tools.
 */
export const RISK_TIERS = ['read', 'write', 'elevated', 'system'] as const;
export type RiskTier = (typeof RISK_TIERS)[number];

export const SCOPE_FIELDS = ['path', 'id', 'host', 'method', 'subtree'] as const;
export type ScopeField = (typeof SCOPE_FIELDS)[number];

export interface CapabilityInfo {
  name: string;
  meaning: string;
  /** Fields that may narrow a grant of this capability. */
  scope: readonly string[];
  tier: RiskTier;
  /** Capabilities that a grant of this one includes, with the same scope. */
  implies: readonly string[];
}

export type CapabilityCatalog = ReturnType<typeof catalogOver>;

export interface CapabilityProblem {
  /** Name of the entry. Empty for the file as a whole. */
  name: string;
  message: string;
}

const NAME = /^[a-z][a-z0-9_-]*(\.([A-Za-z0-9_-]+|<[a-z]+>))*$/;
const entryRule = record(
  {
    meaning: textLike(/./s, 'a text'),
    tier: oneOf(RISK_TIERS),
    scope: listOf(text),
    implies: listOf(text),
  },
  { required: ['meaning', 'tier'] },
);

/** Reads the entries of a capabilities file, as parsed from YAML: `{capabilities: {NAME: {…}}}`. */
export function readCapabilities(value: Json): {
  infos: CapabilityInfo[];
  problems: CapabilityProblem[];
} {
  const [infos, problems]: [CapabilityInfo[], CapabilityProblem[]] = [[], []];
  const entries = getOwn(value, 'capabilities');
  const stray = Object.keys(isObject(value) ? value : {}).find((key) => key !== 'capabilities');
  if (value === null) return { infos, problems };
  if (stray !== undefined) problems.push({ name: '', message: `unknown field \`${stray}\`` });
  if (!isObject(entries)) {
    problems.push({ name: '', message: '`capabilities` must be a mapping of names' });
    return { infos, problems };
  }
  for (const [name, entry] of Object.entries(entries)) {
    const read = readValue(entry, '', entryRule);
    if (!read.ok) {
      problems.push({ name, message: `is not valid: ${read.error.detail.message}` });
      continue;
    }
    const { meaning = '', tier = 'system', scope = [], implies = [] } = read.output;
    infos.push({ name, meaning, scope, tier, implies });
  }
  return { infos, problems };
}

type Table = ReadonlyMap<string, CapabilityInfo>;

const serverPattern = (name: string): string | undefined => {
  const parts = /^mcp\.[A-Za-z0-9_-]+\.([a-z]+)$/.exec(name);
  return parts ? `mcp.<server>.${parts[1]}` : undefined;
};

function find(table: Table, name: string): CapabilityInfo | undefined {
  // A placeholder declares many names and cannot be the name in a grant.
  if (name.includes('<')) return undefined;
  const exact = table.get(name);
  if (exact) return exact;
  const pattern = table.get(serverPattern(name) ?? '');
  return pattern && { ...pattern, name };
}

function shapeProblem(info: CapabilityInfo, table: Table): string | undefined {
  if (!NAME.test(info.name)) return 'is not a name like `area.action`';
  const field = info.scope.find((name) => !SCOPE_FIELDS.includes(name as ScopeField));
  if (field !== undefined) {
    return `has the invalid scope \`${field}\`; use ${SCOPE_FIELDS.join(', ')}`;
  }
  for (const implied of info.implies) {
    const other = find(table, implied);
    if (!other) return `implies \`${implied}\`, which does not exist`;
    if (other.tier === 'system') return `may not imply the system-only \`${implied}\``;
    // The implied right gets the same scope, so both must have the same scope fields.
    if (info.scope.join() !== other.scope.join()) {
      return `implies \`${implied}\`, which has another scope`;
    }
  }
  return undefined;
}

/** Returns why a project may not declare this capability, which could grant rights under a name without review. */
function projectProblem(
  info: CapabilityInfo,
  ground: Table,
  own: ReadonlySet<string>,
): string | undefined {
  if (info.tier === 'system') return 'is system-only: a project may not declare it';
  if (find(ground, info.name)) return 'is built in and cannot be declared again';
  if (info.name.includes('<')) return 'may not contain a placeholder';
  const foreign = info.implies.find((name) => !own.has(name));
  return foreign === undefined
    ? undefined
    : `may imply only capabilities of the same file, not \`${foreign}\``;
}

/** Returns the catalog, or a fault with every problem in `detail.problems`. */
export function createCapabilityCatalog(
  bundle: readonly CapabilityInfo[],
  project: readonly CapabilityInfo[] = [],
): Outcome<CapabilityCatalog> {
  const ground = new Map(bundle.map((info) => [info.name, info]));
  const own = new Set(project.map((info) => info.name));
  const table = new Map([...ground, ...project.map((info) => [info.name, info] as const)]);
  const problems: CapabilityProblem[] = [];
  const note = (name: string, message: string | undefined) => {
    if (message !== undefined) problems.push({ name, message });
  };
  if (ground.size + own.size !== bundle.length + project.length) {
    note('', 'a capability is declared twice');
  }
  for (const info of project) note(info.name, projectProblem(info, ground, own));
  for (const info of [...bundle, ...project]) note(info.name, shapeProblem(info, table));
  const [first] = problems;
  if (first) {
    const message = `capability \`${first.name}\` ${first.message}`;
    return fail('config_invalid', message, { problems: problems.map((p) => ({ ...p })) });
  }
  return ok(catalogOver(table));
}

function catalogOver(table: Table) {
  const names = [...table.keys()];
  const impliers = new Map<string, string[]>();
  for (const info of table.values()) {
    for (const implied of info.implies) {
      impliers.set(implied, [...(impliers.get(implied) ?? []), info.name]);
    }
  }
  const plain = new Map([...table].filter(([name]) => !name.includes('<')));
  /** Returns undefined for an undeclared name. `mcp.github.call` matches `mcp.<server>.call`. */
  const get = (name: string): CapabilityInfo | undefined => plain.get(name) ?? find(table, name);
  return {
    get,
    /** Returns the names as declared, including patterns such as `mcp.<server>.call`. */
    names: (): readonly string[] => names,
    isSystem: (name: string) => get(name)?.tier === 'system',
    /** Returns the capabilities that imply this one. */
    impliedBy: (name: string): readonly string[] => impliers.get(name) ?? [],
    /** Returns the name that the author probably meant. Undefined if none is similar. */
    suggest: (name: string) => nearest(name, names),
  };
}
