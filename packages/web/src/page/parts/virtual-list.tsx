// A list that renders only the visible rows. All rows have the same height, so a position is a
// product and 10,000 rows cost as much as 40. It is a grid with a focused row; screen readers get
// the number of rows.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Tone } from '../../model/api.ts';

const SPARE = 4;

interface VirtualListProps {
  readonly label: string;
  readonly count: number;
  readonly rowHeight: number;
  /** Returns the cells of a row. Each needs `role="gridcell"`. */
  row(index: number): ComponentChildren;
  keyOf(index: number): string;
  rowClass?(index: number): string;
  /** Indentation of a row. CSS reads it as `--in`. */
  depthOf?(index: number): number;
  readonly selected?: number;
  /** Called by click (unless `onPick` exists), arrows, Home, End, PageUp and PageDown. */
  onSelect?(index: number): void;
  onOpen?(index: number): void;
  /** Called by a click on the row, except on a link or button in it, or while text is selected. */
  onPick?(index: number): void;
  /** Rows with a mark on the rail at the right. A click on it scrolls to the row. */
  readonly marks?: readonly { readonly index: number; readonly tone: Tone }[];
  /** Keeps the end in sight; the first scroll up calls `onFollow(false)`. */
  readonly follow?: boolean;
  onFollow?(follow: boolean): void;
  /** Called when the last row comes near. */
  onEnd?(): void;
  readonly class?: string;
}

/** Returns the nearest scroll position at which the row `index` is visible. */
function scrollFor(index: number, rowHeight: number, top: number, height: number): number {
  const start = index * rowHeight;
  if (start < top) return start;
  return start + rowHeight > top + height ? start + rowHeight - height : top;
}

/** Returns the index of the first fully visible row, for keys that other views handle. */
export function firstInSight(list: string): number {
  const box = document.querySelector(`.scroller[aria-label="${list}"]`);
  if (!box) return 0;
  const top = box.getBoundingClientRect().top - 1;
  const row = [...box.querySelectorAll('[role=row]')].find(
    (one) => one.getBoundingClientRect().top >= top,
  );
  return Math.max(0, Number(row?.getAttribute('aria-rowindex') ?? 1) - 1);
}

const MOVES: Readonly<Record<string, (at: number, page: number, last: number) => number>> = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  PageDown: (at, page) => at + page,
  PageUp: (at, page) => at - page,
  Home: () => 0,
  End: (_at, _page, last) => last,
};

/** Computes the visible rows of the scrolled box. */
function useWindow({ count, rowHeight, follow, onFollow, onEnd }: VirtualListProps) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const followTop = useRef(-1);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    measure();
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    const element = box.current;
    if (!follow || !element) return;
    element.scrollTop = element.scrollHeight;
    followTop.current = element.scrollTop;
  }, [follow, count, view.height]);
  const onScroll = () => {
    const element = box.current;
    if (!element) return;
    const { scrollTop: top } = element;
    if (follow && top < followTop.current - rowHeight) onFollow?.(false);
    // Renders only after a scroll by whole rows, and never forces a layout.
    const whole = Math.floor(top / rowHeight) * rowHeight;
    setView((last) => (last.top === whole ? last : { ...last, top: whole }));
    if (top + view.height > (count - SPARE) * rowHeight) onEnd?.();
  };
  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + SPARE);
  return { box, view, first, last, onScroll };
}

export function VirtualList(props: VirtualListProps) {
  const { count, rowHeight, selected, onSelect, onOpen, label } = props;
  const { box, view, first, last, onScroll } = useWindow(props);
  const id = useId();
  const shownSelected = useRef<number | undefined>(undefined);
  useEffect(() => {
    const element = box.current;
    if (!element || selected === undefined || selected === shownSelected.current) return;
    shownSelected.current = selected;
    element.scrollTop = scrollFor(selected, rowHeight, element.scrollTop, element.clientHeight);
  }, [selected, rowHeight]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.metaKey || event.ctrlKey || event.altKey || event.target !== box.current) return;
    if (event.key === 'Enter' && selected !== undefined && onOpen) {
      event.preventDefault();
      onOpen(selected);
      return;
    }
    const move = MOVES[event.key];
    if (!move || !onSelect || count === 0) return;
    event.preventDefault();
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    // Without a selection the keys start at the first visible row.
    const start = Math.ceil(view.top / rowHeight) - 1;
    const next = move(selected ?? start, page, count - 1);
    onSelect(Math.max(0, Math.min(count - 1, next)));
  };
  const isShown = selected !== undefined && selected >= first && selected < last;
  return (
    <div class={`rows ${props.class ?? ''}`}>
      <div
        ref={box}
        class="scroller"
        role="grid"
        aria-label={label}
        aria-rowcount={count}
        {...(isShown ? { 'aria-activedescendant': `${id}-${selected}` } : {})}
        // biome-ignore lint: a grid takes the focus, its rows do not
        tabIndex={0}
        onScroll={onScroll}
        onKeyDown={onKeyDown}
      >
        <div class="sizer" role="presentation" style={{ height: `${count * rowHeight}px` }}>
          <div
            role="presentation"
            class="slice"
            style={{ transform: `translateY(${first * rowHeight}px)` }}
          >
            {Array.from({ length: Math.max(0, last - first) }, (_, at) => (
              <Row key={props.keyOf(first + at)} list={props} index={first + at} id={id} />
            ))}
          </div>
        </div>
      </div>
      <Rail list={props} box={box} height={view.height} />
    </div>
  );
}

function Row({ list, index, id }: { list: VirtualListProps; index: number; id: string }) {
  const depth = list.depthOf?.(index) ?? 0;
  return (
    <div
      id={`${id}-${index}`}
      role="row"
      class={`row ${list.rowClass?.(index) ?? ''}`}
      style={{ height: `${list.rowHeight}px`, ...(depth > 0 ? { '--in': String(depth) } : {}) }}
      aria-rowindex={index + 1}
      aria-selected={list.selected === index}
      onClick={({ target }) => {
        if (target instanceof Element && target.closest('a, button, input')) return;
        if (document.getSelection()?.isCollapsed === false) return;
        (list.onPick ?? list.onSelect)?.(index);
      }}
    >
      {list.row(index)}
    </div>
  );
}

/**
 * Rail of marks for the whole list in the height of the box. If all rows are visible, each mark is
 * beside its row. Marks fall into at most 200 positions, which bounds the number of elements.
 */
function Rail(props: {
  list: VirtualListProps;
  box: { current: HTMLDivElement | null };
  height: number;
}) {
  const { list, box, height } = props;
  const { marks = [], count, rowHeight } = list;
  if (marks.length === 0) return null;
  const share = Math.min(1, (count * rowHeight) / Math.max(1, height));
  const places = new Map<number, (typeof marks)[number]>();
  for (const mark of marks) {
    const place = Math.floor(((mark.index + 0.5) / Math.max(1, count)) * 200);
    if (!places.has(place)) places.set(place, mark);
  }
  return (
    <div class="rail" aria-hidden="true">
      {[...places].map(([place, { index, tone }]) => (
        <i
          key={place}
          class={`mark-${tone}`}
          style={{ top: `${(place / 2) * share}%` }}
          onClick={() => {
            if (box.current) box.current.scrollTop = (index - 4) * rowHeight;
            list.onSelect?.(index);
          }}
        />
      ))}
    </div>
  );
}
