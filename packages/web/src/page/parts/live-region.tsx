// Announcements for people who do not look at the page: the title of the tab, and a polite line for
// screen readers. They contain names and codes, never text of a model, so a model cannot write them.
import { useEffect, useState } from 'preact/hooks';
import type { ListedApproval, ListedRun } from '../../model/api.ts';
import { waitsForPerson } from '../../model/thread-lines.ts';
import { route } from '../router.tsx';
import { onApprovals } from '../state/approvals.ts';
import { me } from '../state/session.ts';
import { list, onRows } from '../state/threads.ts';
import { statusWord, troubleWords } from './status.tsx';

const EVERY_MS = 5000;
const TITLES: Readonly<Record<string, string>> = {
  '': 'Threads',
  approvals: 'Approvals',
  cost: 'Cost',
  fleet: 'Fleet',
  items: 'Items',
  memory: 'Memory',
  scripts: 'Scripts',
  health: 'Health',
  login: 'Login',
};
const ENDS = new Set(['completed', 'failed', 'limit', 'denied', 'aborted', 'terminated', 'killed']);

/** A valid name is short and plain. Others are not announced. */
const nameIn = (text: string): string | undefined => /^[\w.:/-]{1,60}(?=\s|$)/.exec(text)?.[0];

function threadTitle(id: string, row: ListedRun | undefined): string {
  if (!row) return nameIn(id) ?? 'Thread';
  const name = nameIn(row.directive) ?? 'Thread';
  const state = waitsForPerson(row) ? 'waits for you' : statusWord(row.status);
  return `${name} · ${[state, troubleWords(row)].filter(Boolean).join(', ')}`;
}

/** Sets the title, such as `(2) nightly_incidents · waits for you, 2 denied · ops-reports`. */
export function usePageTitle(due: number): void {
  const [word = '', id = ''] = route.value.parts;
  const row = word === 't' ? list.value.rows.get(id) : undefined;
  const name = word === 't' ? threadTitle(id, row) : (TITLES[word] ?? 'kernmantle');
  const project = me.value?.project ?? 'kernmantle';
  const title = `${due > 0 ? `(${due}) ` : ''}${name} · ${project}`;
  useEffect(() => {
    document.title = title;
  }, [title]);
}

/** Selects the changes of rows and approvals that are announced. */
function createNews() {
  const statuses = new Map<string, string>();
  const waiting = new Set<string>();
  let isFirst = true;
  return {
    ofRows: (rows: readonly ListedRun[]): string[] =>
      rows.flatMap(({ id, status, depth, kind, directive }) => {
        const before = statuses.get(id);
        statuses.set(id, status);
        const isEnd = before !== undefined && before !== status && ENDS.has(status);
        if (!isEnd || depth > 0 || kind === 'hook') return [];
        return [`${nameIn(directive) ?? 'a thread'} ${statusWord(status)}`];
      }),
    ofApprovals(approvals: readonly ListedApproval[]): string[] {
      const fresh = approvals.filter(({ id, state }) => state === 'pending' && !waiting.has(id));
      for (const { id } of fresh) waiting.add(id);
      const wasFirst = isFirst;
      isFirst = false;
      if (wasFirst) return [];
      return fresh.map(({ title, kind }) => `waits for you: ${nameIn(title) ?? kind}`);
    },
  };
}

/** Announces at most once in 5 s. Changes in between are announced together. */
export function Announcer() {
  const [announcement, setAnnouncement] = useState('');
  useEffect(() => {
    const news = createNews();
    let waits: string[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const announce = () => {
      timer = undefined;
      if (waits.length === 0) return;
      setAnnouncement(waits.length > 3 ? `${waits.length} changes` : waits.join(', '));
      waits = [];
      timer = setTimeout(announce, EVERY_MS);
    };
    const add = (lines: readonly string[]) => {
      waits.push(...lines);
      if (timer === undefined) announce();
    };
    const ends = [
      onRows((rows) => add(news.ofRows(rows))),
      onApprovals((approvals) => add(news.ofApprovals(approvals))),
    ];
    return () => {
      clearTimeout(timer);
      for (const end of ends) end();
    };
  }, []);
  return (
    <div class="unseen" aria-live="polite">
      {announcement}
    </div>
  );
}
