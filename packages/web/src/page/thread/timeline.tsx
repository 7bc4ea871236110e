// Timeline of a thread: an axis that folds idle time, a virtual list of rows, marks of denied,
// failed and waiting rows, and a legend of the colours.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { SlimEvent, Tone } from '../../model/api.ts';
import { count, counted, seconds } from '../../model/format.ts';
import { isTrouble } from '../../model/thread-sums.ts';
import { createScale, scaleMarks, type TimelineScale } from '../../model/timeline-scale.ts';
import { Button } from '../parts/button.tsx';
import { EmptyState } from '../parts/states.tsx';
import { VirtualList } from '../parts/virtual-list.tsx';
import { type RowScene, rowClass, TimelineCells } from './timeline-row.tsx';
import type { ShownRow } from './use-fold.ts';

/** Number of row elements. They are reused while the user scrolls; fewer rows are visible at once. */
const POOL = 160;

const PHONE = matchMedia('(max-width: 760px)');

export function useIsPhone(): boolean {
  const [isPhone, setPhone] = useState(PHONE.matches);
  useEffect(() => {
    const onChange = () => setPhone(PHONE.matches);
    PHONE.addEventListener('change', onChange);
    return () => PHONE.removeEventListener('change', onChange);
  }, []);
  return isPhone;
}

/** Computes the scale again for new events, and once a second while the thread runs. */
export function useScale(
  events: readonly SlimEvent[],
  until: number,
  unfolded: boolean,
): TimelineScale {
  const times = useMemo(() => events.map(({ ts }) => ts), [events]);
  const from = times[0] ?? until;
  return useMemo(
    () => createScale(times, { from, to: until }, { unfolded }),
    [times, from, until, unfolded],
  );
}

const grid = (colour: string, place: string, width: string): string =>
  `linear-gradient(var(${colour}), var(${colour})) ${place} 0 / ${width} 100% no-repeat`;

/** Background of the lane: lines at the marks, hatching over folded time, and a line at the current time. */
function laneBackground(scale: TimelineScale, isAlive: boolean): string {
  const lines = scaleMarks(scale).map(({ left }) => grid('--line-soft', `${left}%`, '1px'));
  const folds = scale.stretches
    .filter(({ isFolded }) => isFolded)
    .map(({ left, right }) => {
      const width = right - left;
      const place = width >= 100 ? 0 : (left / (100 - width)) * 100;
      return `repeating-linear-gradient(115deg, var(--line) 0 1px, transparent 1px 4px) ${place}% 0 / ${width}% 100% no-repeat`;
    });
  return [...(isAlive ? [grid('--run-line', '100%', '1px')] : []), ...lines, ...folds].join(', ');
}

function Axis({ scale, isAlive }: { scale: TimelineScale; isAlive: boolean }) {
  const marks = scaleMarks(scale);
  const isLong = (marks.at(-1)?.ms ?? 0) >= 120_000;
  const text = (ms: number, isLast: boolean): string => {
    if (ms === 0) return '0';
    if (isLong) return seconds(ms / 1000);
    const value = ms < 1_000 ? ms / 1000 : Math.round(ms / 100) / 10;
    return isLast ? `${value} s` : String(value);
  };
  return (
    <div class="axis faint" aria-hidden="true">
      <span class="d t">at, s</span>
      <span>step</span>
      <span />
      <span class="d">took</span>
      <span class="ticks">
        {marks.map(({ left, ms }, index) => (
          <span key={ms} style={{ left: `${left}%` }}>
            {text(ms, index === marks.length - 1)}
          </span>
        ))}
        <span class={isAlive ? 'now' : 'now is-over'} style={{ left: '100%' }}>
          {isAlive ? 'now' : 'end'}
        </span>
      </span>
    </div>
  );
}

const KEYS = ['model', 'call', 'child', 'hook', 'wait'] as const;

