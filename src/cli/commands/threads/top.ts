// `threads top`: all threads on one screen, as the page lists them, drawn again when something happens and
// every second. Keys move, look into a thread and pause it; nothing here approves or ends anything.
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, fail, type Outcome, ok, shorten } from '../../../base/index.ts';
import { decode } from '../../../harness/index.ts';
import { tellThread } from '../../../runtime/index.ts';
import { isEnded, type Store, THREAD_STATUSES, type ThreadSummary } from '../../../store/index.ts';
import { type ListedRun, openRows } from '../../../web/index.ts';
import type { CommandCall, CommandRun } from '../../command.ts';
import { speaker } from '../../project.ts';
import { createScreen } from '../../terminal/screen.ts';
import { type Terminal, visible } from '../../terminal/terminal.ts';
import { untilInterrupted, withRegistry } from '../../threads/open-threads.ts';
import { isOver, topGroups, topHead, topLines } from '../../threads/top-view.ts';
import { fit, toldOf, unreadableOf } from '../../threads/words.ts';

const ENDED = THREAD_STATUSES.filter(isEnded);
const ALIVE = THREAD_STATUSES.filter((status) => !isEnded(status));
const MOST_ALIVE = 200;
const REDRAW_MS = 1000;
/** Many things happen at once; one picture is enough for them. */
const SETTLE_MS = 100;
/** Wide enough for every column, where nobody's screen says otherwise. */
const SNAPSHOT_WIDTH = 140;

type Look = Outcome<{ runs: ListedRun[]; rows: ThreadSummary[] }>;

/** Rows as the page has them: who is alive, and the last ones that ended. */
async function createLook(store: Store): Promise<(room: number) => Promise<Look>> {
  const made = await openRows({ store, isHere: () => false });
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
    const runs = await made.rows(rows, pending.output);
    return runs.ok ? ok({ runs: runs.output, rows }) : runs;
  };
}

/** What the person looks at, and what they were told last. */
interface View {
  selected: string | undefined;
  /** The thread that is open; the list otherwise. */
  open: string | undefined;
  said: string;
}

type Key = 'up' | 'down' | 'enter' | 'back' | 'pause' | 'leave';

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
  q: 'leave',
  '\u0003': 'leave',
  '\u0004': 'leave',
};

