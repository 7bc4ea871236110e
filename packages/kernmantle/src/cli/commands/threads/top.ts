// Implements `threads top`: lists all threads as the page does, and redraws after each event and every second.
// Keys select, open and pause a thread. No key approves a request or ends a thread.
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, fail, type Outcome, ok, shorten, systemClock } from '@kernmantle/core/base';
import { decode } from '@kernmantle/core/journal';
import { type Runtime, signalThread } from '@kernmantle/core/runtime';
import { isEnded, type Store, THREAD_STATUSES, type ThreadSummary } from '@kernmantle/core/store';
import {
  type FleetState,
  type ListedRun,
  openFleet,
  openRows,
  unservedQueues,
} from '@kernmantle/web';
import type { CommandCall, CommandRun } from '../../command.ts';
import { commandActor } from '../../project.ts';
import { createScreen } from '../../terminal/screen.ts';
import { type Terminal, visible } from '../../terminal/terminal.ts';
import { fleetHead, fleetLines } from '../../threads/fleet-view.ts';
import { type ThreadWork, untilInterrupted, withRegistry } from '../../threads/open-threads.ts';
import { fit, toldOf, unreadableOf } from '../../threads/status-text.ts';
import { commandFor, isOver, topGroups, topHead, topLines } from '../../threads/top-view.ts';

const ENDED = THREAD_STATUSES.filter(isEnded);
const ALIVE = THREAD_STATUSES.filter((status) => !isEnded(status));
const MOST_ALIVE = 200;
const REDRAW_MS = 1000;
/** Pause after an event, so that several events cause one redraw. */
const SETTLE_MS = 100;
/** Width of the list without a terminal, enough for every column. */
const SNAPSHOT_WIDTH = 140;

interface ListedThreads {
  runs: ListedRun[];
  rows: ThreadSummary[];
  /** State of the fleet. Null if the store is not on a server. */
  fleet: FleetState | null;
}
type Look = Outcome<ListedThreads>;

/** Returns a function that reads the rows: all threads that have not ended, and the last ended ones. */
async function createLook(
  store: Store,
  runtime: Runtime,
): Promise<(room: number) => Promise<Look>> {
  const reader = await openRows({ store, isHere: () => false });
  const served = () => runtime.served();
  const machines = store.fleet && (await openFleet({ store, clock: systemClock, served }));
  return async (room) => {
    await store.sweep();
    const alive = await store.query({ status: ALIVE, order_by: 'updated', limit: MOST_ALIVE });
    if (!alive.ok) return alive;
    const limit = Math.max(3, room - alive.output.rows.length);
    const ended = await store.query({ status: ENDED, kind: 'thread', order_by: 'updated', limit });
    if (!ended.ok) return ended;
    const pending = await store.approvals({ state: 'pending', limit: 1000 });
    if (!pending.ok) return pending;
    const rows = [...alive.output.rows, ...ended.output.rows];
    const runs = await reader.rows(rows, pending.output);
    if (!runs.ok) return runs;
    const fleet = machines ? await machines.read() : ok(null);
    return fleet.ok ? ok({ runs: runs.output, rows, fleet: fleet.output }) : fleet;
  };
}

/** Selection of the person, and the last message. */
interface TopState {
  selected: string | undefined;
  /** True if the view shows workers and queues instead of threads. */
  isFleet: boolean;
  /** Id of the open thread. Undefined: the view shows the list. */
  open: string | undefined;
  said: string;
}

type Key = 'up' | 'down' | 'enter' | 'back' | 'pause' | 'leave' | 'fleet';

const KEYS: Readonly<Record<string, Key>> = {
  '\u001b[A': 'up',
  '\u001b[B': 'down',
  '\u001bOA': 'up',
  '\u001bOB': 'down',
  k: 'up',
  j: 'down',
  '\r': 'enter',
  '\n': 'enter',
  '\u001b': 'back',
  p: 'pause',
  w: 'fleet',
  q: 'leave',
  '\u0003': 'leave',
  '\u0004': 'leave',
};

