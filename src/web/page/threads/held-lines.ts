// Nothing moves under the pointer: while somebody points at the list, has scrolled it or works in it with
// keys, lines keep their places. What came meanwhile is counted and waits; older threads that were asked
// for go below.
import { useRef, useState } from 'preact/hooks';
import type { ThreadLine } from '../../model/thread-lines.ts';

const idOf = (line: ThreadLine): string => (line.kind === 'thread' ? line.id : line.group);

/** `shown` as it is, with what `fresh` has below its last thread, and how many are new or stand elsewhere. */
export function holdLines(
  shown: readonly ThreadLine[],
  fresh: readonly ThreadLine[],
): { readonly lines: readonly ThreadLine[]; readonly news: number } {
  const places = new Map(shown.map((line) => [idOf(line), line]));
  const last = shown.at(-1);
  const end = last ? fresh.findIndex((line) => idOf(line) === idOf(last)) : -1;
  const below = end === -1 ? [] : fresh.slice(end + 1).filter((line) => !places.has(idOf(line)));
  const added = new Set(below);
  const groups = new Map<string, ThreadLine>();
  for (const line of fresh) if (line.kind === 'group') groups.set(line.group, line);
  const news = fresh.filter((line) => {
    if (line.kind === 'group' || added.has(line)) return false;
    const place = places.get(line.id);
    return place?.kind !== 'thread' || place.group !== line.group;
  }).length;
  const lines = shown.map((line) =>
    line.kind === 'group' ? (groups.get(line.group) ?? { ...line, threads: 0 }) : line,
  );
  return { lines: [...lines, ...below], news };
}

/** `key` says what was asked for: when a person changes that, lines may move, until all has been read. */
export function useHeldLines(fresh: readonly ThreadLine[], key: string, isLoading: boolean) {
  const [isHeld, setHeld] = useState({ pointer: false, scroll: false, focus: false });
  const kept = useRef<{ key: string; lines: readonly ThreadLine[] }>({ key: '', lines: [] });
  const readKey = useRef('');
  const isFree = !isHeld.pointer && !isHeld.scroll && !isHeld.focus;
  const isNew = kept.current.key !== key || readKey.current !== key;
  if (!isLoading) readKey.current = key;
  const { lines, news } =
    isFree || isNew ? { lines: fresh, news: 0 } : holdLines(kept.current.lines, fresh);
  kept.current = { key, lines };
  const set = (part: keyof typeof isHeld, value: boolean) => {
    if (isHeld[part] !== value) setHeld({ ...isHeld, [part]: value });
  };
  return {
    lines,
    news,
    /** Lets everything take its place now. */
    settle(): void {
      kept.current = { key: '', lines: [] };
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
