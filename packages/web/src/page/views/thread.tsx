// Page of one thread: pending approval requests, rights, effects and refusals, cost, and the
// timeline. One fold of the events computes all parts.
import { useMemo, useState } from 'preact/hooks';
import type { ListedRun, ThreadView } from '../../model/api.ts';
import type { FoldedThread } from '../../model/fold-thread.ts';
import { count } from '../../model/format.ts';
import { type EffectTotals, type RowFilter, sumRows } from '../../model/thread-sums.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { connection } from '../connection.ts';
import { Button } from '../parts/button.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { now } from '../parts/figures.tsx';
import { Icon } from '../parts/icons.tsx';
import { JsonView } from '../parts/json-view.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { go, Link, route } from '../router.tsx';
import { me } from '../state/session.ts';
import { type FollowedThread, useThread } from '../state/thread.ts';
import { CostCard, DeedsCard, RightsCard } from '../thread/answers.tsx';
import { Composer } from '../thread/composer.tsx';
import { Conversation } from '../thread/conversation.tsx';
import { CostTab } from '../thread/cost-tab.tsx';
import { Provenance } from '../thread/decision.tsx';
import { DueBar } from '../thread/due-bar.tsx';
import { EventsTab } from '../thread/events-tab.tsx';
import { ForkSheet } from '../thread/fork-sheet.tsx';
import { isEndedStatus, type Sheet, ThreadDock, ThreadHeader } from '../thread/header.tsx';
import { Inspector } from '../thread/inspector.tsx';
import { useOpenedChildren } from '../thread/opened-children.tsx';
import {
  openTab,
  placeIn,
  selectEvent,
  setFilter,
  TABS,
  type ThreadPlace,
  type ThreadTab,
  threadPath,
} from '../thread/place.ts';
import { RaiseSheet } from '../thread/raise-sheet.tsx';
import { RightsTab } from '../thread/rights-tab.tsx';
import { MoreDialog, ReplayDialog, StopDialog } from '../thread/sheets.tsx';
import { useActing } from '../thread/thread-actions.ts';
import { useThreadKeys } from '../thread/thread-keys.ts';
import { Timeline, useScale } from '../thread/timeline.tsx';
import type { RowScene } from '../thread/timeline-row.tsx';
import {
  MANY_ROWS,
  rowOfEvent,
  type ShownRow,
  shownRows,
  useFold,
  useSettled,
} from '../thread/use-fold.ts';

const TAB_NAMES: Readonly<Record<ThreadTab, string>> = {
  timeline: 'Timeline',
  conversation: 'Conversation',
  rights: 'Rights',
  cost: 'Cost',
  events: 'Events',
};

function Chips({ sums, filter }: { sums: EffectTotals; filter: RowFilter | undefined }) {
  const chip = (name: RowFilter | undefined, text: string, tone = '') => (
    <Button
      class={`chip ${tone}`}
      aria-pressed={filter === name}
      onClick={() => setFilter(filter === name ? undefined : name)}
    >
      {tone === 'bad' ? <Icon name="no" /> : null}
      {text}
    </Button>
  );
  return (
    <fieldset class="chips">
      <legend class="unseen">Show only</legend>
      {chip(undefined, 'All')}
      {sums.denied > 0 ? chip('denied', `${count(sums.denied)} denied`, 'bad') : null}
      {sums.failed > 0 ? chip('failed', `${count(sums.failed)} failed`, 'bad') : null}
      {sums.writes > 0 ? chip('writes', `Writes ${count(sums.writes)}`) : null}
      {sums.hooks > 0 ? chip('hooks', `Hooks ${count(sums.hooks)}`) : null}
      {sums.untrusted > 0 ? chip('untrusted', `Untrusted ${count(sums.untrusted)}`) : null}
    </fieldset>
  );
}

const Tabs = ({ place }: { place: ThreadPlace }) => (
  <div class="tabs" role="tablist" aria-label="Thread">
    {TABS.map((tab) => (
      <Button
        text={TAB_NAMES[tab]}
        key={tab}
        class=""
        role="tab"
        aria-selected={place.tab === tab}
        onClick={() => openTab(tab)}
      />
    ))}
  </div>
);

