// Placeholders of a view: loading, empty, error.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { get, type PageAnswer, type PageFault } from '../api.ts';
import { Button } from './button.tsx';
import { Command } from './copy.tsx';
import { ForeignText } from './untrusted-text.tsx';

/** `children`: buttons or links below the command. */
export function EmptyState(props: {
  title: string;
  hint?: string;
  command?: string;
  children?: ComponentChildren;
}) {
  const { title, hint, command, children } = props;
  return (
    <div class="empty dim">
      <b>{title}</b>
      {hint === undefined ? null : <p>{hint}</p>}
      {command === undefined ? null : <Command text={command} />}
      {children}
    </div>
  );
}

/** Replaces a part that failed; `command` is a command to try in the terminal. */
export function ErrorState(props: { error: PageFault; again?: () => void; command?: string }) {
  const { error, again, command } = props;
  return (
    <div class="failed" role="alert">
      <b>{error.code}</b> <ForeignText text={error.detail.message} />
      {command === undefined ? null : <Command text={command} />}
      {again ? <Button text="Try again" onClick={again} /> : null}
    </div>
  );
}

/** Shows grey rows of the right height after 150 ms, so that a fast answer does not flicker. */
export function LoadingRows(props: { rows?: number; rowHeight?: number }) {
  const { rows = 6, rowHeight = 27 } = props;
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class="loading" aria-busy="true" aria-label="Loading" role="status">
      {isShown
        ? Array.from({ length: rows }, (_, at) => (
            <div key={at} class="grey" style={{ height: `${rowHeight}px` }}>
              <i style={{ width: `${30 + ((at * 37) % 50)}%` }} />
            </div>
          ))
        : null}
    </div>
  );
}

/** Reads a resource when `path` changes. `again` reads it again and keeps the old data until then. */
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
