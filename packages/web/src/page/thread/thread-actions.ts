// Actions of a person on a thread. There are no optimistic updates: a button is busy until the
// stream delivers the event of its action, so the page only shows what the journal contains.
import { eventFlags } from '@kernmantle/core/journal';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { ActionResult, SlimEvent, ThreadView, WebAction } from '../../model/api.ts';
import { type PageAnswer, type PageFault, post } from '../api.ts';
import { connection } from '../connection.ts';
import { may } from '../state/session.ts';
import { commandOf } from './commands.ts';

/** After this long without an event the button can be pressed again. */
const PATIENCE_MS = 30_000;
/** A thread that has not stopped after this time can be killed. */
const STOP_MS = 10_000;

interface RefusedAct {
  readonly act: WebAction;
  readonly error: PageFault;
  readonly command: string;
}

export interface Acting {
  /** Sends the action. The page itself shows the effect from the journal. */
  send<T = ActionResult>(act: WebAction, body: object, command?: string): Promise<PageAnswer<T>>;
  isBusy(act: WebAction): boolean;
  /** Reason why the action is not possible. Absent: it is possible. */
  why(act: WebAction): string | undefined;
  readonly refusal?: RefusedAct;
  forget(): void;
  /** True if a stop had no effect within ten seconds. */
  readonly mayKill: boolean;
}

interface Sent {
  readonly act: WebAction;
  readonly after: number;
  readonly status: string;
  readonly at: number;
}

const REASONS: Readonly<Partial<Record<WebAction, string>>> = {
  pause: 'only a running thread can be paused',
  resume: 'the thread is running, or its end is final',
  inject: 'the thread has ended',
  interrupt: 'no reply is in progress',
  compact: 'the thread has ended',
  stop: 'the thread has ended',
  kill: 'the thread has ended',
  replay: 'only an ended thread can be replayed',
  fork: 'a child cannot be forked; fork its root',
};

function reasonAgainst(act: WebAction, view: ThreadView | undefined): string | undefined {
  if (!view) return 'not loaded yet';
  if (!may('steer')) return 'your session has the role `view`; role `steer` is required';
  if (connection.value.state === 'lost') return 'not connected';
  if (connection.value.state === 'over') return 'your session has ended';
  return view.acts.includes(act) ? undefined : (REASONS[act] ?? 'not now');
}

export function useActing(
  id: string,
  view: ThreadView | undefined,
  events: readonly SlimEvent[],
): Acting {
  const [sent, setSent] = useState<readonly Sent[]>([]);
  const [refusal, setRefusal] = useState<RefusedAct>();
  const [stoppedAt, setStoppedAt] = useState<number>();
  const [mayKill, setMayKill] = useState(false);
  const status = view?.thread.status ?? '';
  const last = events.at(-1)?.seq ?? 0;
  const now = useRef({ last, status });
  now.current = { last, status };

  const acknowledged = useMemo(() => {
    const least = Math.min(...sent.map(({ after }) => after));
    return (
      events.findLast(({ seq, type }) => seq > least && eventFlags(type).acknowledges)?.seq ?? 0
    );
  }, [events, sent]);
  useEffect(() => {
    setSent((before) => {
      const open = before.filter((one) => acknowledged <= one.after && one.status === status);
      return open.length === before.length ? before : open;
    });
  }, [acknowledged, status]);
  useEffect(() => {
    if (sent.length === 0) return undefined;
    const timer = setTimeout(() => setSent([]), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [sent]);
  useEffect(() => {
    setMayKill(false);
    if (stoppedAt === undefined) return undefined;
    const timer = setTimeout(() => setMayKill(true), STOP_MS);
    return () => clearTimeout(timer);
  }, [stoppedAt]);
  const isStopping = status === 'terminating';
  const isStoppable = view === undefined || view.acts.includes('stop') || isStopping;
  useEffect(() => {
    if (!isStoppable) setStoppedAt(undefined);
    // Another client can have sent the stop, before this page was opened.
    else if (isStopping) setStoppedAt((before) => before ?? Date.now());
  }, [isStoppable, isStopping]);

  return {
    async send<T>(act: WebAction, body: object, command = commandOf(act, id)) {
      setRefusal(undefined);
      const mark = { act, after: now.current.last, status: now.current.status, at: Date.now() };
      setSent((before) => [...before, mark]);
      const answer = await post<T>(`threads/${encodeURIComponent(id)}/${act}`, body);
      // These actions add no event to this thread.
      const isElsewhere = act === 'replay' || act === 'fork';
      if (!answer.ok || isElsewhere) setSent((before) => before.filter((one) => one !== mark));
      if (!answer.ok) setRefusal({ act, error: answer.error, command });
      else if (act === 'stop') setStoppedAt(Date.now());
      return answer;
    },
    isBusy: (act) => sent.some((one) => one.act === act),
    why: (act) => reasonAgainst(act, view),
    ...(refusal && { refusal }),
    forget: () => setRefusal(undefined),
    mayKill: mayKill && isStoppable,
  };
}