const ONE_KEY = /\u001b[[O][A-Z]|[^]/g;

/** Keys of whoever sits there, until the signal; nobody's where stdin is no terminal. */
function hearKeys(hear: (key: Key) => void, signal: AbortSignal): void {
  const { stdin } = process;
  if (!stdin.isTTY) return;
  const onData = (bytes: Buffer): void => {
    // Whoever types quickly sends several at once.
    for (const [pressed] of bytes.toString('utf8').matchAll(ONE_KEY)) {
      const key = KEYS[pressed];
      if (key) hear(key);
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
  // Whoever leaves in a hurry leaves a terminal that echoes.
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

/** The latest events of the open thread, one line each. */
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
    const told = read.ok ? toldOf(read.output) : unreadableOf(read);
    if (!told) return [];
    const time = new Date(event.ts).toISOString().slice(11, 19);
    const place = `${time} ${String(event.turn).padStart(3)}`;
    const room = columns() - place.length - 3;
    const text = fit(visible(shorten(told.text, 500)), room);
    return [`${paint('dim', place)} ${paint(told.colour, told.mark)} ${text}`];
  });
  return lines.slice(-height);
}

async function pauseThread(call: CommandCall, store: Store, run: ListedRun): Promise<string> {
  if (isOver(run)) return `${run.id} has ended`;
  if (run.status === 'paused') return `paused already; go on with \`km threads resume ${run.id}\``;
  const told = await tellThread(store, run.id, 'pause', {}, speaker(call));
  return told.ok ? `${run.id} pauses at its next step` : told.error.detail.message;
}

async function watch(
  call: CommandCall,
  store: Store,
  stopped: AbortSignal,
): Promise<Outcome<null>> {
  const { terminal } = call;
  const look = await createLook(store);
  const leave = new AbortController();
  const signal = AbortSignal.any([stopped, leave.signal]);
  const view: View = { selected: undefined, open: undefined, said: '' };
  let now: ListedRun[] = [];
  let wake = new AbortController();
  const redraw = (): void => wake.abort();
  const order = (): ListedRun[] => topGroups(now).flatMap(({ rows }) => rows.map(({ run }) => run));
  const current = (): ListedRun | undefined => order().find(({ id }) => id === view.selected);

  const move = (by: number): void => {
    const rows = order();
    const at = rows.findIndex(({ id }) => id === view.selected);
    view.selected = rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.id;
  };
  async function press(key: Key): Promise<void> {
    view.said = '';
    if (key === 'leave' && view.open === undefined) leave.abort();
    else if (key === 'leave' || key === 'back') view.open = undefined;
    else if (key === 'enter') view.open = view.open === undefined ? view.selected : undefined;
    else if (key === 'up' || key === 'down') move(key === 'up' ? -1 : 1);
    const run = key === 'pause' ? current() : undefined;
    if (run) view.said = await pauseThread(call, store, run);
    redraw();
  }

  const screen = createScreen(terminal.write);
  async function draw(): Promise<Outcome<null>> {
    const height = Math.max(4, terminal.rows() - 3);
    const seen = await look(height);
    if (!seen.ok) return seen;
    now = seen.output.runs;
    if (!current()) view.selected = order()[0]?.id;
    screen.draw(await picture(height));
    return ok(null);
  }
  async function picture(height: number): Promise<string[]> {
    const [width, groups] = [terminal.columns(), topGroups(now)];
    const size = { width, height };
    const { open, selected, said } = view;
    const isOpen = open !== undefined;
    const keys = isOpen
      ? 'Esc list · p pause · q list'
      : '↑↓ or j k · Enter look · p pause · q leave';
    const foot = said === '' ? keys : said;
    const body = isOpen
      ? await openedLines(store, open, terminal, height)
      : topLines(groups, size, Date.now(), terminal.paint, selected);
    const head = isOpen
      ? terminal.paint('bold', fit(visible(open), width))
      : topHead(groups, width, terminal.paint);
    const empty = body.length === 0 ? [terminal.paint('dim', 'no threads')] : body;
    return [head, ...empty, terminal.paint('dim', fit(visible(foot), width))];
  }

  async function listen(): Promise<void> {
    for await (const _ of store.changes({}, signal)) redraw();
  }
  const listening = listen().catch(() => undefined);
  hearKeys((key) => void press(key), signal);
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

/** For programs: the rows of the registry with what the page knows besides. */
function snapshotOf({ runs, rows }: Extract<Look, { ok: true }>['output']) {
  const known = new Map(rows.map((row) => [row.id, row]));
  const all = runs.map((run) => ({ ...known.get(run.id), ...run }));
  return {
    alive: all.filter((run) => !isOver(run)),
    ended: all.filter(isOver),
  };
}

export const watchAll: CommandRun = (call) =>
  withRegistry(call, async ({ store }) => {
    const { terminal } = call;
    if (terminal.isLive) {
      let failed: Outcome<null> = ok(null);
      await untilInterrupted(terminal, async (signal) => {
        failed = await watch(call, store, signal);
      });
      return failed.ok ? EXIT.done : fail(failed.error.code, failed.error.detail.message);
    }
    const look = await createLook(store);
    const seen = await look(20);
    if (terminal.json)
      return terminal.finish(seen.ok ? ok(snapshotOf(seen.output)) : seen, () => {});
    return terminal.finish(seen, ({ runs }) => {
      const groups = topGroups(runs);
      const all = Number.MAX_SAFE_INTEGER;
      const size = { width: SNAPSHOT_WIDTH, height: all, name: all };
      terminal.out(topHead(groups, SNAPSHOT_WIDTH, terminal.paint));
      for (const line of topLines(groups, size, Date.now(), terminal.paint)) terminal.out(line);
    });
  });
