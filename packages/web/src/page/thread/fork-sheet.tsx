// Form that forks a thread: the boundary and the next message. The page opens the new thread.
import { readForkPoint } from '@kernmantle/core/journal';
import { useState } from 'preact/hooks';
import type { ForkRequestBody, ThreadView } from '../../model/api.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { ErrorState } from '../parts/states.tsx';
import { go, pathOf } from '../router.tsx';
import { forkCommand } from './commands.ts';
import { Field } from './raise-sheet.tsx';
import type { Acting } from './thread-actions.ts';

export function ForkSheet(props: { view: ThreadView; acting: Acting; onClose: () => void }) {
  const { view, acting, onClose } = props;
  const { thread } = view;
  const [point, setPoint] = useState('');
  const [message, setMessage] = useState('');
  const at = readForkPoint(point.trim());
  const isWrong = point.trim() !== '' && at === undefined;
  const request: ForkRequestBody = {
    ...(at !== undefined && { at }),
    ...(message !== '' && { message }),
  };
  const command = forkCommand(thread.id, request);
  const [why, isBusy] = [acting.why('fork'), acting.isBusy('fork')];
  const fork = async () => {
    const answer = await acting.send('fork', request, command);
    if (!answer.ok) return;
    onClose();
    go(pathOf('t', answer.output.thread_id));
  };
  return (
    <Dialog
      title={`Fork ${thread.directive}`}
      onClose={onClose}
      foot={
        <>
          <Command text={command} />
          <Button text="Cancel" onClick={onClose} />
          <Button
            text={isBusy ? 'Forking…' : 'Fork'}
            class="btn go"
            disabled={why !== undefined || isWrong}
            isBusy={isBusy}
            onClick={() => void fork()}
          />
        </>
      }
    >
      <p class="dim">
        A new thread continues there, with limits of its own. Effects of this thread are not undone.
      </p>
      <Field
        label="At"
        value={point}
        hint="turn:N, an event number, or empty: the last boundary"
        onType={setPoint}
      />
      {isWrong ? <small class="bad">must be turn:N, an event number or last</small> : null}
      <Field label="Message" value={message} hint="what is next" onType={setMessage} />
      {why === undefined ? null : <p class="you">Not possible now: {why}.</p>}
      {acting.refusal?.act === 'fork' ? (
        <ErrorState error={acting.refusal.error} command={acting.refusal.command} />
      ) : null}
    </Dialog>
  );
}
