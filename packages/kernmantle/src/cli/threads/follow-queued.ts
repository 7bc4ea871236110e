// Looking on at a thread that a worker runs: leaving it, whether anybody serves it, and a server that is
// away. Nothing of this ends the thread.
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

/** Said at once when nobody would take it; with `--no-wait` that ends the looking on. */
export async function tellUnserved(
  { store }: ThreadWork,
  thread: string,
  view: Pick<RunView, 'say'>,
): Promise<boolean> {
  const row = await store.thread(thread);
  const isSo = row.ok && row.output.owner === undefined && (await isUnserved(store, row.output));
  if (isSo) {
    view.say(
      'no worker serves it: start `km worker` where this project has the same items; it waits',
    );
  }
  return isSo;
}

const POLL_MS = 3000;
/** A worker would go on with it. */
const LEFT: ReadonlySet<ThreadStatus> = new Set(['spawning', 'interrupted', 'running']);

/**
 * Polls a server from which no news comes, and gives up after some time. Calls `onUnserved` once when no worker
 * serves the queue of the thread.
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
      row.ok && !isSaid && LEFT.has(row.output.status) && row.output.owner === undefined;
    if (isLeft && (await isUnserved(store, row.output))) {
      isSaid = true;
      onUnserved();
    }
    isAsking = false;
  };
  const timer = setInterval(() => void look(), POLL_MS);
  return () => clearInterval(timer);
}

/** The server is away, the thread is not: how to find it again. */
export function awayFrom({ error: { code, detail } }: Failure, thread: string): Failure {
  const hint = `thread \`${thread}\` goes on when the server is there: ${howToGoOn(thread)}`;
  return fail(code, detail.message, { ...detail, thread, hint });
}

/** Without workers nobody would go on with it; and they ask their own providers. */
export function mayLeave({ options }: CommandCall, { registry }: Runtime): Outcome<null> {
  const isShared = registry.place !== undefined;
  const given = [
    options.detach === true ? '--detach' : '',
    options.wait === false ? '--no-wait' : '',
    options.items === undefined ? '' : '--items',
  ];
  const word = given.find((one) => one !== '');
  if (!isShared && word !== undefined) {
    return fail('usage', `\`${word}\` needs a store on a server, whose workers run the thread`);
  }
  return isShared && options.replies !== undefined
    ? fail('usage', '`--replies` is for threads that run here; workers ask their own providers')
    : ok(null);
}
