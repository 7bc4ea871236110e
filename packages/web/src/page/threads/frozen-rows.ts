// Keeps rows in place while the pointer is on the list, or the user has scrolled it or uses keys in
// it. New rows are counted and wait. Older threads on demand are added below.
import { useRef, useState } from 'preact/hooks';
import { holdLines, type ThreadLine } from '../../model/thread-lines.ts';

/** Returns the lines to show. After a change of the filter in `key`, lines move until all rows are read. */
export function useFrozenLines(fresh: readonly ThreadLine[], key: string, isLoading: boolean) {
  const [isHeld, setHeld] = useState({ pointer: false, scroll: false, focus: false });
  const cache = useRef<{ key: string; lines: readonly ThreadLine[] }>({ key: '', lines: [] });
  const readKey = useRef('');
  const isFree = !isHeld.pointer && !isHeld.scroll && !isHeld.focus;
  const isNew = cache.current.key !== key || readKey.current !== key;
  if (!isLoading) readKey.current = key;
  const { lines, news } =
    isFree || isNew ? { lines: fresh, news: 0 } : holdLines(cache.current.lines, fresh);
  cache.current = { key, lines };
  const set = (part: keyof typeof isHeld, value: boolean) => {
    if (isHeld[part] !== value) setHeld({ ...isHeld, [part]: value });
  };
  return {
    lines,
    news,
    /** Shows all rows in their current order. */
    settle(): void {
      cache.current = { key: '', lines: [] };
      setHeld({ ...isHeld, focus: false });
    },
    hold: {
      onPointerEnter: () => set('pointer', true),
      onPointerLeave: () => set('pointer', false),
      onFocusIn: () => set('focus', true),
      onFocusOut: () => set('focus', false),
      onScrollCapture: (event: Event) =>
        set('scroll', event.target instanceof HTMLElement && event.target.scrollTop > 4),
    },
  };
}
