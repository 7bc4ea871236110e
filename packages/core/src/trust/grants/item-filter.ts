// Lists over categories and names limit which directives a thread may see, execute and spawn, and which
// knowledge it may read. Each block of a token can have lists, and all lists must allow an item.
import {
  globProblem,
  lastSegment,
  listOf,
  matchGlob,
  type Rule,
  record,
  wrongType,
} from '../../base/index.ts';

export const FILTER_LISTS = [
  'allow_categories',
  'deny_categories',
  'allow_directives',
  'deny_directives',
] as const;
export type CategoryFilter = { [List in (typeof FILTER_LISTS)[number]]?: string[] };

/** Filters by use: spawning directives, reading knowledge, using directives. */
export type ItemFilters = { [Use in 'spawn' | 'knowledge' | 'directives']?: CategoryFilter };

const MAX_ENTRIES = 1000;

const matchesName = (glob: string, id: string): boolean =>
  matchGlob(glob, glob.includes('/') ? id : lastSegment(id));

const lower = (text: string): string => text.toLowerCase();

/**
 * Returns the list that excludes this item. Undefined if the item passes. A deny list wins. Without an
 * allow list all items pass. With allow lists only items pass that one of them names.
 */
export function refusingList(
  filter: CategoryFilter,
  category: string,
  id: string,
): keyof CategoryFilter | undefined {
  const { allow_categories, allow_directives, deny_categories = [], deny_directives = [] } = filter;
  if (deny_categories.some((glob) => matchGlob(lower(glob), lower(category)))) {
    return 'deny_categories';
  }
  if (deny_directives.some((glob) => matchesName(lower(glob), lower(id)))) return 'deny_directives';
  if (!allow_categories && !allow_directives) return undefined;
  const isNamed =
    (allow_categories ?? []).some((glob) => matchGlob(glob, category)) ||
    (allow_directives ?? []).some((glob) => matchesName(glob, id));
  if (isNamed) return undefined;
  return allow_categories ? 'allow_categories' : 'allow_directives';
}

/** The elements of a directive that contain the lists. */
const ELEMENTS: Readonly<Record<keyof ItemFilters, string>> = {
  spawn: 'orchestration',
  knowledge: 'knowledge',
  directives: 'directives',
};

/** Returns the name of a list in refusals, such as `directives.allow_categories`. */
export const listName = (use: keyof ItemFilters, list: keyof CategoryFilter): string =>
  `${ELEMENTS[use]}.${list}`;

/** Returns the missing entry of an allow list. Empty for a deny list. */
export const missingInList = (name: string): { capability: string }[] =>
  name.includes('.allow_') ? [{ capability: name }] : [];

/** Returns why the list refuses, and the remedy. */
export function listRefusal(name: string): string {
  const [element = '', list = ''] = name.split('.');
  const where = `\`${list}\` of \`<${element}>\` in the directive`;
  return list.startsWith('deny')
    ? `${where} names the item; remove it there and sign the directive`
    : `${where} does not name the item; add it there and sign the directive`;
}

const glob: Rule<string> = (value, place) =>
  typeof value === 'string' && globProblem(value) === undefined
    ? value
    : wrongType(place, 'a glob', value);
const globs = listOf(glob, MAX_ENTRIES);
const filter = record(
  {
    allow_categories: globs,
    deny_categories: globs,
    allow_directives: globs,
    deny_directives: globs,
  } satisfies Record<keyof CategoryFilter, Rule<string[]>>,
  { strict: true },
);

/** The shape of filters in a token. Unknown fields are refused. */
export const itemFilters: Rule<ItemFilters> = record(
  { spawn: filter, knowledge: filter, directives: filter },
  { strict: true },
);
