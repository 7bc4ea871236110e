// Frame of every page and choice of its view. All views except the list are loaded on demand.
import { Component, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { isOver, type PageFault } from './api.ts';
import { connection, connectNow } from './connection.ts';
import { keysNow, listenToKeys, useKeys } from './keys.ts';
import { AppBar } from './parts/app-bar.tsx';
import { ConnectionBar } from './parts/connection-bar.tsx';
import { KeyHelp } from './parts/key-help.tsx';
import { Announcer, usePageTitle } from './parts/live-region.tsx';
import { EmptyState, ErrorState, LoadingRows } from './parts/states.tsx';
import { go, route } from './router.tsx';
import { useApprovals } from './state/approvals.ts';
import { me } from './state/session.ts';
import { useTotals } from './state/threads.ts';
import { nextTheme } from './theme.ts';
import { LoginPage } from './views/login.tsx';
import { ThreadsView } from './views/threads.tsx';

type Load<P = object> = () => Promise<ComponentType<P>>;

/** Loaders of the views, by the first word of the path. */
const VIEWS: Readonly<Record<string, Load>> = {
  t: async () => (await import('./views/thread.tsx')).ThreadPage,
  approvals: async () => (await import('./views/approvals.tsx')).ApprovalsPage,
  cost: async () => (await import('./views/cost.tsx')).CostPage,
  items: async () => (await import('./views/items.tsx')).ItemsPage,
  scripts: async () => (await import('./views/scripts.tsx')).ScriptsPage,
  memory: async () => (await import('./views/memory.tsx')).MemoryPage,
  schedules: async () => (await import('./views/schedules.tsx')).SchedulesPage,
  fleet: async () => (await import('./views/fleet.tsx')).FleetPage,
  health: async () => (await import('./views/health.tsx')).HealthPage,
};
const loadFind: Load<{ onClose: () => void }> = async () =>
  (await import('./views/find.tsx')).FindDialog;

/** Catches an exception of a view. The bar and the links still work. */
class ErrorBoundary extends Component<{ children: ComponentChildren }, { error?: PageFault }> {
  static override getDerivedStateFromError(error: unknown) {
    const message = error instanceof Error ? error.message : String(error);
    return { error: { code: 'page', detail: { message } } };
  }
  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <main>
        <ErrorState error={error} again={() => location.reload()} />
      </main>
    );
  }
}

/** Loads a part of the page. Returns undefined until it is loaded, and no `View` if that failed. */
function useLoaded<P>(name: string, load: Load<P> | undefined) {
  const [loaded, setLoaded] = useState<{ name: string; View?: ComponentType<P> }>();
  useEffect(() => {
    if (!load) return undefined;
    let isWanted = true;
    load().then(
      (View) => isWanted && setLoaded({ name, View }),
      () => isWanted && setLoaded({ name }),
    );
    return () => {
      isWanted = false;
    };
  }, [name]);
  return loaded?.name === name ? loaded : undefined;
}

const NOT_LOADED: PageFault = {
  code: 'unreachable',
  detail: { message: 'this part of the page cannot be loaded' },
};

function View() {
  const [word = ''] = route.value.parts;
  const loaded = useLoaded(word, Object.hasOwn(VIEWS, word) ? VIEWS[word] : undefined);
  if (word === '') return <ThreadsView />;
  if (word === 'login') return <LoginPage />;
  if (!Object.hasOwn(VIEWS, word)) {
    return (
      <main>
        <EmptyState title="Page not found" hint="Open a page from the menu." />
      </main>
    );
  }
  if (loaded?.View) return <loaded.View />;
  return (
    <main>
      {loaded ? <ErrorState error={NOT_LOADED} again={() => location.reload()} /> : <LoadingRows />}
    </main>
  );
}

const pageKeys = (find: () => void, help: () => void) => {
  const to = (path: string, says: string) => ({ says, run: () => go(path) });
  return {
    '/': { says: 'find a thread, a call, an item', run: find },
    '?': { says: 'show this list', run: help },
    'g t': to('/', 'go to threads'),
    'g a': to('/approvals', 'go to approvals'),
    'g c': to('/cost', 'go to cost'),
    'g i': to('/items', 'go to items'),
    'g s': to('/scripts', 'go to scripts'),
    'g m': to('/memory', 'go to memory'),
    'g d': to('/schedules', 'go to schedules'),
    'g h': to('/health', 'go to health'),
    ...(me.value?.fleet ? { 'g f': to('/fleet', 'go to the fleet') } : {}),
    t: { says: 'switch the theme: light, dark or system', run: nextTheme },
  };
};

/** App bar, view and announcements, for a page with a session. */
export function StreamFrame() {
  const [open, setOpen] = useState<'' | 'keys' | 'find'>('');
  const totals = useTotals();
  const { pending } = useApprovals();
  const due = Math.max(totals.due, pending.length);
  const { state, since, retry_at } = connection.value;
  const status = isOver.value ? 'over' : state;
  const find = useLoaded(open === 'find' ? 'find' : '', open === 'find' ? loadFind : undefined);
  const { path } = route.value;
  useKeys(
    pageKeys(
      () => setOpen('find'),
      () => setOpen('keys'),
    ),
    true,
  );
  useEffect(listenToKeys, []);
  useEffect(() => setOpen(''), [path]);
  usePageTitle(due);
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById('content')?.focus();
        }}
      >
        Skip to the content
      </a>
      <AppBar
        project={me.value?.project ?? ''}
        fleet={me.value?.fleet === true}
        counts={{ at_work: totals.at_work, due }}
        connection={status}
        onFind={() => setOpen('find')}
        onKeys={() => setOpen('keys')}
        onTheme={nextTheme}
      />
      <ConnectionBar
        state={status}
        since={since}
        retry={connectNow}
        {...(retry_at === undefined ? {} : { retryAt: retry_at })}
      />
      <div id="content" class={`view stack is-${status}`} tabIndex={-1}>
        <ErrorBoundary key={path.split('/')[1] ?? ''}>
          <View />
        </ErrorBoundary>
      </div>
      {open === 'keys' ? <KeyHelp keys={keysNow()} onClose={() => setOpen('')} /> : null}
      {open === 'find' && find?.View ? <find.View onClose={() => setOpen('')} /> : null}
      <Announcer />
    </>
  );
}
