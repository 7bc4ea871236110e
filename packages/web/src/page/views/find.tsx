// Search dialog (`/`): one field for threads, approvals, items, and calls of the open thread.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ListedItem } from '../../model/api.ts';
import { count } from '../../model/format.ts';
import { get } from '../api.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { statusIcon } from '../parts/status.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link, pathOf, route } from '../router.tsx';
import { pending } from '../state/approvals.ts';
import { list } from '../state/threads.ts';

interface Hit {
  readonly to: string;
  readonly icon: IconName;
  readonly name: string;
  readonly about: string;
}
interface HitGroup {
  readonly title: string;
  readonly hits: readonly Hit[];
}

const SHOWN = 8;
const has = (text: string, find: string): boolean => text.toLowerCase().includes(find);

function threadHits(find: string): HitGroup {
  const hits = [...list.value.rows.values()]
    .filter(({ id, directive, now = '', title = '' }) =>
      [id, directive, now, title].some((text) => has(text, find)),
    )
    .map(({ id, directive, status, due, denied, failed }) => ({
      to: pathOf('t', id),
      icon: statusIcon(status, due > 0, { denied, failed }),
      name: directive,
      about: `${id} · ${status}`,
    }));
  const isId = /^[\w-]{6,80}$/.test(find) && !hits.some(({ about }) => about.startsWith(find));
  const direct: Hit = { to: pathOf('t', find), icon: 'way', name: find, about: 'open by its id' };
  return { title: 'Threads', hits: isId ? [...hits, direct] : hits };
}

const approvalHits = (find: string): HitGroup => ({
  title: 'Waits for you',
  hits: pending.value
    .filter(({ id, title, directive = '' }) =>
      [id, title, directive].some((text) => has(text, find)),
    )
    .map(({ id, title, directive = '' }) => ({
      to: pathOf('approvals', id),
      icon: 'ask' as const,
      name: title,
      about: directive,
    })),
});

async function itemHits(find: string, signal: AbortSignal): Promise<HitGroup> {
  const words = new URLSearchParams({ q: find }).toString();
  const answer = await get<{ items: readonly ListedItem[] }>(`items?${words}`, signal);
  const items = answer.ok ? answer.output.items : [];
  return {
    title: 'Items',
    hits: items.map(({ item_type, item_id, title = '' }) => ({
      to: pathOf('items', item_type, item_id),
      icon: 'item',
      name: item_id,
      about: `${item_type} ${title}`,
    })),
  };
}

/** The server searches the open thread. */
async function callHits(find: string, thread: string, signal: AbortSignal): Promise<HitGroup> {
  const words = new URLSearchParams({ q: find, limit: '20' }).toString();
  const answer = await get<{ seqs: readonly number[]; total: number; isComplete: boolean }>(
    `threads/${encodeURIComponent(thread)}/find?${words}`,
    signal,
  );
  if (!answer.ok) return { title: 'In this thread', hits: [] };
  const { seqs, total, isComplete } = answer.output;
  return {
    title: `In this thread ${isComplete ? count(total) : `first ${count(seqs.length)} of more`}`,
    hits: seqs.map((seq) => ({
      to: `${pathOf('t', thread)}?at=${seq}`,
      icon: 'tool',
      name: `event ${seq}`,
      about: '',
    })),
  };
}

function useHits(find: string): readonly HitGroup[] {
  const [results, setResults] = useState<readonly HitGroup[]>([]);
  const [word, thread] = route.value.parts;
  useEffect(() => {
    if (find === '') return undefined;
    const stop = new AbortController();
    const show = (groups: readonly HitGroup[]): void => {
      if (!stop.signal.aborted) setResults(groups);
    };
    const timer = setTimeout(() => {
      const calls = word === 't' && thread ? [callHits(find, thread, stop.signal)] : [];
      void Promise.all([itemHits(find, stop.signal), ...calls]).then(show);
    }, 180);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [find, word, thread]);
  if (find === '') return [];
  return [approvalHits(find), threadHits(find), ...results].filter(({ hits }) => hits.length > 0);
}

/** Arrow keys select a result. Enter in the field opens the first one. */
function walk(event: KeyboardEvent, box: HTMLElement | null): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step === undefined || !box) return;
  event.preventDefault();
  const stops = [...box.querySelectorAll<HTMLElement>('input, a')];
  const at = stops.findIndex((stop) => stop === document.activeElement);
  stops[Math.max(0, Math.min(stops.length - 1, at + step))]?.focus();
}

export function FindDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const box = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const groups = useHits(text.trim().toLowerCase());
  useEffect(() => field.current?.focus(), []);
  return (
    <Dialog title="Find" onClose={onClose} class="finder">
      <div ref={box} onKeyDown={(event) => walk(event, box.current)}>
        <input
          ref={field}
          type="search"
          aria-label="Find a thread, a call or an item"
          placeholder="a thread, a call, an item"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' && event.key !== 'Escape') return;
            event.preventDefault();
            // The first Escape would only clear the search field.
            if (event.key === 'Escape') onClose();
            else box.current?.querySelector('a')?.click();
          }}
        />
        {groups.map(({ title, hits }) => (
          <section key={title} aria-label={title} onClick={onClose}>
            <h3>{title}</h3>
            {hits.slice(0, SHOWN).map(({ to, icon, name, about }) => (
              <Link key={to} to={to} class="hit flex">
                <Icon name={icon} />
                <ForeignText text={name} class="cut" />
                <ForeignText text={about} class="cut faint" />
              </Link>
            ))}
            {hits.length > SHOWN ? (
              <p class="faint">{count(hits.length - SHOWN)} more; type more to narrow the search</p>
            ) : null}
          </section>
        ))}
        {text.trim() !== '' && groups.length === 0 ? <p class="faint">no results yet</p> : null}
      </div>
    </Dialog>
  );
}
