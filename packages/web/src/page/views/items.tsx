// Items of the project with incremental search. Beside the list: one item, and the form that runs it.
import { useEffect, useState } from 'preact/hooks';
import type { ItemList, ListedItem } from '../../model/api.ts';
import { count } from '../../model/format.ts';
import { get, type PageFault } from '../api.ts';
import { ItemPane } from '../items/item-pane.tsx';
import { SignatureSign } from '../items/signature-mark.tsx';
import { useKeys } from '../keys.ts';
import { Button } from '../parts/button.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { go, Link, pathOf, route, setQuery } from '../router.tsx';

const KINDS = ['directive', 'tool', 'knowledge'] as const;
const PAUSE_MS = 200;

/** Adds the current search to a path under `items`. */
function withSearch(path: string): string {
  const { query } = route.value;
  const params = new URLSearchParams();
  for (const name of ['q', 'kind']) {
    const value = query.get(name);
    if (value !== null) params.set(name, value);
  }
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

const itemPath = ({ item_type: kind, item_id: id }: ListedItem): string =>
  withSearch(pathOf('items', kind, id));

function ItemRow({ item, current }: { item: ListedItem; current: boolean }) {
  const { item_type: kind, item_id: id, summary, title, unavailable, signature } = item;
  return (
    <li>
      <Link to={itemPath(item)} class="pick" current={current}>
        <SignatureSign state={signature} />
        <ForeignText text={id} class="mono cut" />
        <span class="dim">{kind}</span>
        <span class="faint n">{item.version ?? ''}</span>
        <span class={`under cut ${unavailable === undefined ? 'faint' : 'bad'}`}>
          <ForeignText text={unavailable ?? summary ?? title ?? ''} />
        </span>
      </Link>
    </li>
  );
}

/** The address gets the search text a moment after the last letter. */
function Search() {
  const { query } = route.value;
  const search = query.get('q') ?? '';
  const kind = query.get('kind') ?? '';
  const [text, setText] = useState(search);
  useEffect(() => {
    if (text === search) return undefined;
    const timer = setTimeout(() => setQuery({ q: text }), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="search stack">
      <input
        type="search"
        id="item-search"
        aria-label="Find an item"
        placeholder="find…"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <div class="chips">
        {KINDS.map((one) => (
          <Button
            text={one}
            key={one}
            class="chip"
            aria-pressed={kind === one}
            onClick={() => setQuery({ kind: kind === one ? undefined : one })}
          />
        ))}
      </div>
    </div>
  );
}

const LEVELS = ['project', 'user', 'installed', 'catalog', 'bundle'];
const levelOf = ({ source = '' }: ListedItem): number =>
  (LEVELS.indexOf(source) + LEVELS.length + 1) % (LEVELS.length + 1);

/** Sorts by origin without a search: items of the project first, shipped ones last. */
const inOrder = (items: readonly ListedItem[]): readonly ListedItem[] =>
  (route.value.query.get('q') ?? '') === ''
    ? items.toSorted((a, b) => levelOf(a) - levelOf(b))
    : items;

/** Returns the items of the search. The previous result stays until the next answer arrives. */
function useItems(): {
  list: ItemList | undefined;
  fault: PageFault | undefined;
  again: () => void;
  more: () => Promise<void>;
} {
  const { query } = route.value;
  const params = new URLSearchParams({ q: query.get('q') ?? '' });
  const kind = query.get('kind');
  if (kind !== null) params.set('kind', kind);
  const { answer, again } = useResource<ItemList>(`items?${params}`);
  const [list, setList] = useState<ItemList>();
  const [fault, setFault] = useState<PageFault>();
  useEffect(() => {
    if (answer?.ok) setList(answer.output);
    if (answer) setFault(answer.ok ? undefined : answer.error);
  }, [answer]);
  const more = async () => {
    if (list?.next_cursor === undefined) return;
    params.set('cursor', list.next_cursor);
    const next = await get<ItemList>(`items?${params}`);
    setFault(next.ok ? undefined : next.error);
    if (next.ok) setList({ ...next.output, items: [...list.items, ...next.output.items] });
  };
  return { list, fault, again, more };
}

function ItemList(props: { found: ReturnType<typeof useItems>; kind?: string; id?: string }) {
  const { found, kind, id } = props;
  const { list, fault, again, more } = found;
  if (fault) return <ErrorState error={fault} again={again} />;
  if (!list) return <LoadingRows rows={6} rowHeight={44} />;
  if (list.items.length === 0) {
    const isAsked = (route.value.query.get('q') ?? '') !== '';
    return isAsked ? (
      <EmptyState title="No item matches the search" />
    ) : (
      <EmptyState title="This project has no items yet" command="km init" />
    );
  }
  return (
    <>
      <ul class="picks">
        {inOrder(list.items).map((item) => (
          <ItemRow
            key={`${item.item_type} ${item.item_id}`}
            item={item}
            current={item.item_type === kind && item.item_id === id}
          />
        ))}
      </ul>
      {list.has_more ? (
        <p class="faint more">
          {count(list.items.length)}
          {list.total === undefined ? '' : ` of ${count(list.total)}`}{' '}
          <Button text="Show more" class="chip" onClick={() => void more()} />
        </p>
      ) : null}
    </>
  );
}

export function ItemsPage() {
  const [, kind, id] = route.value.parts;
  const results = useItems();
  const items = inOrder(results.list?.items ?? []);
  const step = (by: number) => {
    const at = items.findIndex((item) => item.item_type === kind && item.item_id === id);
    const next = items[at < 0 ? 0 : Math.max(0, Math.min(items.length - 1, at + by))];
    if (next) go(itemPath(next), { replace: id !== undefined });
  };
  useKeys({
    j: { says: 'next item', run: () => step(1) },
    k: { says: 'previous item', run: () => step(-1) },
    ArrowDown: { says: 'next item', run: () => step(1) },
    ArrowUp: { says: 'previous item', run: () => step(-1) },
    '/': { says: 'find an item', run: () => document.getElementById('item-search')?.focus() },
    Escape: { says: 'back to the list', run: () => go(withSearch('/items')) },
  });
  const isOne = kind !== undefined && id !== undefined;
  const Title = isOne ? 'h2' : 'h1';
  return (
    <main class={`two ${isOne ? 'has-one' : ''}`}>
      <section class="card pane stack list" aria-label="Items">
        <Title class="skip">Items</Title>
        <Search />
        <div class="scroll-y">
          <ItemList found={results} {...(isOne ? { kind, id } : {})} />
        </div>
      </section>
      {isOne ? (
        <ItemPane key={`${kind} ${id}`} kind={kind} id={id} />
      ) : (
        <section class="card pane stack nothing">
          <EmptyState
            title="No item selected"
            hint="Open an item from the list to see its rights and limits."
            command="km search"
          />
        </section>
      )}
    </main>
  );
}