const ONE_KEY = /\u001b[[O][A-Z]|[^]/g;

/** Reads keys from the terminal until the signal. Reads nothing if stdin is not a terminal. */
function readKeys(onKey: (key: Key) => void, signal: AbortSignal): void {
  const { stdin } = process;
  if (!stdin.isTTY) return;
  const onData = (bytes: Buffer): void => {
    // One chunk can hold several keys.
    for (const [pressed] of bytes.toString('utf8').matchAll(ONE_KEY)) {
      const key = KEYS[pressed];
      if (key) onKey(key);
    }
  };
  const stop = (): void => {
    stdin.off('data', onData);
    stdin.setRawMode(false);
    stdin.pause();
  };
  stdin.setRawMode(true);
  stdin.resume();
  stdin.on('data', onData);
  // The terminal must echo again, even if the process exits early.
  process.once('exit', stop);
  signal.addEventListener(
    'abort',
    () => {
      process.off('exit', stop);
      stop();
    },
    { once: true },
  );
}

/** Returns one line for each of the latest events of the open thread. */
async function openedLines(
  store: Store,
  id: string,
  { columns, paint }: Terminal,
  height: number,
): Promise<string[]> {
  const events = await store.read(id, { last: height * 3 });
  if (!events.ok) return [fit(visible(events.error.detail.message), columns())];
  const lines = events.output.flatMap((event) => {
    const read = decode(event);
    const line = read.ok ? toldOf(read.output) : unreadableOf(read);
    if (!line) return [];
    const time = new Date(event.ts).toISOString().slice(11, 19);
    const place = `${time} ${String(event.turn).padStart(3)}`;
    const room = columns() - place.length - 3;
    const text = fit(visible(shorten(line.text, 500)), room);
    return [`${paint('dim', place)} ${paint(line.colour, line.mark)} ${text}`];
  });
  return lines.slice(-height);
}

async function pauseThread(call: CommandCall, store: Store, run: ListedRun): Promise<string> {
  if (isOver(run)) return `${run.id} has ended`;
  if (run.status === 'paused')
    return `already paused; resume it with \`km threads resume ${run.id}\``;
  const result = await signalThread(store, run.id, 'pause', {}, commandActor(call));
  return result.ok ? `${run.id} pauses at its next step` : result.error.detail.message;
}

const keysOf = ({ open, isFleet }: TopState, hasFleet: boolean): string => {
  if (open !== undefined) return 'Esc list · p pause · q list';
  if (isFleet) return 'w or Esc list · q list';
  return `↑↓ or j k · Enter look · p pause${hasFleet ? ' · w workers' : ''} · q leave`;
};

/** Returns the head and the list below it: threads, or workers and queues. */
function listLines(
  runs: readonly ListedRun[],
  fleet: FleetState | null,
  { isFleet, selected }: TopState,
  { columns, paint }: Terminal,
  height: number,
): string[] {
  const [width, groups] = [columns(), topGroups(runs)];
  const heads = [
    topHead(groups, width, paint),
    ...(fleet === null ? [] : [fleetHead(fleet, width, paint)]),
  ];
  const size = { width, height: height + 1 - heads.length };
  if (fleet !== null && isFleet) return [...heads, ...fleetLines(fleet, size, fleet.now, paint)];
  const time = { now: Date.now(), ...(fleet && { unserved: unservedQueues(fleet) }) };
  const lines = topLines(groups, size, time, paint, selected);
  return [...heads, ...(lines.length === 0 ? [paint('dim', 'no threads')] : lines)];
}

async function watch(
  call: CommandCall,
  { store, runtime }: ThreadWork,
  stopped: AbortSignal,
): Promise<Outcome<null>> {
  const { terminal } = call;
  const look = await createLook(store, runtime);
  const leave = new AbortController();
  const signal = AbortSignal.any([stopped, leave.signal]);
  const view: TopState = { selected: undefined, isFleet: false, open: undefined, said: '' };
  let now: ListedRun[] = [];
  let fleet: FleetState | null = null;
  let wake = new AbortController();
  const redraw = (): void => wake.abort();
  const order = (): ListedRun[] => topGroups(now).flatMap(({ rows }) => rows.map(({ run }) => run));
  const current = (): ListedRun | undefined => order().find(({ id }) => id === view.selected);

  const move = (by: number): void => {
    const rows = order();
    const at = rows.findIndex(({ id }) => id === view.selected);
    view.selected = rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.id;
  };
  const leaveOrBack = (key: Key): void => {
    const isList = view.open === undefined && !view.isFleet;
    if (key === 'leave' && isList) leave.abort();
    else if (view.open === undefined) view.isFleet = false;
    view.open = undefined;
  };
  async function press(key: Key): Promise<void> {
    view.said = '';
    if (key === 'leave' || key === 'back') leaveOrBack(key);
    else if (key === 'enter') view.open = view.open === undefined ? view.selected : undefined;
    else if (key === 'fleet') view.isFleet = fleet !== null && !view.isFleet;
    else if (key === 'up' || key === 'down') move(key === 'up' ? -1 : 1);
    const run = key === 'pause' ? current() : undefined;
    if (run) view.said = await pauseThread(call, store, run);
    redraw();
  }

  const screen = createScreen(terminal.write);
  async function draw(): Promise<Outcome<null>> {
    const height = Math.max(4, terminal.rows() - 4);
    const result = await look(height);
    if (!result.ok) return result;
    ({ runs: now, fleet } = result.output);
    if (!current()) view.selected = order()[0]?.id;
    screen.draw(await picture(height));
    return ok(null);
  }
  async function picture(height: number): Promise<string[]> {
    const { open, said } = view;
    const width = terminal.columns();
    const body =
      open === undefined
        ? listLines(now, fleet, view, terminal, height)
        : [
            terminal.paint('bold', fit(visible(open), width)),
            ...(await openedLines(store, open, terminal, height)),
          ];
    const run = view.isFleet ? undefined : current();
    const foot = [
      ...(run ? [commandFor(run)] : []),
      said === '' ? keysOf(view, fleet !== null) : said,
    ];
    return [...body, ...foot.map((line) => terminal.paint('dim', fit(visible(line), width)))];
  }

  async function listen(): Promise<void> {
    for await (const _ of store.changes({}, signal)) redraw();
  }
  const listening = listen().catch(() => undefined);
  readKeys((key) => void press(key), signal);
  process.stderr.on('resize', redraw);
  try {
    while (!signal.aborted) {
      wake = new AbortController();
      const drawn = await draw();
      if (!drawn.ok) return drawn;
      const until = AbortSignal.any([signal, wake.signal]);
      await sleep(REDRAW_MS, undefined, { signal: until }).catch(() => undefined);
      if (!signal.aborted && wake.signal.aborted) {
        await sleep(SETTLE_MS, undefined, { signal }).catch(() => undefined);
      }
    }
    return ok(null);
  } finally {
    leave.abort();
    process.stderr.off('resize', redraw);
    await listening;
    screen.close();
  }
}

/** Returns the rows of the registry with the additional fields of the page, for programs. */
function snapshotOf({ runs, rows, fleet }: ListedThreads) {
  const rowsById = new Map(rows.map((row) => [row.id, row]));
  const all = runs.map((run) => ({ ...rowsById.get(run.id), ...run }));
  return {
    alive: all.filter((run) => !isOver(run)),
    ended: all.filter(isOver),
    ...(fleet && { fleet }),
  };
}

function printSeen({ runs, fleet }: ListedThreads, terminal: Terminal): void {
  const groups = topGroups(runs);
  const all = Number.MAX_SAFE_INTEGER;
  const size = { width: SNAPSHOT_WIDTH, height: all, name: all };
  const time = { now: Date.now(), ...(fleet && { unserved: unservedQueues(fleet) }) };
  terminal.out(topHead(groups, SNAPSHOT_WIDTH, terminal.paint));
  for (const line of topLines(groups, size, time, terminal.paint)) terminal.out(line);
  if (fleet === null) return;
  terminal.out(fleetHead(fleet, SNAPSHOT_WIDTH, terminal.paint));
  for (const line of fleetLines(fleet, size, fleet.now, terminal.paint)) terminal.out(line);
}

export const watchAll: CommandRun = (call) =>
  withRegistry(call, async (access) => {
    const { terminal } = call;
    if (terminal.isLive) {
      let failed: Outcome<null> = ok(null);
      await untilInterrupted(terminal, async (signal) => {
        failed = await watch(call, access, signal);
      });
      return failed.ok ? EXIT.done : fail(failed.error.code, failed.error.detail.message);
    }
    const look = await createLook(access.store, access.runtime);
    const result = await look(20);
    if (terminal.json)
      return terminal.finish(result.ok ? ok(snapshotOf(result.output)) : result, () => {});
    return terminal.finish(result, (all) => printSeen(all, terminal));
  });
