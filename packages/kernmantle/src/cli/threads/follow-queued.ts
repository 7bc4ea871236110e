// Helps a command that follows a thread of a worker: it handles interrupts, a queue without workers and a server
// that does not answer. None of these ends the thread.
import { EXIT, type Failure, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import type { Store, ThreadRow, ThreadStatus } from '@kernmantle/core/store';
import type { CommandCall } from '../command.ts';
import type { RunView } from './live-view.ts';
import type { ThreadWork } from './open-threads.ts';

/**
 * Listens for an interrupt. The thread runs on a worker, so the first one only ends this view. A second one ends
 * this process at once.
 */
export function listenToLeave(): {
  readonly signal: AbortSignal;
  count(): number;
  release(): void;
} {
  const controller = new AbortController();
  let presses = 0;
  function press(): void {
    presses += 1;
    if (presses > 1) process.exit(EXIT.interrupted);
    controller.abort();
  }
  process.on('SIGINT', press);
  process.on('SIGTERM', press);
  return {
    signal: controller.signal,
    count: () => presses,
    release(): void {
      process.off('SIGINT', press);
      process.off('SIGTERM', press);
    },
  };
}

export const howToGoOn = (thread: string): string =>
  `\`km threads tail -f ${thread}\` follows it, \`km threads stop ${thread}\` ends it`;

async function isUnserved({ fleet }: Store, row: ThreadRow): Promise<boolean> {
  const { findWorkersFor } = await import('@kernmantle/fleet');
  const serving = fleet ? await findWorkersFor(fleet, row) : undefined;
  return serving?.ok === true && serving.output.length === 0;
}

/** Prints a note if no worker serves the queued thread. Returns true in this case. */
export async function printUnserved(
  { store }: ThreadWork,
  thread: string,
  view: Pick<RunView, 'say'>,
): Promise<boolean> {
  const row = await store.thread(thread);
  const isSo = row.ok && row.output.owner === undefined && (await isUnserved(store, row.output));
  if (isSo) {
    view.say(
      'no worker serves this thread, so it waits; start `km worker` where this project has the same items',
    );
  }
  return isSo;
}

const POLL_MS = 3000;
/** Statuses in which a worker can take a thread without a lease. */
const RESUMABLE: ReadonlySet<ThreadStatus> = new Set(['spawning', 'interrupted', 'running']);

/**
 * Polls the server. Calls `onAway` if it does not answer, and `onUnserved` once if no worker serves the queue of
 * the thread. Returns a function that ends the polling.
 */
export function watchServer(
  { store }: ThreadWork,
  id: () => string,
  { onAway, onUnserved }: { onAway(why: Failure): void; onUnserved(): void },
) {
  let [isAsking, isSaid] = [false, false];
  const look = async (): Promise<void> => {
    if (isAsking || id() === '') return;
    isAsking = true;
    const row = await store.thread(id());
    if (!row.ok && row.error.code !== 'store_closed') onAway(row);
    const isLeft =
      row.ok && !isSaid && RESUMABLE.has(row.output.status) && row.output.owner === undefined;
    if (isLeft && (await isUnserved(store, row.output))) {
      isSaid = true;
      onUnserved();
    }
    isAsking = false;
  };
  const timer = setInterval(() => void look(), POLL_MS);
  return () => clearInterval(timer);
}

/** Adds a hint how to find the thread after a failure of the server. */
export function awayFrom({ error: { code, detail } }: Failure, thread: string): Failure {
  const hint = `thread \`${thread}\` continues when the server answers again: ${howToGoOn(thread)}`;
  return fail(code, detail.message, { ...detail, thread, hint });
}

/** Refuses options that need workers, and `--replies` with workers, because they use their own providers. */
export function mayLeave({ options }: CommandCall, { registry }: Runtime): Outcome<null> {
  const isShared = registry.place !== undefined;
  const words = [
    options.detach === true ? '--detach' : '',
    options.wait === false ? '--no-wait' : '',
    options.items === undefined ? '' : '--items',
  ];
  const word = words.find((one) => one !== '');
  if (!isShared && word !== undefined) {
    return fail('usage', `\`${word}\` needs a store on a server, whose workers run the thread`);
  }
  return isShared && options.replies !== undefined
    ? fail('usage', '`--replies` needs a run without workers; they use their own providers')
    : ok(null);
}
