// Form that resumes a thread with higher limits: use, old value, new value and ceiling of each
// limit, the highest cost of the next turn, and optionally another model and a message.
import { useState } from 'preact/hooks';
import type { ThreadView } from '../../model/api.ts';
import { limitName, limitValue, money } from '../../model/format.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { ErrorState } from '../parts/states.tsx';
import { Table } from '../parts/table.tsx';
import { orderedMeters } from './answers.tsx';
import { limitProblem, resumeCommand, type Typed, wishOf } from './commands.ts';
import type { Acting } from './thread-actions.ts';

const RAISABLE = new Set([
  'turns',
  'tokens',
  'spend',
  'duration',
  'duration_seconds',
  'tool_calls',
  'spawns',
  'depth',
]);

function LimitRows(props: {
  view: ThreadView;
  typed: Typed;
  onType: (name: string, text: string) => void;
}) {
  const { view, typed, onType } = props;
  const meters = orderedMeters(view.thread.meters).filter(
    ({ name, max }) => RAISABLE.has(name) && max !== undefined,
  );
  return (
    <Table
      class="plain-table raise"
      columns={[['limit'], ['used', 'num'], ['was', 'num'], ['new'], ['ceiling', 'faint']]}
      rows={meters.map((meter) => {
        const ceiling = view.ceilings[meter.name];
        const text = typed[meter.name] ?? '';
        const problem = limitProblem(meter, text, ceiling);
        const [name, isFull] = [limitName(meter.name), meter.used >= (meter.max ?? 0)];
        return {
          key: meter.name,
          cells: [
            <span class={isFull ? 'limit' : ''}>{name}</span>,
            limitValue(meter.name, meter.used),
            limitValue(meter.name, meter.max ?? 0),
            <>
              <input
                class="field"
                inputMode="decimal"
                aria-label={`new limit of ${name}`}
                aria-invalid={problem !== undefined}
                placeholder={String(meter.max)}
                value={text}
                onInput={(event) => onType(meter.name, event.currentTarget.value)}
              />
              {problem === undefined ? null : <small class="bad">{problem}</small>}
            </>,
            ceiling ? `${ceiling.from} ${limitValue(meter.name, ceiling.max)}` : 'none',
          ],
        };
      })}
    />
  );
}

export const Field = (props: {
  label: string;
  value: string;
  hint: string;
  onType: (text: string) => void;
}) => (
  <label class="labelled">
    <span>{props.label}</span>
    <input
      class="field"
      value={props.value}
      placeholder={props.hint}
      onInput={(event) => props.onType(event.currentTarget.value)}
    />
  </label>
);

export function RaiseSheet(props: {
  view: ThreadView;
  acting: Acting;
  currency: string;
  onClose: () => void;
}) {
  const { view, acting, currency, onClose } = props;
  const { thread, worst_turn: worst } = view;
  const [typed, setTyped] = useState<Typed>({});
  const [model, setModel] = useState('');
  const [message, setMessage] = useState('');
  const [reason, setReason] = useState('');
  const request = wishOf(typed, model, message, reason);
  const command = resumeCommand(thread.id, request);
  const [why, isBusy] = [acting.why('resume'), acting.isBusy('resume')];
  const isWrong = thread.meters.some(
    (meter) =>
      limitProblem(meter, typed[meter.name] ?? '', view.ceilings[meter.name]) !== undefined,
  );
  const resume = async () => {
    const answer = await acting.send('resume', request, command);
    if (answer.ok) onClose();
  };
  const spend = thread.meters.find(({ name }) => name === 'spend');
  return (
    <Dialog
      title={`Resume ${thread.directive}`}
      class="raise-sheet"
      onClose={onClose}
      foot={
        <>
          <Command text={command} />
          <Button text="Cancel" onClick={onClose} />
          <Button
            text={isBusy ? 'Resuming…' : 'Resume'}
            class="btn go"
            disabled={why !== undefined || isWrong}
            isBusy={isBusy}
            onClick={() => void resume()}
          />
        </>
      }
    >
      <p class="dim">
        {thread.status}
        {thread.code === undefined ? '' : `: ${thread.code}`}
      </p>
      <LimitRows
        view={view}
        typed={typed}
        onType={(name, text) => setTyped({ ...typed, [name]: text })}
      />
      {worst === undefined ? null : (
        <p class="worst">
          One more turn costs at most{' '}
          <b>
            {money(worst)} {currency}
          </b>
          {spend?.max === undefined
            ? ''
            : `; ${money(Math.max(0, spend.max - spend.used))} ${currency} are left`}
          .
        </p>
      )}
      <Field label="message" value={message} hint="for the next turn" onType={setMessage} />
      <Field label="model" value={model} hint="unchanged" onType={setModel} />
      <Field label="reason" value={reason} hint="for the audit" onType={setReason} />
      {why === undefined ? null : (
        <p class="you" role="status">
          Not possible now: {why}.{view.acts.includes('pause') ? ' Pause it first.' : ''}
        </p>
      )}
      {acting.refusal?.act === 'resume' ? (
        <ErrorState error={acting.refusal.error} command={acting.refusal.command} />
      ) : null}
    </Dialog>
  );
}
