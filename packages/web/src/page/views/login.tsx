// Login for a browser without a session: explains links and accepts a token. A link has its token
// in the fragment of the address, which no server and no log sees.
import { useState } from 'preact/hooks';
import { isOver, type PageFault } from '../api.ts';
import { connectNow } from '../connection.ts';
import { Brand } from '../parts/app-bar.tsx';
import { Command } from '../parts/copy.tsx';
import { ErrorState } from '../parts/states.tsx';
import { go, route } from '../router.tsx';
import { hasKey, openSession } from '../state/session.ts';

export function LoginPage(props: { error?: PageFault }) {
  const [token, setToken] = useState('');
  const [error, setError] = useState(props.error);
  const [isBusy, setBusy] = useState(false);
  const enter = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const text = token.trim();
    // A person can paste the whole link instead of its token.
    const answer = await openSession(/#t=([^&\s]+)/.exec(text)?.[1] ?? text);
    setBusy(false);
    setError(answer.ok ? undefined : answer.error);
    if (!answer.ok) return;
    connectNow();
    if (route.peek().path === '/login') go('/', { replace: true });
  };
  return (
    <main class="login">
      <form class="card" onSubmit={(event) => void enter(event)}>
        <Brand />
        <h1>
          {isOver.value && hasKey()
            ? 'Your session has ended'
            : 'Log in with a link from the terminal'}
        </h1>
        <p>
          Run <Command text="km web link" /> and open the printed link. The link works once, for two
          minutes.
        </p>
        <label for="token">or paste a token</label>
        <div class="line">
          <input
            id="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
          <button type="submit" class="btn strong" disabled={token.trim() === '' || isBusy}>
            Log in
          </button>
        </div>
        {error ? <ErrorState error={error} /> : null}
      </form>
    </main>
  );
}
