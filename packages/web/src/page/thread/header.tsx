// Who this thread is: name, state, who started it, what ran by hash and key, and what can be done to it.
import type { ComponentChildren } from 'preact';
import type { Act, Data, DataObject, ListedRun, ThreadView } from '../../model/api.ts';
import { isUnserved, NO_WORKER, SERVE_IT, workerName } from '../../model/fleet.ts';
import { clockTime, seconds } from '../../model/format.ts';
import { visibleText } from '../../model/untrusted-text.ts';
import { Button } from '../parts/button.tsx';
import { Command } from '../parts/copy.tsx';
import { Time } from '../parts/figures.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { ErrorState } from '../parts/states.tsx';
import { StatusPill } from '../parts/status.tsx';
import { ForeignText } from '../parts/untrusted-text.tsx';
import { Link } from '../router.tsx';
import { unserved, useFleet } from '../state/fleet.ts';
import { commandOf } from './commands.ts';
import { threadPath } from './place.ts';
import type { Acting } from './thread-actions.ts';

const isRecord = (value: Data | undefined): value is DataObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A field of an object as text; '' when there is none. */
export function textAt(value: Data | undefined, name: string): string {
  const found = isRecord(value) ? value[name] : undefined;
  return typeof found === 'string' || typeof found === 'number' ? String(found) : '';
}

/** A field of an object as a list of objects. */
export function listAt(value: Data | undefined, name: string): readonly DataObject[] {
  const found = isRecord(value) ? value[name] : undefined;
  return Array.isArray(found) ? found.filter(isRecord) : [];
}

/** `9f3a·c1e0`: enough of a hash to compare by eye. */
export function shortHash(hash: string): string {
  const hex = hash.replace(/^(?:sha256|ed25519):/, '');
  return hex.length > 8 ? `${hex.slice(0, 4)}·${hex.slice(4, 8)}` : hex;
}

const Signature = ({ item }: { item: DataObject | undefined }) => {
  const [state, key] = [textAt(item, 'signature'), textAt(item, 'key')];
  if (state === '') return null;
  const isGood = /^(?:signed|valid|trusted|ok)/.test(state);
  const text = isGood && key !== '' ? `signed by ${shortHash(key)}` : state.replaceAll('_', ' ');
  return (
    <span class={isGood ? 'ok' : 'you'}>
      <Icon name={isGood ? 'seal' : 'warn'} />
      <ForeignText text={text} />
    </span>
  );
};

/** The worker that holds it, and how long it has it for certain. */
function Holder({ thread: { id, worker } }: Pick<ThreadView, 'thread'>) {
  const { state, clock } = useFleet();
  if (worker === undefined) return null;
  const hold = state?.held.find(({ thread }) => thread === id);
  const left = hold ? Math.round((hold.lease_until - clock) / 1000) : 0;
  return (
    <span
      title={
        left > 0 ? `its lease lasts ${seconds(left)}, and is renewed` : visibleText(worker, 160)
      }
    >
      on{' '}
      <Link to="/fleet" class="more-link">
        <ForeignText text={workerName(worker)} />
      </Link>
    </span>
  );
}

/** Queued, and nobody who was heard of would take it: what to do. */
function Unserved({ thread }: Pick<ThreadView, 'thread'>) {
  const { state } = useFleet();
  if (!isUnserved(thread, unserved.value)) return null;
  // With other items than this folder has a person may let it go on with these.
  const isOfToday = thread.queue?.endsWith(` ${state?.own?.items}`) === true;
  return (
    <section class="due-bar flex" aria-label={NO_WORKER}>
      <span class="you">
        <Icon name="warn" />
      </span>
      <div class="what">
        <strong>{NO_WORKER}</strong>
        <span class="dim">{SERVE_IT.replaceAll('`', '')}</span>
      </div>
      <Command text={isOfToday ? 'km worker' : commandOf('resume', thread.id, ' --items today')} />
      <Link to="/fleet" class="btn">
        Fleet
      </Link>
    </section>
  );
}

function Meta({ view, until }: { view: ThreadView; until: number }) {
  const { thread, ran } = view;
  const [item] = listAt(ran, 'items');
  const by = isRecord(ran['by']) ? ran['by'] : {};
  const who = [textAt(by, 'who'), textAt(by, 'surface')].filter(Boolean).join(', ');
  const hash = textAt(item, 'sha256');
  return (
    <div class="meta dim">
      <span>
        <code>{thread.id}</code>
      </span>
      <span>
        started <Time at={thread.created} form="clock" />
        {who === '' ? null : (
          <>
            {' '}
            by <ForeignText text={who} />
          </>
        )}
      </span>
      <span title={`${clockTime(thread.created)} to ${clockTime(until)}`}>
        {seconds(Math.round((until - thread.created) / 1000))}
      </span>
      <span class="opt">
        <ForeignText text={view.model} />
      </span>
      <Signature item={item} />
      {hash === '' ? null : (
        <span class="opt">
          directive <code title={hash}>{shortHash(hash)}</code>
        </span>
      )}
      <Holder thread={thread} />
      {thread.parent === undefined ? null : (
        <span>
          <Link to={threadPath(thread.parent)} class="more-link">
            child of {thread.parent}
          </Link>
        </span>
      )}
      {thread.reason === undefined || thread.reason === '' ? null : (
        <span class="cut">
          ended: <ForeignText text={thread.reason} class="cut" />
        </span>
      )}
    </div>
  );
}

