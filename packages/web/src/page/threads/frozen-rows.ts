// Keeps rows in place while the pointer is on the list, or the user has scrolled it or uses keys in
// it. New rows are counted and wait. Older threads on demand are added below.
import { useRef, useState } from 'preact/hooks';
import { holdLines, type ThreadLine } from '../../model/thread-lines.ts';

/** When the filter in `key` changes, lines may move until all rows have been read. */
export function useHeldLines(fresh: readonly ThreadLine[], key: string, isLoading: boolean) {
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
    /** Lets everything take its place now. */
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
