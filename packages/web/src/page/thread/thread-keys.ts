// The keys of the page of one thread. None of them stops, kills or approves.
import type { ThreadView } from '../../model/api.ts';
import { isTrouble } from '../../model/thread-sums.ts';
import { type KeyActs, useKeys } from '../keys.ts';
import { copyText } from '../parts/copy.tsx';
import { firstInSight } from '../parts/virtual-list.tsx';
import { go } from '../router.tsx';
import { list } from '../state/threads.ts';
import { reviewPath } from './due-bar.tsx';
import type { Sheet } from './header.tsx';
import { openTab, TABS, threadPath } from './place.ts';
import type { ShownRow } from './use-fold.ts';

interface KeyScene {
  readonly id: string;
  readonly view: ThreadView | undefined;
  readonly rows: readonly ShownRow[];
  readonly selected: number;
  select(entry: ShownRow | undefined): void;
  toggle(entry: ShownRow): void;
  unfoldTime(): void;
  follow(): void;
  pause(): void;
  message(): void;
  sheet(sheet: Sheet): void;
}

/** Returns the next denied, failed or waiting row in a direction. After the last row it starts again. */
function nextTrouble({ rows, selected }: KeyScene, step: 1 | -1): ShownRow | undefined {
  for (let tries = 1; tries <= rows.length; tries++) {
    const from = selected < 0 && step < 0 ? rows.length : selected;
    const index = (from + step * tries + rows.length * 2) % rows.length;
    const entry = rows[index];
    if (entry?.kind === 'row' && isTrouble(entry.row)) return entry;
  }
  return undefined;
}

/** Goes to the next or previous thread of the list. */
function neighbour(id: string, step: 1 | -1): void {
  const ids = [...list.value.rows.keys()];
  const next = ids[ids.indexOf(id) + step];
  if (ids.includes(id) && next !== undefined) go(threadPath(next));
}

function moves(scene: KeyScene): KeyActs {
  const { rows, selected, select } = scene;
  const move = (step: number) => () => {
    const at = selected < 0 ? firstInSight('Steps') : selected + step;
    const next = rows[Math.max(0, Math.min(rows.length - 1, at))];
    if (next) select(next);
  };
  const fold = (isOpen: boolean) => () => {
    const entry = rows[selected];
    if (entry?.kind === 'row' && entry.isOpen === isOpen) scene.toggle(entry);
  };
  const down = { says: 'next step', run: move(1) };
  const up = { says: 'previous step', run: move(-1) };
  return {
    j: down,
    k: up,
    ArrowDown: down,
    ArrowUp: up,
    e: { says: 'next denied or failed', run: () => select(nextTrouble(scene, 1)) },
    E: { says: 'previous denied or failed', run: () => select(nextTrouble(scene, -1)) },
    ArrowLeft: { says: 'fold', run: fold(true) },
    ArrowRight: { says: 'unfold', run: fold(false) },
    Escape: {
      says: 'go back',
      run: () => (selected >= 0 ? select(undefined) : go('/')),
    },
    '[': { says: 'previous thread', run: () => neighbour(scene.id, -1) },
    ']': { says: 'next thread', run: () => neighbour(scene.id, 1) },
  };
}

export function useThreadKeys(scene: KeyScene): void {
  const { id, view } = scene;
  const copyCommand = () => {
    const text = document.querySelector('.insp .command code')?.textContent;
    void copyText(text ?? `km threads show ${id}`);
  };
  const tabs = Object.fromEntries(
    TABS.map((tab, index) => [String(index + 1), { says: tab, run: () => openTab(tab) }]),
  );
  useKeys({
    ...moves(scene),
    ...tabs,
    z: { says: 'fold or unfold idle time', run: scene.unfoldTime },
    f: { says: 'follow the end', run: scene.follow },
    p: { says: 'pause or resume', run: scene.pause },
    m: { says: 'write a message', run: scene.message },
    a: {
      says: 'review the first approval request',
      run() {
        const [first] = view?.due ?? [];
        if (first) go(reviewPath(first));
      },
    },
    G: { says: 'show the provenance graph', run: () => scene.sheet('graph') },
    c: { says: 'copy the command', run: copyCommand },
    y: { says: 'copy the id', run: () => void copyText(id) },
  });
}
