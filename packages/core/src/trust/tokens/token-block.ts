// The body of one block of a capability token, and how it is read back: exactly these fields,
// exactly these shapes, in the one canonical spelling. What is not known here is refused, so an old
// verifier never overlooks a restriction that a newer block speaks of.
import {
  canonicalJson,
  compact,
  createRecent,
  fail,
  freezeJson,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import { SCOPE_FIELDS } from '../grants/capability-catalog.ts';
import type { Grant } from '../grants/grant.ts';
import { type ItemFilters, readFilters } from '../grants/item-filter.ts';

export interface TokenBudget {
  /** Calls left per tool, e.g. `delete_file: 1`. */
  uses?: Record<string, number>;
  /** Decimal, in the price table's currency. */
  spend?: string;
  spawns?: number;
  depth?: number;
}

/** A right that a person approved for one thread, with the approval that is used up by it. */
export interface ApprovedGrant extends Grant {
  approval: string;
}

export interface TokenBlock {
  v: 1;
  aud: string;
  /** Real path of the project's root. */
  project: string;
  thread: string;
  parent?: string;
  directive?: string;
  caps: Grant[];
  /** Counts like `caps`, but every use is counted with whoever keeps the approvals. */
  approved?: ApprovedGrant[];
  /** Lists over categories and names. */
  filters?: ItemFilters;
  budget?: TokenBudget;
  /** Milliseconds since 1970; from then on the token is worth nothing. */
  exp: number;
  nonce: string;
  /** Block 0 only: minted for a signed core item, so system-only capabilities count. */
  core?: true;
  /** Block 0 only: the approval by a person that this token was minted on. */
  approval?: string;
}

const MAX_CAPS = 2000;
const MAX_BODY = 256 * 1024;
const MAX_USES = 1000;
const MAX_APPROVED = 200;

type Check = (value: Json) => string | undefined;

const textOf =
  (shape: RegExp, what: string): Check =>
  (value) =>
    typeof value === 'string' && shape.test(value) ? undefined : `must be ${what}`;

const isCount = (value: Json | undefined): boolean =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

const stray = (value: JsonObject, known: readonly string[]): string | undefined =>
  Object.keys(value).find((key) => !known.includes(key));

const checkGrant = (value: Json, more: readonly string[] = []): boolean => {
  const known = ['capability', 'scope', ...more];
  if (!isObject(value) || stray(value, known) !== undefined) return false;
  const scope = getOwn(value, 'scope');
  return (
    typeof getOwn(value, 'capability') === 'string' &&
    (scope === undefined ||
      (isObject(scope) &&
        stray(scope, SCOPE_FIELDS) === undefined &&
        Object.values(scope).every((glob) => typeof glob === 'string')))
  );
};

const checkCaps: Check = (value) =>
  Array.isArray(value) && value.length <= MAX_CAPS && value.every((grant) => checkGrant(grant))
    ? undefined
    : `must be a list of at most ${MAX_CAPS} grants`;

const isApproved = (value: Json): boolean =>
  checkGrant(value, ['approval']) && printable(getOwn(value, 'approval') ?? null) === undefined;

const checkApproved: Check = (value) =>
  Array.isArray(value) && value.length <= MAX_APPROVED && value.every(isApproved)
    ? undefined
    : `must be a list of at most ${MAX_APPROVED} grants with their approvals`;

const checkBudget: Check = (value) => {
  if (!isObject(value)) return 'must be an object';
  const unknown = stray(value, ['uses', 'spend', 'spawns', 'depth']);
  if (unknown !== undefined) return `has an unknown field \`${unknown}\``;
  const { uses = {}, spend = '0', spawns = 0, depth = 0 } = value;
  const usesOk =
    isObject(uses) && Object.keys(uses).length <= MAX_USES && Object.values(uses).every(isCount);
  const spendOk = typeof spend === 'string' && /^\d{1,12}(\.\d{1,9})?$/.test(spend);
  return usesOk && spendOk && isCount(spawns) && isCount(depth)
    ? undefined
    : 'must hold whole numbers, and `spend` as a decimal text';
};

const checkFilters: Check = (value) => {
  const filters = readFilters(value);
  return filters.ok ? undefined : filters.error.detail.message;
};

const printable = textOf(/^[^\u0000-\u001f\u007f]{1,4096}$/, 'a text of 1 to 4096 characters');
const threadId = textOf(/^[A-Za-z0-9_-]{1,80}$/, 'a thread id');

const FIELDS: Readonly<Record<keyof TokenBlock, { required: boolean; check: Check }>> = {
  v: { required: true, check: (value) => (value === 1 ? undefined : 'is not a known version') },
  aud: { required: true, check: printable },
  project: { required: true, check: printable },
  thread: { required: true, check: threadId },
  parent: { required: false, check: threadId },
  directive: { required: false, check: printable },
  caps: { required: true, check: checkCaps },
  approved: { required: false, check: checkApproved },
  filters: { required: false, check: checkFilters },
  budget: { required: false, check: checkBudget },
  exp: { required: true, check: (value) => (isCount(value) ? undefined : 'must be a time in ms') },
  nonce: { required: true, check: textOf(/^[A-Za-z0-9_-]{16,64}$/, 'a nonce') },
  core: { required: false, check: (value) => (value === true ? undefined : 'must be true') },
  approval: { required: false, check: printable },
};

/** Why this is no block; undefined when it is one. */
function blockProblem(value: Json, index: number): string | undefined {
  if (!isObject(value)) return 'is not an object';
  const unknown = Object.keys(value).find((key) => !Object.hasOwn(FIELDS, key));
  if (unknown !== undefined) return `has an unknown field \`${unknown}\``;
  for (const [name, { required, check }] of Object.entries(FIELDS)) {
    const field = getOwn(value, name);
    if (field === undefined && required) return `has no \`${name}\``;
    const problem = field === undefined ? undefined : check(field);
    if (problem !== undefined) return `: \`${name}\` ${problem}`;
  }
  const rootOnly = ['core', 'approval'].find((name) => index > 0 && Object.hasOwn(value, name));
  return rootOnly === undefined ? undefined : `may not hold \`${rootOnly}\``;
}

/** Blocks that were written here, by place and text: reading them gives just these. */
const written = createRecent<string, TokenBlock>(100);

/** The text that is signed. */
export function writeBlock(block: TokenBlock, index: number): Outcome<string> {
  // Optional fields that are present but undefined are absent in JSON.
  const value = JSON.parse(JSON.stringify(block)) as Json;
  const problem = blockProblem(value, index);
  if (problem !== undefined) return fail('invalid_input', `block ${index} ${problem}`);
  const text = canonicalJson(value);
  if (text.length > MAX_BODY) {
    return fail('invalid_input', `block ${index} is longer than ${MAX_BODY} characters`);
  }
  written.set(`${index}:${text}`, freezeJson(value) as unknown as TokenBlock);
  return ok(text);
}

/** Frozen. Refuses every spelling but the canonical one: duplicate keys, blanks, other numbers. */
export function readBlock(text: string, index: number): Outcome<TokenBlock> {
  const before = written.get(`${index}:${text}`);
  if (before) return ok(before);
  const parsed = parseJson(text, 8);
  if (!parsed.ok) return fail('invalid_input', `block ${index} is not JSON`);
  if (canonicalJson(parsed.output) !== text) {
    return fail('invalid_input', `block ${index} is not in canonical form`);
  }
  const problem = blockProblem(parsed.output, index);
  if (problem !== undefined) return fail('invalid_input', `block ${index} ${problem}`);
  return ok(freezeJson(parsed.output) as unknown as TokenBlock);
}

/** Decimal text as nano-units, so that comparing is exact. */
function nanos(spend: string): bigint {
  const [whole = '0', part = ''] = spend.split('.');
  return BigInt(whole + part.padEnd(9, '0'));
}

/** What all blocks leave: the smallest of each; a field that none names is not limited here. */
export function leastBudget(budgets: readonly (TokenBudget | undefined)[]): TokenBudget {
  const given = budgets.flatMap((budget) => budget ?? []);
  const least = (counts: number[]) => (counts.length > 0 ? Math.min(...counts) : undefined);
  const uses = given.flatMap((budget) => Object.entries(budget.uses ?? {}));
  const spends = given.flatMap(({ spend }) => spend ?? []);
  return compact<TokenBudget>({
    // The smallest comes last, and stays.
    uses: uses.length > 0 ? Object.fromEntries(uses.sort(([, a], [, b]) => b - a)) : undefined,
    spend: spends.sort((a, b) => Number(nanos(a) - nanos(b)))[0],
    spawns: least(given.flatMap(({ spawns }) => spawns ?? [])),
    depth: least(given.flatMap(({ depth }) => depth ?? [])),
  });
}
