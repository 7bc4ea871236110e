// List of threads: those that wait for a person, those in progress, and ended ones. The address has
// its filters. Rows change their order only while the pointer is not on the list.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ListedItem, Totals } from '../../model/api.ts';
import { count } from '../../model/format.ts';
import {
  type ThreadGroup,
  type ThreadLine,
  threadLines,
  waitsForPerson,
} from '../../model/thread-lines.ts';
import { useKeys } from '../keys.ts';
import { Button } from '../parts/button.tsx';
import { EmptyState, ErrorState, LoadingRows, useResource } from '../parts/states.tsx';
import { VirtualList } from '../parts/virtual-list.tsx';
import { go, Link, pathOf, route, setQuery } from '../router.tsx';
import { useFleetFeed } from '../state/fleet.ts';
import { may, me } from '../state/session.ts';
import { list, loadMore, reloadThreads, useThreads } from '../state/threads.ts';
import { isNarrow } from '../theme.ts';
import { clearFilters, type ListFilter, ThreadFilters, useListWish } from '../threads/filters.tsx';
import { useFrozenLines } from '../threads/frozen-rows.ts';
import { NewChat } from '../threads/new-chat.tsx';
import { GroupCells, RunCells } from '../threads/run-row.tsx';

const totalOf = (totals: Totals, group: ThreadGroup): number =>
  ({ 'waits for you': totals.waits, 'in progress': totals.at_work, ended: totals.ended })[group];

/** Shown before the first run: a command, and the first directive that can run. */
function FirstRun() {
  const { answer } = useResource<{ items: readonly ListedItem[] }>('items?kind=directive');
  const directives = answer?.ok ? answer.output.items.filter((item) => !item.unavailable) : [];
  const demo = directives.find(({ item_id }) => /demo|hello/.test(item_id)) ?? directives[0];
  return (
    <EmptyState
      title="No thread has run yet"
      hint="Start one in a terminal, or from here."
      command="km run hello"
    >
      {demo && may('steer') ? (
        <Link to={`${pathOf('items', 'directive', demo.item_id)}?run=1`} class="btn strong">
          Start the demo
        </Link>
      ) : null}
    </EmptyState>
  );
}

function Head({ wish }: { wish: ListFilter }) {
  const { totals, directives } = list.value;
  return (
    <div class="head threads-head">
      <div class="title flex">
        <h1>Threads</h1>
        <span class="sums">
          <span class={totals.waits > 0 ? 'you' : 'dim'}>
            <b>{count(totals.waits)}</b> {totals.waits === 1 ? 'waits' : 'wait'} for you
          </span>
          <span class="dim">
            <b>{count(totals.at_work)}</b> in progress
          </span>
          <span class="dim">
            <b>{count(totals.ended)}</b> ended
          </span>
        </span>
      </div>
      <ThreadFilters directives={directives} wish={wish} />
      {may('steer') ? <NewChat /> : null}
      {may('steer') ? (
        <Link to="/items?kind=directive" class="btn">
          Run…
        </Link>
      ) : null}
    </div>
  );
}

/** Shows `50 of 1,210 · more below`. With a search text the total is the number of rows read so far. */
function Foot(props: { shown: number; wish: ListFilter; news: number; onNews: () => void }) {
  const { shown, wish, news, onNews } = props;
  const { totals, next_cursor, isLoading, rows } = list.value;
  const all = totals.waits + totals.at_work + totals.ended;
  const isMore = next_cursor !== undefined;
  const of = wish.isFiltered
    ? wish.find === ''
      ? ''
      : `of ${count(rows.size)} read`
    : `of ${count(all)}`;
  return (
    <p class="foot faint nowrap small flex">
      <span>
        {count(shown)} {of}
        {isMore ? (isLoading ? ' · reading more' : ' · more below') : ''}
      </span>
      {isMore && wish.find !== '' ? (
        <Button text="Load more" class="chip" onClick={loadMore} />
      ) : null}
      {news > 0 ? <Button text={`${count(news)} new`} class="chip news" onClick={onNews} /> : null}
      <span class="keys-hint">
        <kbd>j</kbd> <kbd>k</kbd> move · <kbd>Enter</kbd> open · <kbd>?</kbd> keys
      </span>
    </p>
  );
}

/** Selection of a thread in the list. It stays with its thread when lines move. */
function useSelection(lines: readonly ThreadLine[]) {
  const [id, setId] = useState(route.peek().query.get('at') ?? '');
  // Keys can arrive faster than frames, so each starts from the result of the previous one.
  const latest = useRef({ id, lines });
  latest.current.lines = lines;
  const indexOf = (threadId: string) =>
    latest.current.lines.findIndex((line) => line.kind === 'thread' && line.id === threadId);
  useEffect(() => {
    if (id === (route.peek().query.get('at') ?? '')) return undefined;
    const timer = setTimeout(() => setQuery({ at: id }), 400);
    return () => clearTimeout(timer);
  }, [id]);
  /** Selects the nearest thread from `to` on, in the direction of the move. */
  const select = (to: number) => {
    const all = latest.current.lines;
    const step = to < indexOf(latest.current.id) ? -1 : 1;
    for (const way of [step, -step]) {
      for (let at = to; at >= 0 && at < all.length; at += way) {
        const line = all[at];
        if (line?.kind !== 'thread') continue;
        latest.current.id = line.id;
        setId(line.id);
        return;
      }
    }
  };
  const move = (step: number) => {
    const at = indexOf(latest.current.id);
    select(at === -1 ? 0 : at + step);
  };
  return { index: indexOf(id), select, move };
}

