// A native dialog: the browser keeps the focus inside and the rest inert. Only an action of a
// person opens it, never data. On close the focus returns to its previous element.
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './button.tsx';

/** Visible while it is rendered. `onClose` is called by Escape, the cross and a click outside. */
export function Dialog(props: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  foot?: ComponentChildren;
  class?: string;
}) {
  const { title, onClose, children, foot } = props;
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    const dialog = box.current;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={`dialog ${props.class ?? ''}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === box.current) onClose();
      }}
    >
      <div class="dialog-in">
        <header>
          <h2 id={id}>{title}</h2>
          <Button icon="x" class="btn only" aria-label="Close" onClick={onClose} />
        </header>
        <div class="dialog-body">{children}</div>
        {foot === undefined ? null : <footer>{foot}</footer>}
      </div>
    </dialog>
  );
}
