// Filters of the list of threads. The address stores them, so that back, reload and a copied
// address give the same list.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Icon } from '../parts/icons.tsx';
import { route, setQuery } from '../router.tsx';
import { list, type ThreadsFilter } from '../state/threads.ts';

const STATUSES = [
  ['', 'any status'],
  ['waiting,needs_input', 'waiting'],
  ['spawning,running,terminating', 'running'],
  ['paused,interrupted', 'paused, interrupted'],
  ['completed', 'completed'],
  ['limit', 'at a limit'],
  ['failed,denied,aborted', 'failed, denied'],
  ['terminated,killed', 'stopped'],
] as const;

const HOUR = 3_600_000;
const SPANS = [
  ['', 'any time', 0],
  ['1h', 'last hour', HOUR],
  ['24h', 'last 24 hours', 24 * HOUR],
  ['7d', 'last 7 days', 168 * HOUR],
  ['30d', 'last 30 days', 720 * HOUR],
] as const;

export interface ListFilter {
  readonly asked: ThreadsFilter;
  readonly find: string;
  readonly hooks: boolean;
  /** True if a filter hides rows of the list. */
  readonly isFiltered: boolean;
}

/**
 * Search text for the server, debounced. It stays empty while the list already contains all
 * threads, because the page then filters by itself.
 */
function useSearch(find: string): string {
  const [search, setSearch] = useState('');
  useEffect(() => {
    const isAllHere = search === '' && list.peek().next_cursor === undefined;
    if (find === search || (isAllHere && !list.peek().isLoading)) return undefined;
    const timer = setTimeout(() => setSearch(find), find === '' ? 0 : 350);
    return () => clearTimeout(timer);
  }, [find, search]);
  return search;
}

/** Returns the filters in the address. The start of a time span is fixed when the user selects the span. */
export function useListWish(): ListFilter {
  const { query } = route.value;
  const [name, status, span] = ['directive', 'status', 'since'].map(
    (name) => query.get(name) ?? '',
  );
  const find = query.get('find') ?? '';
  const hooks = query.get('hooks') === 'yes';
  const q = useSearch(find);
  const since = useMemo(() => {
    const choice = SPANS.find(([word]) => word !== '' && word === span);
    return choice ? String(Date.now() - choice[2]) : '';
  }, [span]);
  return {
    asked: {
      ...(name ? { directive: name } : {}),
      ...(status ? { status } : {}),
      ...(since ? { since } : {}),
      ...(q ? { q } : {}),
      ...(hooks ? { hooks: 'yes' } : {}),
    },
    find,
    hooks,
    isFiltered: [name, status, span, find].some((word) => word !== ''),
  };
}

export const clearFilters = (): void =>
  setQuery({ directive: undefined, status: undefined, since: undefined, find: undefined });

function Choice(props: {
  name: string;
  label: string;
  options: readonly (readonly [string, string, ...unknown[]])[];
}) {
  const { name, label, options } = props;
  const value = route.value.query.get(name) ?? '';
  return (
    <select
      aria-label={label}
      class={value === '' ? '' : 'is-set'}
      value={value}
      onChange={(event) => setQuery({ [name]: event.currentTarget.value }, false)}
    >
      {options.map(([word, says]) => (
        <option key={word} value={word}>
          {says}
        </option>
      ))}
    </select>
  );
}

export function ThreadFilters(props: { directives: readonly string[]; wish: ListFilter }) {
  const { directives, wish } = props;
  const name = wish.asked.directive;
  const names =
    name === undefined || directives.includes(name) ? directives : [...directives, name];
  return (
    <search class="filters" aria-label="Filter threads">
      <Choice
        name="directive"
        label="Directive"
        options={[['', 'any directive'], ...names.map((name) => [name, name] as const)]}
      />
      <Choice name="status" label="Status" options={STATUSES} />
      <Choice name="since" label="Since" options={SPANS} />
      <span class="field">
        <Icon name="find" />
        <input
          type="search"
          aria-label="Find in this list"
          placeholder="find in this list"
          value={wish.find}
          onInput={(event) => setQuery({ find: event.currentTarget.value })}
        />
      </span>
      <button
        type="button"
        class="chip"
        aria-pressed={wish.hooks}
        onClick={() => setQuery({ hooks: wish.hooks ? undefined : 'yes' })}
      >
        Hooks <kbd>h</kbd>
      </button>
    </search>
  );
}