/** End of the time axis of the thread: now, its end, or the loss of the connection. */
function useUntil(view: ThreadView | undefined, folded: FoldedThread): [number, boolean] {
  const thread = view?.thread;
  const { state, since } = connection.value;
  const isEnded = thread === undefined || isEndedStatus(thread.status);
  const rests = thread?.status === 'paused' || thread?.status === 'interrupted';
  if (isEnded || rests) {
    const last = thread?.ended ?? folded.ended ?? thread?.updated ?? 0;
    return [last > 0 ? last : Date.now(), false];
  }
  return state === 'lost' || state === 'over' ? [since, true] : [now.value, true];
}

interface ThreadParts {
  readonly view: ThreadView;
  readonly live: FollowedThread;
  readonly folded: FoldedThread;
  readonly sums: EffectTotals;
  readonly place: ThreadPlace;
  readonly rows: readonly ShownRow[];
  readonly selected: number;
  readonly scene: RowScene;
  readonly currency: string;
  readonly follow: boolean;
  setFollow(follow: boolean): void;
  select(entry: ShownRow | undefined): void;
  selectSeq(seq: number | undefined): void;
}

function TabBody(parts: ThreadParts) {
  const { view, live, folded, place, rows, scene, currency, selectSeq } = parts;
  const { id } = view.thread;
  switch (place.tab) {
    case 'conversation':
      return (
        <Conversation
          id={id}
          events={live.events}
          rows={folded.rows}
          text={live.text}
          follow={parts.follow}
          onFollow={parts.setFollow}
          onSelect={selectSeq}
        />
      );
    case 'rights':
      return <RightsTab view={view} rows={folded.rows} onSelect={selectSeq} />;
    case 'cost':
      return <CostTab view={view} rows={folded.rows} currency={currency} onSelect={selectSeq} />;
    case 'events':
      return (
        <EventsTab
          id={id}
          events={live.events}
          at={place.at}
          isWhole={live.isWhole}
          onSelect={selectSeq}
          onBefore={live.loadBefore}
        />
      );
    case 'timeline':
      return folded.rows.length === 0 ? (
        live.isLoading || view.thread.seq > live.events.length ? (
          <LoadingRows rows={12} />
        ) : (
          <EmptyState title="The thread has not started" hint="Its rights are listed above." />
        )
      ) : (
        <Timeline
          rows={rows}
          scene={scene}
          events={folded.events}
          selected={parts.selected}
          follow={parts.follow}
          onSelect={parts.select}
          onOpen={scene.onToggle}
          onFollow={parts.setFollow}
        />
      );
  }
}

/** Returns the selected row, even if it is folded. The tab of raw events has none. */
function stepOf({ place, rows, selected, folded }: ThreadParts): TimelineEntry | undefined {
  if (place.tab === 'events') return undefined;
  const row = selected < 0 ? undefined : rows[selected];
  if (row?.kind === 'row') return row.row;
  const { at } = place;
  if (at === undefined) return undefined;
  return folded.rows.find(
    ({ seq, result, denials }) => seq === at || result === at || denials.includes(at),
  );
}

/** `isTalk`: the conversation has the whole width while no step is selected. */
function Work({ isTalk, ...parts }: ThreadParts & { isTalk: boolean }) {
  const { live, folded, sums, place, currency, selectSeq } = parts;
  const isBeginningMissing = !live.isWhole && live.events.length > 0;
  return (
    <div class="work">
      <section class="card pane stack" aria-label={TAB_NAMES[place.tab]}>
        <div class="bar flex">
          <Tabs place={place} />
          {place.tab === 'timeline' ? <Chips sums={sums} filter={place.filter} /> : null}
        </div>
        {isBeginningMissing && place.tab !== 'events' ? (
          <p class="partial dim small">
            from event {count(live.events[0]?.seq ?? 0)} on{' '}
            <Button text="load earlier events" class="more-link" onClick={live.loadBefore} />
          </p>
        ) : null}
        {live.error && live.view ? <ErrorState error={live.error} again={live.again} /> : null}
        <TabBody {...parts} />
      </section>
      {isTalk && place.at === undefined ? null : (
        <Inspector
          thread={place.within}
          seq={place.at}
          row={stepOf(parts)}
          rows={folded.rows}
          events={live.events}
          currency={currency}
          onSelect={selectSeq}
        />
      )}
    </div>
  );
}

