import type { Diagnostic, JsonObject } from '../../base/index.ts';
import type { Ceiling, Grant, RiskTier } from '../../trust/index.ts';
import type { PolicyRules } from '../frame.ts';
import type { GuardSource } from '../guards/guard-expression.ts';

/** Money is a decimal text and is compared exactly. The lowest ceiling of a limit counts. */
const DECIMAL = /^(\d{1,30})(?:\.(\d{1,18}))?$/;

/** Returns the amount in units of 10^-18. Undefined for text that is not a plain decimal. */
function scaled(value: number | string): bigint | undefined {
  const text = typeof value === 'number' ? value.toString() : value.trim();
  const match = DECIMAL.exec(text);
  return match ? BigInt(match[1] + (match[2] ?? '').padEnd(18, '0')) : undefined;
}

export const isLimit = (value: unknown): value is number | string =>
  (typeof value === 'number' || typeof value === 'string') && scaled(value) !== undefined;

/** Returns zero for an unreadable amount, so that an invalid ceiling allows nothing. */
const amount = (value: number | string): bigint => scaled(value) ?? 0n;

/** The one entry of `limits` that is a word instead of an amount. */
export const COMPACT = 'context_compact';

export function lowestLimits(
  ceilings: readonly Readonly<Record<string, number | string>>[],
): Record<string, number | string> {
  const lowest = new Map<string, number | string>();
  for (const ceiling of ceilings) {
    for (const [name, value] of Object.entries(ceiling)) {
      const before = lowest.get(name);
      if (name === COMPACT && before !== undefined) {
        lowest.set(name, strictestMode([before, value]));
        continue;
      }
      if (before === undefined || amount(value) < amount(before)) lowest.set(name, value);
    }
  }
  return Object.fromEntries(lowest);
}

// The order matters: if two limits are reached at once, the first one is reported.
export const LIMIT_NAMES = [
  ...(['turns', 'tokens', 'input_tokens', 'output_tokens', 'spawns', 'duration'] as const),
  ...(['spend', 'context', 'depth', 'tool_calls'] as const),
];

/** Modes of compaction, the strictest first. `results`: old results become references, and nothing is summarised. */
export const COMPACT_MODES = ['off', 'results', 'auto'] as const;
export type CompactMode = (typeof COMPACT_MODES)[number];

/** Returns the strictest mode. An unknown word counts as `off`. */
export const strictestMode = (modes: readonly unknown[]): CompactMode => {
  const strictness = modes.map((mode) => COMPACT_MODES.findIndex((one) => one === mode));
  return COMPACT_MODES[Math.max(0, Math.min(...strictness))] ?? 'off';
};

/** Surfaces, each with its own rights. `mcp_servers` are servers that a connector starts. */
export const SURFACE_NAMES = [
  ...([
    'cli',
    'library',
    'script',
    'mcp',
    'web',
    'acp',
    'schedule',
    'mcp_servers',
    'harness',
  ] as const),
];

/** Events that a person is notified of. */
export const NOTICE_KINDS = [
  ...(['approval', 'stuck', 'failed', 'limit'] as const),
  ...(['schedule_missed', 'schedule_refused', 'schedule_paused'] as const),
];

/** Each level has one file. `compose.ts` combines the levels. */
export type PolicyLevel = 'operator' | 'user' | 'project' | 'bundle';

export const TOOL_EFFECTS = ['read', 'idempotent', 'write'] as const;
/** Effect of a tool. It decides whether a call may be repeated after a crash or for a retry. */
export type ToolEffect = (typeof TOOL_EFFECTS)[number];
export type DirectiveAccess = 'none' | 'signed' | 'all';

export interface SurfacePolicy {
  capabilities?: Ceiling;
  /**
   * Denials of the bundle that do not apply on this surface, each named exactly. Only levels of a person
   * may list them.
   */
  open?: Grant[];
  effects?: ToolEffect[];
  directives?: DirectiveAccess;
  /** True if a client's dialog with its person may decide approvals. */
  elicitation?: boolean;
}

/** The rights of a client of the Agent Client Protocol. */
export interface AcpPolicy {
  /** False: approval requests go to the other channels only. */
  may_approve?: boolean;
  /** `untrusted`: a prompt is a stranger's text, so nothing in it vouches for an argument. */
  words?: 'user' | 'untrusted';
}

export interface Policy extends PolicyRules {
  level: PolicyLevel;
  file?: string;
  /** True for the policy of a script. */
  ofScript?: boolean;
  /** True if the file has a valid signature, which gives it authority. */
  signed?: boolean;
  /** Hash of the file's text as it was read. */
  sha256?: string;
  capabilities?: Ceiling;
  /** Risk tiers that need a person's approval. */
  approve?: RiskTier[];
  limits?: Record<string, number | string>;
  guards?: GuardSource[];
  unsigned?: 'allow' | 'restrict';
  sandbox?: 'none' | 'required';
  install?: 'allow' | 'ask' | 'deny';
  /** Private and loopback hosts that tools may reach. */
  hosts?: string[];
  /** Globs over ids of models that may be called. `deny` wins. */
  models?: { allow?: string[]; deny?: string[] };
  surfaces?: Record<string, SurfacePolicy>;
  acp?: AcpPolicy;
  /** Ids or globs of tools whose results are trusted. */
  trusted?: { tools?: string[] };
  /** The form in which a model reads untrusted text: the text itself, or references to it. */
  untrusted?: 'show' | 'reference';
  retention?: { days?: number; keep_failed?: boolean };
  /** Number of days after which a pending approval request expires. */
  approvals?: { days?: number };
  anneal?: 'ask' | 'auto';
  /** The level whose prices of models count. */
  prices?: 'user' | 'project';
  notify?: JsonObject;
  /** The part of arguments and results that a transcript shows. */
  transcript?: 'preview' | 'full';
}

const SHOWN: Partial<Record<PolicyLevel, string>> = {
  bundle: 'bundle:policy',
  user: '~/.ai/policy.yaml',
  project: '.ai/policy.yaml',
};

/** Returns the name of a policy file for texts that models read too, without its folder. */
export const shownPolicyFile = (level: PolicyLevel, file: string): string => SHOWN[level] ?? file;

/** Returns the policy for an unreadable file: it refuses everything and names the reason. */
export function closedPolicy(
  level: PolicyLevel,
  file: string,
  diagnostics: readonly Diagnostic[] = [],
): Policy {
  const problem = diagnostics.find(({ severity }) => severity === 'error');
  const displayFile = shownPolicyFile(level, file);
  const place = problem ? `${displayFile}:${problem.line}` : displayFile;
  const why = problem ? ` (${problem.message})` : '';
  const closed = `policy file \`${place}\` is invalid${why}; nothing is allowed until it is corrected`;
  return {
    level,
    file,
    labels: { '*': { deny: ['op:*'] } },
    capabilities: { allow: [], closed },
  };
}