function Lines(props: { wish: ListFilter }) {
  const { wish } = props;
  const { rows, totals, isLoading } = list.value;
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const fresh = useMemo(
    () => threadLines(rows, { hooks: wish.hooks, find: wish.find, turned }),
    [rows, wish.hooks, wish.find, turned],
  );
  const key = JSON.stringify([wish.asked, wish.find, wish.hooks, [...turned]]);
  const { lines, news, settle, hold } = useFrozenLines(fresh, key, isLoading);
  const { index, select, move } = useSelection(lines);
  const turn = (id: string) =>
    setTurned((last) => {
      const next = new Set(last);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  const fold = (isFolded: boolean) => {
    const line = lines[index];
    if (line?.kind === 'thread' && line.below > 0 && line.isFolded !== isFolded) turn(line.id);
  };
  const open = (at: number) => {
    const line = lines[at];
    if (line?.kind === 'thread') go(pathOf('t', line.id));
  };
  const walk = (step: number) => {
    document.querySelector<HTMLElement>('.threads .scroller')?.focus();
    move(step);
  };
  useKeys({
    j: { says: 'next thread', run: () => walk(1) },
    k: { says: 'previous thread', run: () => walk(-1) },
    Enter: { says: 'open the thread', run: () => open(index) },
    ArrowRight: { says: 'unfold', run: () => fold(false) },
    ArrowLeft: { says: 'fold', run: () => fold(true) },
    h: {
      says: 'show or hide hooks',
      run: () => setQuery({ hooks: wish.hooks ? undefined : 'yes' }),
    },
  });
  const runOf = (at: number) => {
    const line = lines[at];
    return line?.kind === 'thread' ? rows.get(line.id) : undefined;
  };
  const total = lines.reduce((sum, line) => sum + (line.kind === 'group' ? line.threads : 0), 0);
  return (
    <section class="card pane stack threads" aria-label="List of threads" {...hold}>
      <VirtualList
        label="Threads"
        count={lines.length}
        rowHeight={isNarrow.value ? 50 : 27}
        keyOf={(at) => keyOf(lines[at])}
        rowClass={(at) => classOf(lines[at], runOf(at))}
        depthOf={(at) => depthOf(lines[at])}
        {...(index === -1 ? {} : { selected: index })}
        onSelect={select}
        onOpen={open}
        onPick={open}
        onEnd={wish.find === '' ? loadMore : () => undefined}
        row={(at) => {
          const line = lines[at];
          if (line?.kind === 'group') {
            const total = wish.isFiltered ? line.threads : totalOf(totals, line.group);
            return <GroupCells line={line} total={total} />;
          }
          const run = runOf(at);
          if (!line || !run) return null;
          const currency = me.value?.currency ?? '';
          return (
            <RunCells line={line} run={run} currency={currency} onFold={() => turn(line.id)} />
          );
        }}
      />
      <Foot shown={total} wish={wish} news={news} onNews={settle} />
    </section>
  );
}

const keyOf = (line: ThreadLine | undefined): string =>
  line?.kind === 'thread' ? line.id : `group ${line?.group}`;
const depthOf = (line: ThreadLine | undefined): number =>
  line?.kind === 'thread' ? line.depth : 0;
function classOf(
  line: ThreadLine | undefined,
  run: Parameters<typeof waitsForPerson>[0] | undefined,
): string {
  if (line?.kind === 'group') return 'group';
  const yours = run && waitsForPerson(run) ? 'is-yours' : '';
  return `run-row ${yours} ${line?.group === 'ended' ? 'has-ended' : ''}`;
}

export function ThreadsView() {
  const filter = useListWish();
  useThreads(filter.asked);
  useFleetFeed();
  const { rows, isLoading, error, totals } = list.value;
  const isNone = rows.size === 0 && !isLoading && !error;
  const all = totals.waits + totals.at_work + totals.ended;
  return (
    <main class="page">
      <Head wish={filter} />
      {error ? <ErrorState error={error} again={reloadThreads} command="km threads ls" /> : null}
      {rows.size === 0 && isLoading ? (
        <div class="card pane stack threads">
          <LoadingRows rows={14} rowHeight={isNarrow.value ? 50 : 27} />
        </div>
      ) : null}
      {isNone && all === 0 ? <FirstRun /> : null}
      {isNone && all > 0 ? (
        route.value.query.size === 0 ? (
          <EmptyState title="All threads were pruned" hint="Run a directive to start a thread." />
        ) : (
          <EmptyState title="No thread matches the filters">
            <Button text="Show all" onClick={clearFilters} />
          </EmptyState>
        )
      ) : null}
      {rows.size > 0 ? <Lines wish={filter} /> : null}
    </main>
  );
}
