import type { Diagnostic, JsonObject } from '../../base/index.ts';
import type { Ceiling, Grant, RiskTier } from '../../trust/index.ts';
import type { PolicyRules } from '../frame.ts';
import type { GuardSource } from '../guards/guard-expression.ts';

/** Money is a decimal text and is compared exactly. The lowest ceiling of a limit counts. */
const DECIMAL = /^(\d{1,30})(?:\.(\d{1,18}))?$/;

/** In units of 10^-18; undefined for what is no plain decimal. */
function scaled(value: number | string): bigint | undefined {
  const text = typeof value === 'number' ? value.toString() : value.trim();
  const match = DECIMAL.exec(text);
  return match ? BigInt(match[1] + (match[2] ?? '').padEnd(18, '0')) : undefined;
}

export const isLimit = (value: unknown): value is number | string =>
  (typeof value === 'number' || typeof value === 'string') && scaled(value) !== undefined;

/** Zero for what cannot be read: a ceiling nobody understands lets nothing through. */
const amount = (value: number | string): bigint => scaled(value) ?? 0n;

export function lowestLimits(
  ceilings: readonly Readonly<Record<string, number | string>>[],
): Record<string, number | string> {
  const lowest = new Map<string, number | string>();
  for (const ceiling of ceilings) {
    for (const [name, value] of Object.entries(ceiling)) {
      const before = lowest.get(name);
      if (before === undefined || amount(value) < amount(before)) lowest.set(name, value);
    }
  }
  return Object.fromEntries(lowest);
}

// Order matters: when two limits are reached at once, the first listed is reported.
export const LIMIT_NAMES = [
  ...(['turns', 'tokens', 'input_tokens', 'output_tokens', 'spawns', 'duration'] as const),
  ...(['spend', 'context', 'depth', 'tool_calls'] as const),
];

/** Ways in, each with rights of its own. `mcp_servers` are servers that a connector starts. */
export const SURFACE_NAMES = [
  ...(['cli', 'library', 'script', 'mcp', 'web', 'mcp_servers', 'harness'] as const),
];

/** Events that people are notified of. */
export const NOTICE_KINDS = ['approval', 'stuck', 'failed', 'limit'] as const;

/** Each level has one file. `compose.ts` says how the levels act together. */
export type PolicyLevel = 'operator' | 'user' | 'project' | 'bundle';

export const TOOL_EFFECTS = ['read', 'idempotent', 'write'] as const;
/** What a crash or a retry may repeat. */
export type ToolEffect = (typeof TOOL_EFFECTS)[number];
export type DirectiveAccess = 'none' | 'signed' | 'all';

export interface SurfacePolicy {
  capabilities?: Ceiling;
  /** Denials of the bundle that do not hold there, each named exactly; nobody but a person opens. */
  open?: Grant[];
  effects?: ToolEffect[];
  directives?: DirectiveAccess;
  /** May a client's dialog with its person decide about approvals? */
  elicitation?: boolean;
}

export interface Policy extends PolicyRules {
  level: PolicyLevel;
  file?: string;
  /** A script's own, not a file's. */
  ofScript?: boolean;
  /** The file carries a good signature: it may say what otherwise only the user's own file may. */
  signed?: boolean;
  /** Of the file's text as it was read. */
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
  /** Globs over the ids of models that may be asked; deny wins. */
  models?: { allow?: string[]; deny?: string[] };
  surfaces?: Record<string, SurfacePolicy>;
  /** Ids or globs of tools whose results no stranger had a hand in. */
  trusted?: { tools?: string[] };
  /** How a model reads what strangers wrote: as it is, or as references to it. */
  untrusted?: 'show' | 'reference';
  retention?: { days?: number; keep_failed?: boolean };
  /** After so many days a question that nobody answered is over. */
  approvals?: { days?: number };
  anneal?: 'ask' | 'auto';
  /** Whose word on the prices of models is the last. */
  prices?: 'user' | 'project';
  notify?: JsonObject;
  /** How much of arguments and results a transcript shows. */
  transcript?: 'preview' | 'full';
}

const SHOWN: Partial<Record<PolicyLevel, string>> = {
  bundle: 'bundle:policy',
  user: '~/.ai/policy.yaml',
  project: '.ai/policy.yaml',
};

/** The file of a policy in texts that models read too: not where on this machine it lies. */
export const shownPolicyFile = (level: PolicyLevel, file: string): string => SHOWN[level] ?? file;

/** For a file that cannot be read: nothing is allowed until somebody repairs it, and all are told why. */
export function closedPolicy(
  level: PolicyLevel,
  file: string,
  diagnostics: readonly Diagnostic[] = [],
): Policy {
  const found = diagnostics.find(({ severity }) => severity === 'error');
  const shown = shownPolicyFile(level, file);
  const place = found ? `${shown}:${found.line}` : shown;
  const why = found ? ` (${found.message})` : '';
  const closed = `the policy file ${place} is broken${why}, so nothing is allowed until it is mended`;
  return {
    level,
    file,
    labels: { '*': { deny: ['op:*'] } },
    capabilities: { allow: [], closed },
  };
}
