// Entry of the page. It shows the app with a session, and only the login without one.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { PageFault } from './api.ts';
import { StreamFrame } from './app.tsx';
import { connection, connectNow } from './connection.ts';
import { ErrorState } from './parts/states.tsx';
import { go, route } from './router.tsx';
import { loadMe, me, openSession, takeLinkToken } from './state/session.ts';
import { reloadThreads } from './state/threads.ts';
import { startTheme } from './theme.ts';
import { LoginPage } from './views/login.tsx';

/** Opens the session of the link or restores the stored one. Returns the error of the link, if any. */
async function start(): Promise<PageFault | undefined> {
  const token = takeLinkToken();
  const linked = token === undefined ? undefined : await openSession(token);
  if (linked?.ok) return undefined;
  // A link that was used before is not an error for a person who has a session.
  const session = await loadMe();
  if (session.ok) return undefined;
  return linked?.error ?? (session.error.code === 'unreachable' ? session.error : undefined);
}

function App() {
  const [state, setState] = useState<{ isReady: boolean; error?: PageFault }>({ isReady: false });
  const begin = async () => {
    const error = await start();
    setState({ isReady: true, ...(error ? { error } : {}) });
    if (me.peek() === undefined) return;
    if (route.peek().path === '/login') go('/', { replace: true });
    if (connection.peek().state === 'over') {
      connectNow();
      reloadThreads();
    }
  };
  useEffect(() => {
    void begin();
    // A link pasted into the address of this tab changes the fragment alone.
    const again = () => location.hash.startsWith('#t=') && void begin();
    addEventListener('hashchange', again);
    return () => removeEventListener('hashchange', again);
  }, []);
  if (!state.isReady) return null;
  if (me.value) return <StreamFrame />;
  if (state.error?.code === 'unreachable') {
    return (
      <main>
        <ErrorState error={state.error} again={() => void begin()} command="km web" />
      </main>
    );
  }
  return <LoginPage {...(state.error ? { error: state.error } : {})} />;
}

startTheme();
const place = document.getElementById('page');
if (place) render(<App />, place);
