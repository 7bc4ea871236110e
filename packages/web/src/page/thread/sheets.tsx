// Dialogs of a thread for actions that need a confirmation (stop, kill, replay), and the menu of
// the other actions.
import { useState } from 'preact/hooks';
import type { ListedRun, ReplayView, ThreadView, WebAction } from '../../model/api.ts';
import { count } from '../../model/format.ts';
import { FILTERS } from '../../model/thread-sums.ts';
import type { TimelineEntry } from '../../model/timeline-entry.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { JsonView } from '../parts/json-view.tsx';
import { ErrorState } from '../parts/states.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { commandOf } from './commands.ts';
import { isEndedStatus, type Sheet } from './header.tsx';
import type { Acting } from './thread-actions.ts';

const Refused = ({ acting, act }: { acting: Acting; act: WebAction }) =>
  acting.refusal?.act === act ? (
    <ErrorState error={acting.refusal.error} command={acting.refusal.command} />
  ) : null;

const OpenCall = ({ row }: { row: TimelineEntry }) => (
  <li class={FILTERS.writes(row) && row.state === 'open' ? 'you' : ''}>
    <Icon name={FILTERS.writes(row) ? 'write' : 'tool'} />
    <code>{row.name}</code> <ForeignText text={row.target ?? row.text} class="cut mono" />
    {row.state === 'waits' ? (
      ' waits for you'
    ) : FILTERS.writes(row) ? (
      <b> a write is running</b>
    ) : (
      ''
    )}
  </li>
);

const OpenChild = ({ run }: { run: ListedRun }) => (
  <li>
    <Icon name="child" />
    <code>{run.id}</code> {run.status}
  </li>
);

/** Lists open calls and descendants. A kill is offered only after a stop without effect. */
export function StopDialog(props: {
  view: ThreadView;
  rows: readonly TimelineEntry[];
  acting: Acting;
  onClose: () => void;
}) {
  const { view, rows, acting, onClose } = props;
  const { thread } = view;
  const act: WebAction = acting.mayKill ? 'kill' : 'stop';
  const open = rows.filter(
    ({ kind, state }) => kind === 'call' && (state === 'open' || state === 'waits'),
  );
  const below = view.children.filter(({ status }) => !isEndedStatus(status));
  const [why, isBusy] = [acting.why(act), acting.isBusy(act)];
  const run = async () => {
    const answer = await acting.send(act, {});
    if (answer.ok) onClose();
  };
  const word = act === 'kill' ? 'Kill' : 'Stop';
  return (
    <Dialog
      title={`${word} ${thread.directive}?`}
      onClose={onClose}
      foot={
        <>
          <Command text={commandOf(act, thread.id)} />
          <Button text="Cancel" onClick={onClose} />
          <Button
            text={isBusy ? 'Sending…' : word}
            class="btn danger"
            disabled={why !== undefined}
            isBusy={isBusy}
            onClick={() => void run()}
          />
        </>
      }
    >
      <p>
        <code>{thread.id}</code>{' '}
        {act === 'kill'
          ? 'did not stop within 10 s. A kill can leave its open calls half done.'
          : 'ends at its next step. It can be resumed later.'}
      </p>
      {open.length > 0 ? (
        <>
          <h3>Open calls</h3>
          <ul class="open-list">
            {open.slice(0, 12).map((row) => (
              <OpenCall key={row.seq} row={row} />
            ))}
          </ul>
        </>
      ) : (
        <p class="dim">No call is open.</p>
      )}
      {below.length > 0 ? (
        <>
          <h3>{count(below.length)} below this thread also stop</h3>
          <ul class="open-list">
            {below.slice(0, 12).map((run) => (
              <OpenChild key={run.id} run={run} />
            ))}
          </ul>
        </>
      ) : null}
      {why === undefined ? null : <p class="you">Not possible now: {why}.</p>}
      <Refused acting={acting} act={act} />
    </Dialog>
  );
}

function ReplayResult({ replay }: { replay: ReplayView }) {
  const { difference, same, recorded, isSame } = replay;
  if (isSame || !difference) {
    return (
      <p class="ok" role="status">
        <Icon name="ok" /> The same: {count(same)} of {count(recorded)} events
        {replay.status === undefined ? '' : `, ended ${replay.status}`}.
      </p>
    );
  }
  return (
    <>
      <p class="bad" role="status">
        <Icon name="no" /> Different from event {count(difference.seq)} on; {count(same)} events
        before it are equal.
      </p>
      <div class="two-sides">
        <div>
          <h3>recorded</h3>
          <JsonView value={difference.recorded} />
        </div>
        <div>
          <h3>replayed</h3>
          <JsonView value={difference.replayed} />
        </div>
      </div>
    </>
  );
}

export function ReplayDialog(props: { view: ThreadView; acting: Acting; onClose: () => void }) {
  const { view, acting, onClose } = props;
  const [replay, setReplay] = useState<ReplayView>();
  const [why, isBusy] = [acting.why('replay'), acting.isBusy('replay')];
  const run = async () => {
    const answer = await acting.send<ReplayView>('replay', {});
    if (answer.ok) setReplay(answer.output);
  };
  return (
    <Dialog
      title={`Replay ${view.thread.directive}`}
      class="wide-dialog"
      onClose={onClose}
      foot={
        <>
          <Command text={commandOf('replay', view.thread.id)} />
          <Button text="Close" onClick={onClose} />
          <Button
            text={isBusy ? 'Replaying…' : 'Replay'}
            class="btn go"
            disabled={why !== undefined}
            isBusy={isBusy}
            onClick={() => void run()}
          />
        </>
      }
    >
      <p class="dim">
        Repeats the run from its journal, without a model and without effects, and reports the first
        difference.
      </p>
      {replay ? <ReplayResult replay={replay} /> : null}
      {why === undefined ? null : <p class="you">Not possible now: {why}.</p>}
      <Refused acting={acting} act="replay" />
    </Dialog>
  );
}

export function MoreDialog(props: {
  view: ThreadView;
  acting: Acting;
  onSheet: (sheet: Sheet) => void;
  onClose: () => void;
}) {
  const { view, acting, onSheet, onClose } = props;
  const { id } = view.thread;
  const item = (act: WebAction, icon: IconName, text: string, run: () => void) => {
    const why = acting.why(act);
    return (
      <li>
        <Button
          icon={icon}
          text={text}
          disabled={why !== undefined || acting.isBusy(act)}
          onClick={run}
        />
        <small class="faint">{why ?? ''}</small>
      </li>
    );
  };
  return (
    <Dialog title="More" onClose={onClose}>
      <ul class="more-list">
        {item('interrupt', 'x', 'Interrupt the reply', () => {
          void acting.send('interrupt', {});
          onClose();
        })}
        {item('compact', 'dash', 'Make room: summarise old turns', () => {
          void acting.send('compact', {});
          onClose();
        })}
        {item('resume', 'play', 'Resume with other limits…', () => onSheet('raise'))}
        {item('fork', 'child', 'Fork…', () => onSheet('fork'))}
        {item('replay', 'back', 'Replay…', () => onSheet('replay'))}
        {acting.mayKill ? item('kill', 'no', 'Kill…', () => onSheet('stop')) : null}
      </ul>
      <h3>In a terminal</h3>
      <ul class="commands">
        {[
          `km threads show ${id}`,
          `km threads tail --follow ${id}`,
          `km explain --thread ${id}`,
        ].map((text) => (
          <li key={text}>
            <Command text={text} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
