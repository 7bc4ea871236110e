// What stands where there is nothing to show yet, nothing at all, or something went wrong.
import { useEffect, useState } from 'preact/hooks';
import { get, type PageAnswer, type PageFault } from '../api.ts';

export function EmptyState(props: { title: string; hint?: string; command?: string }) {
  const { title, hint, command } = props;
  return (
    <div class="empty">
      <b>{title}</b>
      {hint === undefined ? null : <p>{hint}</p>}
      {command === undefined ? null : <code>{command}</code>}
    </div>
  );
}

export function ErrorState(props: { error: PageFault; again?: () => void }) {
  const { error, again } = props;
  return (
    <div class="failed" role="alert">
      <b>{error.code}</b> <span>{error.detail.message}</span>{' '}
      {again ? (
        <button type="button" class="btn" onClick={again}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

/** Reads a resource when `path` changes; `again` reads it anew and keeps what is shown meanwhile. */
export function useResource<T>(path: string | undefined): {
  readonly answer: PageAnswer<T> | undefined;
  again(): void;
} {
  const [state, setState] = useState<{ path: string; answer: PageAnswer<T> }>();
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (path === undefined) return undefined;
    const stop = new AbortController();
    void get<T>(path, stop.signal).then((answer) => {
      if (!stop.signal.aborted) setState({ path, answer });
    });
    return () => stop.abort();
  }, [path, round]);
  const answer = state?.path === path ? state?.answer : undefined;
  return { answer, again: () => setRound((last) => last + 1) };
}
