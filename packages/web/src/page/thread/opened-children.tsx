// Children that are opened in place. Each open child is read like a thread of its own, and its rows
// are below its row.
import { useCallback, useEffect, useState } from 'preact/hooks';
import { useThread } from '../state/thread.ts';
import { type OpenedChild, useFold } from './use-fold.ts';

type OpenedRows = ReadonlyMap<string, OpenedChild>;

/** Reads a child thread. It renders nothing. */
function ChildReader(props: { id: string; onRows: (id: string, child: OpenedChild) => void }) {
  const { id, onRows } = props;
  const { events, text } = useThread(id);
  const folded = useFold(events);
  useEffect(() => onRows(id, { folded, text }), [id, folded, text, onRows]);
  return null;
}

interface OpenedChildren {
  /** Opened children by id. A child has no rows until its events are read. */
  readonly children: OpenedRows;
  toggle(id: string): void;
  close(): void;
  /** Components that read the children. The caller must render them; they are invisible. */
  readonly readers: preact.ComponentChildren;
}

const NONE: OpenedChild = {
  folded: { rows: [], events: 0, unreadable: 0, first: 0, last: 0 },
  text: '',
};

export function useOpenedChildren(): OpenedChildren {
  const [children, setChildren] = useState<OpenedRows>(new Map());
  const onRows = useCallback((id: string, child: OpenedChild) => {
    setChildren((before) => (before.has(id) ? new Map(before).set(id, child) : before));
  }, []);
  return {
    children,
    toggle(id) {
      setChildren((before) => {
        const after = new Map(before);
        if (!after.delete(id)) after.set(id, NONE);
        return after;
      });
    },
    close: () => setChildren(new Map()),
    readers: [...children.keys()].map((id) => <ChildReader key={id} id={id} onRows={onRows} />),
  };
}
