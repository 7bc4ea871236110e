// `threads pause|inject|interrupt|stop|kill`: what a person says to a thread, from any process. A
// thread that nobody is at work on cannot hear; what it was told waits, and an end is written for it.
import { fail, type JsonObject, type Outcome, ok } from '../../../base/index.ts';
import { endUnattended } from '../../../harness/index.ts';
import { isEnded, type Store, type ThreadRow, type ThreadStatus } from '../../../store/index.ts';
import { asList, asText, type CommandCall, type CommandRun } from '../../command.ts';
import { visible } from '../../terminal/terminal.ts';
import {
  livingBelow,
  signalKey,
  speaker,
  waitForEnd,
  withThread,
} from '../../threads/open-threads.ts';

interface Told {
  thread_id: string;
  /** What it was told. */
  kind: string;
  /** What it is now. */
  status: string;
}

/** What comes of it while somebody is at work on the thread. */
const COMES: Readonly<Record<string, string>> = {
  pause: 'pauses at its next step',
  message: 'hears it before its next turn',
  interrupt: 'breaks off what its model is saying',
  terminate: 'ends at its next step',
  kill: 'is ended',
};

/** A thread that rests or has ended does nothing more by itself. */
function toldText({ thread_id, kind, status }: Told): string {
  if (isEnded(status as ThreadStatus)) return `${thread_id}: ${status}`;
  if (status === 'running' || status === 'spawning') {
    return `${thread_id}: ${COMES[kind] ?? `told to ${kind}`} (now ${status})`;
  }
  return `${thread_id}: it is ${status}, and hears it when it goes on`;
}

type Tell = (store: Store, row: ThreadRow, by: string) => Promise<Outcome<Told>>;

function command(tell: (call: CommandCall) => Outcome<Tell>): CommandRun {
  return async (call) => {
    const chosen = tell(call);
    if (!chosen.ok) return chosen;
    return await withThread(call, async (row, { store }) => {
      const done = await chosen.output(store, row, speaker(call));
      return call.terminal.finish(done, (now) => call.terminal.note(visible(toldText(now))));
    });
  };
}

async function told(store: Store, id: string, kind: string): Promise<Outcome<Told>> {
  const now = await store.thread(id);
  return now.ok ? ok({ thread_id: id, kind, status: now.output.status }) : now;
}

/** Sends this signal. */
const send =
  (kind: string, payload: JsonObject): Tell =>
  async (store, { id: thread }, by) => {
    const sent = await store.signal({ thread, kind, payload, key: signalKey(), by });
    return sent.ok ? await told(store, thread, kind) : sent;
  };

/** Somebody holds it: the signal is read at the next step. */
const isAttended = ({ lease_until }: ThreadRow): boolean => (lease_until ?? 0) > Date.now();

export const pause = command(({ options }) => {
  const reason = asText(options.reason) ?? '';
  return ok(send('pause', reason === '' ? {} : { reason }));
});

export const inject = command(({ args, options }) => {
  const role = asText(options.role) ?? 'user';
  const content = asList(args[1]).join(' ');
  if (role !== 'user' && role !== 'system') {
    return fail('usage', `\`--role ${role}\` is neither \`user\` nor \`system\``);
  }
  return ok(send('message', { role, content }));
});

export const interrupt = command(({ args }) => {
  const content = asList(args[1]).join(' ');
  return ok(send('interrupt', content === '' ? {} : { role: 'user', content }));
});

const STOP_PATIENCE_MS = 1000;
const KILL_PATIENCE_MS = 5000;

/** Children first, then itself. Whoever is at work is asked; an end nobody writes is written here. */
async function end(
  kind: 'terminate' | 'kill',
  store: Store,
  row: ThreadRow,
  by: string,
): Promise<Outcome<Told>> {
  const status = kind === 'kill' ? 'killed' : 'terminated';
  if (isEnded(row.status)) {
    return fail('thread_ended', `thread \`${row.id}\` has ended already: ${row.status}`);
  }
  const below = await livingBelow(store, row.id);
  if (!below.ok) return below;
  for (const id of [...below.output, row.id]) {
    const now = await store.thread(id);
    if (!now.ok) return now;
    if (isEnded(now.output.status)) continue;
    await store.signal({ thread: id, kind, payload: {}, key: signalKey(), by });
    if (!isAttended(now.output)) await endUnattended(store, id, status, by);
  }
  const patience = kind === 'kill' ? KILL_PATIENCE_MS : STOP_PATIENCE_MS;
  const seen = await waitForEnd(store, row.id, AbortSignal.timeout(patience));
  if (!seen.ok) return seen;
  if (kind === 'kill' && !isEnded(seen.output.status)) {
    // It does not answer. From here on it can neither append nor act.
    const killed = await endUnattended(store, row.id, 'killed', by, { force: true });
    if (!killed.ok) return killed;
  }
  return await told(store, row.id, kind);
}

export const stop = command(() => ok((...at) => end('terminate', ...at)));
export const kill = command(() => ok((...at) => end('kill', ...at)));
