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
  type Json,
  listOf,
  type Outcome,
  ok,
  parseJson,
  plainJson,
  problemsIn,
  type Rule,
  record,
  tableOf,
  text,
  textLike,
  wholeBetween,
  wrongType,
} from '../../base/index.ts';
import { SCOPE_FIELDS } from '../grants/capability-catalog.ts';
import type { Grant } from '../grants/grant.ts';
import { type ItemFilters, itemFilters } from '../grants/item-filter.ts';

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

const STRICT = { strict: true } as const;
const printable = textLike(/^[^\u0000-\u001f\u007f]{1,4096}$/, 'a text of 1 to 4096 characters');
const threadId = textLike(/^[A-Za-z0-9_-]{1,80}$/, 'a thread id');
const count = wholeBetween(0, Number.MAX_SAFE_INTEGER);
const exactly =
  (wanted: number | true): Rule<Json> =>
  (value, place) =>
    value === wanted ? value : wrongType(place, `\`${wanted}\``, value);

const scope = record(Object.fromEntries(SCOPE_FIELDS.map((name) => [name, text])), STRICT);
const grant = { capability: text, scope };
const FIELDS: Readonly<Record<keyof TokenBlock, Rule<unknown>>> = {
  v: exactly(1),
  aud: printable,
  project: printable,
  thread: threadId,
  parent: threadId,
  directive: printable,
  caps: listOf(record(grant, { required: ['capability'], ...STRICT }), MAX_CAPS),
  approved: listOf(
    record({ ...grant, approval: printable }, { required: ['capability', 'approval'], ...STRICT }),
    MAX_APPROVED,
  ),
  filters: itemFilters,
  budget: record(
    {
      uses: tableOf(count, MAX_USES),
      spend: textLike(/^\d{1,12}(\.\d{1,9})?$/, 'a decimal text'),
      spawns: count,
      depth: count,
    },
    STRICT,
  ),
  exp: count,
  nonce: textLike(/^[A-Za-z0-9_-]{16,64}$/, 'a nonce'),
  core: exactly(true),
  approval: printable,
};
const blockRule = record(FIELDS, {
  required: ['v', 'aud', 'project', 'thread', 'caps', 'exp', 'nonce'],
  ...STRICT,
});

/** Why this is no block; undefined when it is one. */
function blockProblem(value: Json, index: number): string | undefined {
  const [first] = problemsIn(value, '', blockRule);
  if (first) return `is not valid: ${first.message}`;
  const rootOnly = ['core', 'approval'].find((name) => index > 0 && getOwn(value, name));
  return rootOnly === undefined ? undefined : `may not hold \`${rootOnly}\``;
}

/** Blocks that were written here, by place and text: reading them gives just these. */
const written = createRecent<string, TokenBlock>(100);

/** The text that is signed. */
export function writeBlock(block: TokenBlock, index: number): Outcome<string> {
  // Optional fields that are present but undefined are absent in JSON.
  const value = plainJson(block);
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
