// Reads and writes the body of one block of a capability token: exactly these fields and shapes, in the canonical
// spelling. An unknown field is refused, so that an old verifier never overlooks a restriction of a newer block.
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
  /** Remaining calls per tool, such as `delete_file: 1`. */
  uses?: Record<string, number>;
  /** Remaining money, a decimal in the currency of the price table. */
  spend?: string;
  spawns?: number;
  depth?: number;
}

/** A right that a person approved for one thread, with the approval whose uses are counted. */
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
  /** Grants of approvals. They count like `caps`, but the store of approvals counts every use. */
  approved?: ApprovedGrant[];
  /** Lists over categories and names. Absent: the block excludes no items. */
  filters?: ItemFilters;
  budget?: TokenBudget;
  /** Time in milliseconds since 1970 from which on the token is invalid. */
  exp: number;
  nonce: string;
  /** True if the token was minted for a signed core item, so that system-only capabilities count. Only in block 0. */
  core?: true;
  /** Id of the approval by a person for which this token was minted. Only in block 0. */
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
  (constant: number | true): Rule<Json> =>
  (value, place) =>
    value === constant ? value : wrongType(place, `\`${constant}\``, value);

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

/** Returns why this is not a valid block. Undefined for a valid one. */
function blockProblem(value: Json, index: number): string | undefined {
  const [first] = problemsIn(value, '', blockRule);
  if (first) return `is not valid: ${first.message}`;
  const rootOnly = ['core', 'approval'].find((name) => index > 0 && getOwn(value, name));
  return rootOnly === undefined ? undefined : `may not contain \`${rootOnly}\``;
}

/** Cache of blocks that this process wrote, by index and text. */
const written = createRecent<string, TokenBlock>(100);

/** Returns the text that is signed. Fails with `invalid_input` for an invalid or too long block. */
export function writeBlock(block: TokenBlock, index: number): Outcome<string> {
  // Optional fields that are undefined are absent in JSON.
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

/** Returns a frozen block. Fails for a text that is not canonical: duplicate keys, blanks, other numbers. */
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

/** Converts decimal text to nano-units, so that comparisons are exact. */
function nanos(spend: string): bigint {
  const [whole = '0', part = ''] = spend.split('.');
  return BigInt(whole + part.padEnd(9, '0'));
}

/** Returns the smallest value of each field over all blocks. An absent field is not limited. */
export function leastBudget(budgets: readonly (TokenBudget | undefined)[]): TokenBudget {
  const present = budgets.flatMap((budget) => budget ?? []);
  const least = (counts: number[]) => (counts.length > 0 ? Math.min(...counts) : undefined);
  const uses = present.flatMap((budget) => Object.entries(budget.uses ?? {}));
  const spends = present.flatMap(({ spend }) => spend ?? []);
  return compact<TokenBudget>({
    // The smallest number of a tool comes last and overwrites the others.
    uses: uses.length > 0 ? Object.fromEntries(uses.sort(([, a], [, b]) => b - a)) : undefined,
    spend: spends.sort((a, b) => Number(nanos(a) - nanos(b)))[0],
    spawns: least(present.flatMap(({ spawns }) => spawns ?? [])),
    depth: least(present.flatMap(({ depth }) => depth ?? [])),
  });
}
