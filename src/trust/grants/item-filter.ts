// Lists over categories and names: which directives a thread may see, execute and spawn, which
// knowledge it may read. Every block of a token may carry some; all of them must agree.
import {
  fail,
  getOwn,
  globProblem,
  isObject,
  type Json,
  lastSegment,
  matchGlob,
  type Outcome,
  ok,
} from '../../base/index.ts';

export const FILTER_LISTS = [
  'allow_categories',
  'deny_categories',
  'allow_directives',
  'deny_directives',
] as const;
export type CategoryFilter = { [List in (typeof FILTER_LISTS)[number]]?: string[] };

/** What a filter is about: spawning directives, reading knowledge, using directives. */
const FILTER_USES = ['spawn', 'knowledge', 'directives'] as const;
export type ItemFilters = { [Use in (typeof FILTER_USES)[number]]?: CategoryFilter };

const MAX_ENTRIES = 1000;

const matchesName = (glob: string, id: string): boolean =>
  matchGlob(glob, glob.includes('/') ? id : lastSegment(id));

const lower = (text: string): string => text.toLowerCase();

/** Deny wins. Without an allow list all pass; with one, or with an empty one, only what it names. */
export function filterAllows(filter: CategoryFilter, category: string, id: string): boolean {
  const { allow_categories, allow_directives, deny_categories = [], deny_directives = [] } = filter;
  const denied =
    deny_categories.some((glob) => matchGlob(lower(glob), lower(category))) ||
    deny_directives.some((glob) => matchesName(lower(glob), lower(id)));
  if (denied) return false;
  if (!allow_categories && !allow_directives) return true;
  return (
    (allow_categories ?? []).some((glob) => matchGlob(glob, category)) ||
    (allow_directives ?? []).some((glob) => matchesName(glob, id))
  );
}

function readFilter(value: Json, use: string): Outcome<CategoryFilter> {
  if (!isObject(value)) return fail('invalid_input', `filter \`${use}\` must be an object`);
  for (const [name, list] of Object.entries(value)) {
    if (!(FILTER_LISTS as readonly string[]).includes(name)) {
      return fail('invalid_input', `filter \`${use}\` has an unknown list \`${name}\``);
    }
    const isGlobs =
      Array.isArray(list) &&
      list.length <= MAX_ENTRIES &&
      list.every((glob) => typeof glob === 'string' && globProblem(glob) === undefined);
    if (!isGlobs) return fail('invalid_input', `\`${use}.${name}\` must be a list of globs`);
  }
  return ok(value as CategoryFilter);
}

/** Filters as they stand in a token: anything unknown is refused. */
export function readFilters(value: Json): Outcome<ItemFilters> {
  if (!isObject(value)) return fail('invalid_input', '`filters` must be an object');
  const filters: ItemFilters = {};
  for (const use of Object.keys(value)) {
    const known = FILTER_USES.find((name) => name === use);
    if (!known) return fail('invalid_input', `unknown filter \`${use}\``);
    const filter = readFilter(getOwn(value, use) ?? null, use);
    if (!filter.ok) return filter;
    filters[known] = filter.output;
  }
  return ok(filters);
}
