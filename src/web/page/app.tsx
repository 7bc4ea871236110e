// The frame of every page, and which view stands in it. Views other than the list are loaded when
// somebody goes there.
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { EmptyState } from './parts/states.tsx';
import { route } from './router.tsx';
import { ThreadsView } from './views/threads.tsx';

type Load = () => Promise<ComponentType>;

/** By the first word of the path. */
const VIEWS: Readonly<Record<string, Load>> = {
  t: async () => (await import('./views/thread.tsx')).ThreadPage,
  approvals: async () => (await import('./views/approvals.tsx')).ApprovalsPage,
  cost: async () => (await import('./views/cost.tsx')).CostPage,
  items: async () => (await import('./views/items.tsx')).ItemsPage,
  scripts: async () => (await import('./views/scripts.tsx')).ScriptsPage,
  health: async () => (await import('./views/health.tsx')).HealthPage,
  login: async () => (await import('./views/login.tsx')).LoginPage,
};

export function App() {
  const [word = ''] = route.value.parts;
  const [view, setView] = useState<{ word: string; View: ComponentType }>();
  useEffect(() => {
    const load = VIEWS[word];
    if (load) void load().then((View) => setView({ word, View }));
  }, [word]);
  if (word === '') return <ThreadsView />;
  if (!VIEWS[word]) return <EmptyState title="There is no such page" hint="Threads are at /" />;
  return view?.word === word ? <view.View /> : null;
}