/** State of folded turns and opened children. The address has the rest of the selection. */
function useRows(id: string, live: FollowedThread, folded: FoldedThread, place: ThreadPlace) {
  const [turned, setTurned] = useState<ReadonlySet<number>>(new Set<number>());
  const opened = useOpenedChildren();
  const areClosed = folded.rows.length > MANY_ROWS;
  const rows = useMemo(() => {
    const options = { filter: place.filter, turned, areClosed, children: opened.children };
    const visible = shownRows(folded.rows, id, options);
    if (live.text !== '' && place.filter === undefined) {
      visible.push({ kind: 'live', thread: id, depth: 1, text: live.text });
    }
    return visible;
  }, [folded, id, place.filter, turned, areClosed, opened.children, live.text]);
  const toggle = (entry: ShownRow) => {
    if (entry.kind === 'live') return;
    const { seq, kind, thread } = entry.row;
    if (kind === 'child' && thread !== undefined) opened.toggle(thread);
    if (kind !== 'turn') return;
    const after = new Set(turned);
    if (!after.delete(seq)) after.add(seq);
    setTurned(after);
  };
  return { rows, toggle, readers: opened.readers };
}

function Sheets(props: {
  sheet: Sheet | undefined;
  shown: ThreadParts;
  acting: ReturnType<typeof useActing>;
  onSheet: (sheet: Sheet | undefined) => void;
}) {
  const { sheet, shown, acting, onSheet } = props;
  const { view, folded, place, currency } = shown;
  const close = () => onSheet(undefined);
  if (sheet === 'stop') {
    return <StopDialog view={view} rows={folded.rows} acting={acting} onClose={close} />;
  }
  if (sheet === 'raise') {
    return <RaiseSheet view={view} acting={acting} currency={currency} onClose={close} />;
  }
  if (sheet === 'fork') return <ForkSheet view={view} acting={acting} onClose={close} />;
  if (sheet === 'replay') return <ReplayDialog view={view} acting={acting} onClose={close} />;
  if (sheet === 'more') {
    return <MoreDialog view={view} acting={acting} onSheet={onSheet} onClose={close} />;
  }
  if (sheet !== 'graph' || place.at === undefined) return null;
  return (
    <Dialog title="Provenance" class="wide-dialog" onClose={close}>
      <Provenance
        id={place.within}
        seq={place.at}
        argument={undefined}
        onSelect={(seq) => {
          close();
          shown.selectSeq(seq);
        }}
      />
    </Dialog>
  );
}

const runsById = (runs: readonly ListedRun[]): ReadonlyMap<string, ListedRun> =>
  new Map(runs.map((run) => [run.id, run]));

/** Summary of rights, effects and cost beside the timeline. */
function Answers({
  view,
  folded,
  sums,
  currency,
  selectSeq,
  onRaise,
}: ThreadParts & { onRaise(): void }) {
  return (
    <div class="answers">
      <RightsCard rights={view.rights} onAll={() => openTab('rights')} />
      <DeedsCard
        rows={folded.rows}
        sums={sums}
        onTarget={selectSeq}
        onAll={() => go(threadPath(view.thread.id))}
      />
      <CostCard
        thread={view.thread}
        rows={folded.rows}
        below={view.children}
        currency={currency}
        onRaise={onRaise}
      />
    </div>
  );
}

/** Outputs and last reply of the thread. They come first, because a reader of an ended run needs them. */
function Outcome({ view }: { view: ThreadView }) {
  const { outputs, reply } = view;
  if (outputs === undefined && reply === undefined) return null;
  const isEnded = isEndedStatus(view.thread.status);
  return (
    <section class="card outcome" tabIndex={0} aria-label={isEnded ? 'Result' : 'Last reply'}>
      {outputs === undefined ? null : (
        <>
          <h2>Outputs</h2>
          <JsonView value={outputs} />
        </>
      )}
      {reply === undefined ? null : (
        <>
          <h2>{isEnded ? 'Last reply' : 'Last reply so far'}</h2>
          <ForeignText text={reply} />
        </>
      )}
    </section>
  );
}

/** Shown for a thread that was pruned or never existed. A retry cannot help. */
function Gone({ isPruned }: { isPruned: boolean }) {
  return (
    <EmptyState
      title={isPruned ? 'This thread was pruned' : 'Thread not found'}
      hint={
        isPruned
          ? 'Its journal was deleted. Its cost still counts.'
          : 'This project has no thread with this id.'
      }
      command="km threads ls"
    >
      <Link to="/" class="btn">
        Show all threads
      </Link>
    </EmptyState>
  );
}

