// Starts a chat with the shipped assistant. The button is shown where the assistant may be started; it opens a field for
// the first line, which Enter sends.
import { useState } from 'preact/hooks';
import type { ActionResult, ListedItem } from '../../model/api.ts';
import { post } from '../api.ts';
import { Button } from '../parts/button.tsx';
import { useResource } from '../parts/states.tsx';
import { go, pathOf } from '../router.tsx';

/** The shipped directive, whatever a project has in its place. */
const ASSISTANT = 'core/assistant';

export function NewChat() {
  const { answer } = useResource<{ items: readonly ListedItem[] }>('items?kind=directive');
  const [text, setText] = useState<string>();
  const [fault, setFault] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const items = answer?.ok ? answer.output.items : [];
  if (!items.some(({ item_id, unavailable }) => item_id === ASSISTANT && !unavailable)) return null;
  const send = async () => {
    if (!text?.trim() || isBusy) return;
    setBusy(true);
    const body = { directive: `bundle:${ASSISTANT}`, message: text, chat: true };
    const started = await post<ActionResult>('threads', body);
    setBusy(false);
    if (started.ok) go(pathOf('t', started.output.thread_id));
    else setFault(started.error.detail.message);
  };
  if (text === undefined) return <Button onClick={() => setText('')}>New chat</Button>;
  return (
    <form
      class="card composer stack"
      aria-label="New chat"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <textarea
        class="field"
        rows={3}
        aria-label="First line of the chat"
        placeholder="ask about the project; every change asks you first"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') setText(undefined);
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void send();
        }}
      />
      {fault === undefined ? null : <p class="bad">{fault}</p>}
    </form>
  );
}