/** Disabled with its reason, busy until the event of it comes back. */
function ActButton(props: {
  act: Act;
  acting: Acting;
  icon: IconName;
  /** What it says while it is busy. */
  busy: string;
  keyName?: string;
  class?: string;
  children: ComponentChildren;
  onClick: () => void;
}) {
  const { act, acting, icon, keyName, onClick, children } = props;
  const [why, isBusy] = [acting.why(act), acting.isBusy(act)];
  return (
    <Button
      icon={icon}
      class={`btn ${props.class ?? ''}`}
      disabled={why !== undefined}
      isBusy={isBusy}
      {...(why === undefined ? {} : { title: why })}
      onClick={onClick}
    >
      {isBusy ? props.busy : children}
      {keyName === undefined ? null : <kbd>{keyName}</kbd>}
    </Button>
  );
}

export type Sheet = 'stop' | 'raise' | 'more' | 'replay' | 'graph';

interface ActsProps {
  readonly view: ThreadView;
  readonly acting: Acting;
  onPause(): void;
  onMessage(): void;
  onSheet(sheet: Sheet): void;
}

const ENDED = new Set([
  'completed',
  'failed',
  'denied',
  'limit',
  'aborted',
  'killed',
  'terminated',
]);
export const isEndedStatus = (status: string): boolean => ENDED.has(status);

/** Pause while it is at work; afterwards whatever makes it go on. */
function Going({ view, acting, onPause, onSheet }: ActsProps) {
  const { status } = view.thread;
  if (!view.acts.includes('resume')) {
    return (
      <ActButton
        act="pause"
        acting={acting}
        icon="pause"
        busy="pauses after this step"
        keyName="p"
        onClick={onPause}
      >
        Pause
      </ActButton>
    );
  }
  const isPlain = status === 'paused' || status === 'interrupted';
  return (
    <ActButton
      act="resume"
      acting={acting}
      icon="play"
      busy="resumes"
      {...(isPlain ? { keyName: 'p' } : {})}
      onClick={() => (isPlain ? onPause() : onSheet('raise'))}
    >
      {isPlain ? 'Resume' : 'Resume…'}
    </ActButton>
  );
}

const messageWord = (status: string): string => (isEndedStatus(status) ? 'Follow up' : 'Message');
/** An ended thread gets a message as a follow-up. */
const messageAct = ({ thread }: ThreadView): Act =>
  isEndedStatus(thread.status) ? 'resume' : 'inject';

function ThreadActs(props: ActsProps) {
  const { view, acting, onMessage, onSheet } = props;
  return (
    <div class="acts">
      <Going {...props} />
      <ActButton
        act={messageAct(view)}
        acting={acting}
        icon="say"
        busy="on its way"
        keyName="m"
        onClick={onMessage}
      >
        {messageWord(view.thread.status)}
      </ActButton>
      <ActButton
        act="stop"
        acting={acting}
        icon="stop"
        busy="stops"
        class="danger"
        onClick={() => onSheet('stop')}
      >
        Stop…
      </ActButton>
      <Button
        icon="more"
        class="btn only"
        aria-label="More: interrupt, raise limits, replay, copy commands"
        onClick={() => onSheet('more')}
      />
    </div>
  );
}

/** The same at the foot of a phone. */
export function ThreadDock(props: ActsProps) {
  const { view, acting, onPause, onMessage, onSheet } = props;
  const canResume = view.acts.includes('resume');
  const isPlain = view.thread.status === 'paused' || view.thread.status === 'interrupted';
  const go: Act = canResume ? 'resume' : 'pause';
  const item = (act: Act | undefined, icon: IconName, word: string, run: () => void, tone = '') => {
    const why = act && acting.why(act);
    const isBusy = act !== undefined && acting.isBusy(act);
    return (
      <Button
        icon={icon}
        text={isBusy ? '…' : word}
        class={tone}
        disabled={why !== undefined || isBusy}
        {...(why === undefined ? {} : { title: why })}
        onClick={run}
      />
    );
  };
  return (
    <nav class="dock phone" aria-label="Steer this thread">
      {item(go, canResume ? 'play' : 'pause', canResume ? 'Resume' : 'Pause', () =>
        canResume && !isPlain ? onSheet('raise') : onPause(),
      )}
      {item(messageAct(view), 'say', messageWord(view.thread.status), onMessage)}
      {item('stop', 'stop', 'Stop', () => onSheet('stop'), 'danger')}
      {item(undefined, 'more', 'More', () => onSheet('more'))}
    </nav>
  );
}

export function ThreadHeader(
  props: ActsProps & { troubles: Pick<ListedRun, 'denied' | 'failed'>; until: number },
) {
  const { view, acting, troubles, until } = props;
  const { thread } = view;
  const waits = view.due.length > 0 || thread.status === 'needs_input';
  return (
    <>
      <div class="head">
        <div>
          <div class="title flex">
            <h1>
              {thread.directive} <span class="ver">{thread.version}</span>
            </h1>
            <StatusPill status={thread.status} waitsForPerson={waits} {...troubles} />
          </div>
          {thread.title === undefined ? null : (
            <p class="about">
              <ForeignText text={thread.title} />
            </p>
          )}
          <Meta view={view} until={until} />
        </div>
        <ThreadActs {...props} />
      </div>
      <Unserved thread={thread} />
      {acting.refusal ? (
        <div class="refusal">
          <ErrorState error={acting.refusal.error} command={acting.refusal.command} />
          <Button icon="x" class="btn only" aria-label="Close" onClick={acting.forget} />
        </div>
      ) : acting.mayKill ? (
        <div class="refusal">
          <p class="failed" role="status">
            It did not answer the stop within 10 s.{' '}
            <Button text="Kill…" class="btn danger" onClick={() => props.onSheet('stop')} />
            <Command text={commandOf('kill', thread.id)} />
          </p>
        </div>
      ) : null}
    </>
  );
}