function Legend(props: { events: number; isFolded: boolean; follow: boolean; onFollow(): void }) {
  return (
    <div class="foot faint nowrap small flex">
      {KEYS.map((key) => (
        <span key={key} class="k">
          <i class={`key-${key}`} />
          {key === 'wait' ? 'waits' : key}
        </span>
      ))}
      <Button class="plain" aria-pressed={props.follow} onClick={props.onFollow}>
        {props.follow ? 'Following the end' : 'Follow the end'} <kbd>f</kbd>
      </Button>
      <span class="end">
        {counted(props.events, 'event')}
        {props.isFolded ? ' · idle time folded' : ''}
      </span>
    </div>
  );
}

const seqOf = (entry: ShownRow | undefined): number =>
  entry?.kind === 'row' && entry.depth < 2 ? entry.row.seq : 0;

/** Counts new rows at the end since the end was visible. Earlier rows that load later do not count. */
function useFresh(rows: readonly ShownRow[], follow: boolean): number {
  const lastSeen = useRef(0);
  const last = seqOf(rows.findLast((entry) => seqOf(entry) > 0));
  if (follow || lastSeen.current === 0) lastSeen.current = last;
  if (last <= lastSeen.current) return 0;
  const at = rows.findLastIndex((entry) => seqOf(entry) > 0 && seqOf(entry) <= lastSeen.current);
  return rows.length - 1 - at;
}

/** True if the end is visible, so that new rows need no notice. */
function endInSight(box: HTMLDivElement | null): boolean {
  const scroller = box?.querySelector('.scroller');
  if (!scroller) return true;
  return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 28;
}

const markTone = (entry: ShownRow): Tone | undefined =>
  entry.kind === 'live' || (!isTrouble(entry.row) && entry.inside === undefined)
    ? undefined
    : entry.row.state === 'waits' || entry.row.state === 'unknown'
      ? 'you'
      : 'bad';

export function Timeline(props: {
  rows: readonly ShownRow[];
  scene: RowScene;
  events: number;
  selected: number;
  follow: boolean;
  onSelect(entry: ShownRow): void;
  onOpen(entry: ShownRow): void;
  onFollow(follow: boolean): void;
}) {
  const { rows, scene, selected, follow, onFollow } = props;
  const isPhone = useIsPhone();
  const box = useRef<HTMLDivElement>(null);
  const fresh = useFresh(rows, follow);
  const isEndInSight = endInSight(box.current);
  const marks = useMemo(
    () =>
      rows.flatMap((entry, index) => {
        const tone = markTone(entry);
        return tone === undefined ? [] : [{ index, tone }];
      }),
    [rows],
  );
  const at = (index: number) => rows[index];
  const isFolded = scene.scale.stretches.some((one) => one.isFolded);
  return (
    <div
      ref={box}
      class="timeline stack"
      style={{ '--lane-bg': laneBackground(scene.scale, scene.isAlive) }}
    >
      <Axis scale={scene.scale} isAlive={scene.isAlive} />
      {rows.length === 0 ? (
        <EmptyState title="No step matches the filter" hint="Select All to see every step." />
      ) : (
        <VirtualList
          label="Steps"
          count={rows.length}
          rowHeight={isPhone ? 40 : 27}
          keyOf={(index) => String(index % POOL)}
          row={(index) => {
            const entry = at(index);
            return entry ? <TimelineCells shown={entry} scene={scene} /> : null;
          }}
          rowClass={(index) => {
            const entry = at(index);
            return entry ? rowClass(entry, scene.isAlive) : '';
          }}
          depthOf={(index) => at(index)?.depth ?? 0}
          {...(selected >= 0 ? { selected } : {})}
          onSelect={(index) => {
            const entry = at(index);
            if (entry) props.onSelect(entry);
          }}
          onOpen={(index) => {
            const entry = at(index);
            if (entry) props.onOpen(entry);
          }}
          marks={marks}
          follow={follow}
          onFollow={onFollow}
        />
      )}
      {fresh > 0 && !isEndInSight ? (
        <Button text={`${count(fresh)} new ↓`} class="btn fresh" onClick={() => onFollow(true)} />
      ) : null}
      <Legend
        events={props.events}
        isFolded={isFolded}
        follow={follow}
        onFollow={() => onFollow(!follow)}
      />
    </div>
  );
}