function NotYet({ live }: { live: FollowedThread }) {
  const { error, again } = live;
  return (
    <main class="thread-page">
      {error?.code === 'not_found' ? (
        <Gone isPruned={error.detail['pruned'] === true} />
      ) : error ? (
        <ErrorState error={error} again={again} />
      ) : (
        <LoadingRows rows={14} />
      )}
    </main>
  );
}

function Thread({ id }: { id: string }) {
  const read = useThread(id);
  const events = useSettled(read.events);
  const live = { ...read, events };
  const { view } = live;
  const folded = useFold(events);
  const sums = useMemo(() => sumRows(folded.rows), [folded]);
  const isChat = view?.thread.runner === 'chat';
  const place = placeIn(id, isChat ? 'conversation' : 'timeline');
  // In a chat, the conversation has the whole page.
  const isTalk = isChat && place.tab === 'conversation';
  const { rows, toggle, readers } = useRows(id, live, folded, place);
  const [wished, setFollow] = useState<boolean>();
  const [isUnfolded, setUnfolded] = useState(false);
  const [sheet, setSheet] = useState<Sheet>();
  const [isSaying, setSaying] = useState(false);
  const acting = useActing(id, view, events);
  const [until, isAlive] = useUntil(view, folded);
  const scale = useScale(events, until, isUnfolded);
  // A running thread is followed from the start, unless the address selects a step.
  const follow = wished ?? (isAlive && place.at === undefined);
  const children = useMemo(() => runsById(view?.children ?? []), [view?.children]);
  const currency = me.value?.currency ?? '';
  const troubles = {
    denied: Math.max(view?.thread.denied ?? 0, sums.denied),
    failed: Math.max(view?.thread.failed ?? 0, sums.failed),
  };
  const selected = useMemo(
    () => (place.at === undefined ? -1 : rowOfEvent(rows, place.within, place.at)),
    [rows, place.at, place.within],
  );
  const select = (entry: ShownRow | undefined) => {
    if (entry?.kind === 'live') return;
    if (entry) setFollow(false);
    selectEvent(id, entry?.row.seq, entry?.thread);
  };
  const pause = () => {
    const act = view?.acts.includes('resume') ? 'resume' : 'pause';
    if (acting.why(act) === undefined && !acting.isBusy(act)) void acting.send(act, {});
  };
  useThreadKeys({
    id,
    view,
    rows,
    selected,
    select,
    toggle,
    unfoldTime: () => setUnfolded(!isUnfolded),
    follow: () => setFollow(!follow),
    pause,
    message: () => setSaying(true),
    sheet: setSheet,
  });
  if (!view) return <NotYet live={live} />;
  const scene = { scale, until, isAlive, currency, children, onToggle: toggle };
  const selectSeq = (seq: number | undefined) => selectEvent(id, seq);
  const parts: ThreadParts = {
    view,
    live,
    folded,
    sums,
    place,
    rows,
    selected,
    scene,
    currency,
    follow,
    setFollow,
    select,
    selectSeq,
  };
  const acts = {
    view,
    acting,
    onPause: pause,
    onMessage: () => setSaying(true),
    onSheet: setSheet,
  };
  const isStale = connection.value.state === 'lost' || connection.value.state === 'over';
  return (
    <>
      <main class={`thread-page ${isTalk ? 'is-talk' : ''} ${isStale ? 'is-stale' : ''}`}>
        <ThreadHeader {...acts} troubles={troubles} until={until} />
        <DueBar approvals={view.due} thread={id} />
        {isTalk ? null : (
          <>
            <Outcome view={view} />
            <Answers {...parts} onRaise={() => setSheet('raise')} />
          </>
        )}
        <Work {...parts} isTalk={isTalk} />
        {isSaying || isChat ? (
          <Composer
            view={view}
            acting={acting}
            currency={currency}
            onClose={() => setSaying(false)}
            onRaise={() => setSheet('raise')}
          />
        ) : null}
      </main>
      <ThreadDock {...acts} />
      {readers}
      <Sheets sheet={sheet} shown={parts} acting={acting} onSheet={setSheet} />
    </>
  );
}

export function ThreadPage() {
  const [, id = ''] = route.value.parts;
  return id === '' ? (
    <EmptyState title="No thread selected" hint="Open a thread from the list." />
  ) : (
    <Thread key={id} id={id} />
  );
}
