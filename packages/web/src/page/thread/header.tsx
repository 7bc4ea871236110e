// Header of a thread: name, status, actor, the items that ran with hash and key, and the actions.
import type { Data, DataObject, ListedRun, ThreadView, WebAction } from '../../model/api.ts';
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

/** Returns a field of an object as text, or '' without one. */
export function textAt(value: Data | undefined, name: string): string {
  const field = isRecord(value) ? value[name] : undefined;
  return typeof field === 'string' || typeof field === 'number' ? String(field) : '';
}

/** Returns the objects in a list field of an object. Empty without such a field. */
export function listAt(value: Data | undefined, name: string): readonly DataObject[] {
  const field = isRecord(value) ? value[name] : undefined;
  return Array.isArray(field) ? field.filter(isRecord) : [];
}

/** Shortens a hash to `9f3a·c1e0`, which is enough to compare by eye. */
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

/** Worker that owns the lease, and the end of the lease. */
function LeaseOwner({ thread: { id, worker } }: Pick<ThreadView, 'thread'>) {
  const { state, clock } = useFleet();
  if (worker === undefined) return null;
  const lease = state?.held.find(({ thread }) => thread === id);
  const rest = lease ? Math.round((lease.lease_until - clock) / 1000) : 0;
  return (
    <span
      title={
        rest > 0 ? `lease ends in ${seconds(rest)} if it is not renewed` : visibleText(worker, 160)
      }
    >
      on{' '}
      <Link to="/fleet" class="more-link">
        <ForeignText text={workerName(worker)} />
      </Link>
    </span>
  );
}

/** Remedy for a queued thread that no worker serves. */
function Unserved({ thread }: Pick<ThreadView, 'thread'>) {
  const { state } = useFleet();
  if (!isUnserved(thread, unserved.value)) return null;
  // If the items have changed, a person can resume the thread with the current ones.
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
      <LeaseOwner thread={thread} />
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

export type Sheet = 'stop' | 'raise' | 'more' | 'replay' | 'fork' | 'graph';

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

interface ThreadAct {
  readonly act: WebAction;
  readonly icon: IconName;
  readonly word: string;
  /** Text of the button while the action runs. */
  readonly busy: string;
  readonly keyName?: string;
  readonly tone?: string;
  run(): void;
}

/** Buttons: pause or resume, message, stop. */
function actsOf({ view, onPause, onMessage, onSheet }: ActsProps): readonly ThreadAct[] {
  const { status } = view.thread;
  const isPlain = status === 'paused' || status === 'interrupted';
  const pause = {
    act: 'pause',
    icon: 'pause',
    word: 'Pause',
    busy: 'Pausing after this step…',
  } as const;
  const resume = { act: 'resume', icon: 'play', busy: 'Resuming…' } as const;
  return [
    !view.acts.includes('resume')
      ? { ...pause, keyName: 'p', run: onPause }
      : isPlain
        ? { ...resume, word: 'Resume', keyName: 'p', run: onPause }
        : { ...resume, word: 'Resume…', run: () => onSheet('raise') },
    {
      // An ended thread gets a message as a follow-up.
      act: isEndedStatus(status) ? 'resume' : 'inject',
      icon: 'say',
      word: isEndedStatus(status) ? 'Follow up' : 'Send message',
      busy: 'Sending…',
      keyName: 'm',
      run: onMessage,
    },
    {
      act: 'stop',
      icon: 'stop',
      word: 'Stop…',
      busy: 'Stopping…',
      tone: 'danger',
      run: () => onSheet('stop'),
    },
  ];
}

/** A button is disabled with a reason, and busy until its event arrives. */
function stateOf({ act, icon, run }: ThreadAct, acting: Acting) {
  const [why, isBusy] = [acting.why(act), acting.isBusy(act)];
  const title = why === undefined ? {} : { title: why };
  return { icon, isBusy, disabled: why !== undefined, ...title, onClick: run };
}

function ThreadActs(props: ActsProps) {
  const { acting, onSheet } = props;
  return (
    <div class="acts">
      {actsOf(props).map((one) => (
        <Button
          key={one.icon}
          class={`btn ${one.tone ?? ''}`}
          text={acting.isBusy(one.act) ? one.busy : one.word}
          {...stateOf(one, acting)}
        >
          {one.keyName === undefined ? null : <kbd>{one.keyName}</kbd>}
        </Button>
      ))}
      <Button
        icon="more"
        class="btn only"
        aria-label="More: interrupt, raise limits, replay, copy commands"
        onClick={() => onSheet('more')}
      />
    </div>
  );
}

/** The same actions, at the bottom of the screen of a phone. */
export function ThreadDock(props: ActsProps) {
  const { acting, onSheet } = props;
  return (
    <nav class="dock phone" aria-label="Steer this thread">
      {actsOf(props).map((one) => (
        <Button
          key={one.icon}
          class={one.tone ?? ''}
          text={acting.isBusy(one.act) ? '…' : one.word.replace('…', '')}
          {...stateOf(one, acting)}
        />
      ))}
      <Button icon="more" text="More" class="" onClick={() => onSheet('more')} />
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
            The thread did not stop within 10 s.{' '}
            <Button text="Kill…" class="btn danger" onClick={() => props.onSheet('stop')} />
            <Command text={commandOf('kill', thread.id)} />
          </p>
        </div>
      ) : null}
    </>
  );
}
