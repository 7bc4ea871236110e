// `threads top`: who is at work now, drawn again whenever something happens and every second.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Outcome, ok, plainText } from '../../base/index.ts';
import { isEnded, type Store, THREAD_STATUSES, type ThreadSummary } from '../../store/index.ts';
import type { CommandRun } from '../command.ts';
import { createScreen } from '../screen.ts';
import type { Terminal } from '../terminal.ts';
import { withRegistry } from '../thread-access.ts';
import { untilInterrupted } from '../until-interrupted.ts';
import { threadHead, threadLine } from './threads-ls.ts';

const ALIVE = THREAD_STATUSES.filter((status) => !isEnded(status));
const REDRAW_MS = 1000;

interface Now {
  alive: ThreadSummary[];
  /** The last ones that ended, for whoever looks away for a moment. */
  ended: ThreadSummary[];
}

function look(store: Store, rows: number): Outcome<Now> {
  store.interruptExpired();
  const alive = store.query({ status: ALIVE, order_by: 'updated', limit: rows });
  if (!alive.ok) return alive;
  const room = Math.max(3, rows - alive.output.rows.length);
  const ended = store.query({
    status: THREAD_STATUSES.filter(isEnded),
    order_by: 'updated',
    limit: room,
  });
  return ended.ok ? ok({ alive: alive.output.rows, ended: ended.output.rows }) : ended;
}

function linesOf({ alive, ended }: Now, terminal: Terminal): string[] {
  const running = alive.filter(({ status }) => status === 'running').length;
  const spend = alive.reduce((sum, { cost }) => sum + Number(plainText(cost.spend ?? '0')), 0);
  const sum = `${running} running, ${alive.length - running} waiting, ${spend.toFixed(4)} spent by them`;
  const now = Date.now();
  return [
    terminal.paint('bold', sum),
    threadHead(terminal),
    ...alive.map((row) => threadLine(row, now, terminal)),
    ...(ended.length === 0 ? [] : [terminal.paint('dim', 'ended lately')]),
    ...ended.map((row) => threadLine(row, now, terminal)),
  ];
}

async function watch(store: Store, terminal: Terminal, signal: AbortSignal): Promise<void> {
  const screen = createScreen(terminal.write);
  try {
    while (!signal.aborted) {
      const now = look(store, Math.max(5, terminal.rows() - 5));
      if (!now.ok) return;
      screen.draw([...linesOf(now.output, terminal), terminal.paint('dim', 'Ctrl-C leaves')]);
      await sleep(REDRAW_MS, undefined, { signal }).catch(() => undefined);
    }
  } finally {
    screen.close();
  }
}

export const watchAll: CommandRun = (call) =>
  withRegistry(call, async ({ store }) => {
    const { terminal } = call;
    if (terminal.isLive) {
      return await untilInterrupted((signal) => watch(store, terminal, signal));
    }
    return terminal.finish(look(store, 20), (now) => {
      for (const line of linesOf(now, terminal)) terminal.out(line);
    });
  });
