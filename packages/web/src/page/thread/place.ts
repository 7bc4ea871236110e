// Selection within a thread, as the address stores it: tab, step, filter.
import type { RowFilter } from '../../model/thread-sums.ts';
import { pathOf, route, setQuery } from '../router.tsx';

export const TABS = ['timeline', 'conversation', 'rights', 'cost', 'events'] as const;
export type ThreadTab = (typeof TABS)[number];
const ROW_FILTERS: readonly RowFilter[] = ['denied', 'failed', 'writes', 'hooks', 'untrusted'];

export interface ThreadPlace {
  readonly tab: ThreadTab;
  readonly filter: RowFilter | undefined;
  /** Selected event, and its thread: this one or a child that is opened in place. */
  readonly at: number | undefined;
  readonly within: string;
}

/** `first` is the tab of an address without one. */
export function placeIn(id: string, first: ThreadTab): ThreadPlace {
  const { query } = route.value;
  const at = Number(query.get('at') ?? '');
  return {
    tab: TABS.find((tab) => tab === query.get('tab')) ?? first,
    filter: ROW_FILTERS.find((filter) => filter === query.get('filter')),
    at: Number.isInteger(at) && at > 0 ? at : undefined,
    within: query.get('in') ?? id,
  };
}

/** A tab adds a history entry, a row does not. */
export const openTab = (tab: ThreadTab): void => setQuery({ tab }, false);

export const setFilter = (filter: RowFilter | undefined): void => setQuery({ filter });

export function selectEvent(id: string, seq: number | undefined, within = id): void {
  setQuery({
    at: seq === undefined ? undefined : String(seq),
    in: seq === undefined || within === id ? undefined : within,
  });
}

export const threadPath = (id: string, query = ''): string => `${pathOf('t', id)}${query}`;

export const threadResource = (id: string, rest = ''): string =>
  `threads/${encodeURIComponent(id)}${rest}`;
