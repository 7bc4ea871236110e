// `threads tail`: the latest events of a thread, and with `-f` those that come.

import { setTimeout as sleep } from 'node:timers/promises';
import {
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../../base/index.ts';
import { decode } from '../../../harness/index.ts';
import {
  isEnded,
  type Store,
  type StoredEvent,
  THREAD_STATUSES,
  type ThreadRow,
  type ThreadSummary,
} from '../../../store/index.ts';
import { asList, asText, type CommandRun } from '../../command.ts';
import { EXIT } from '../../terminal/exit-code.ts';
import { createScreen } from '../../terminal/screen.ts';
import { type Terminal, visible } from '../../terminal/terminal.ts';
import { exitCodeOfThread } from '../../threads/ending.ts';
import {
  countOption,
  findThread,
  untilInterrupted,
  waitForEnd,
  withRegistry,
} from '../../threads/open-threads.ts';
import { costText, eventLine, shorten, statusColour, unreadableLine } from '../../threads/words.ts';
import { threadHead, threadLine } from './list.ts';

function print(event: StoredEvent, terminal: Terminal): void {
  if (terminal.json) {
    terminal.out(JSON.stringify(event));
    return;
  }
  // What else happened says it too.
  if (event.type === 'status') return;
  const read = decode(event);
  const told = (read.ok ? eventLine(read.output) : unreadableLine(read)) ?? {
    mark: '·',
    colour: 'dim' as const,
    text: event.type,
  };
  const time = new Date(event.ts).toISOString().slice(11, 19);
  const place = terminal.paint('dim', `${time} ${String(event.turn).padStart(3)}`);
  terminal.out(
    `${place} ${terminal.paint(told.colour, told.mark)} ${visible(shorten(told.text, 300))}`,
  );
}

/** Ends with the thread, with the registry, or with Ctrl-C. */
async function follow(
  store: Store,
  thread: string,
  seq: number,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<void> {
  for await (const news of store.watch({ thread, seq }, signal)) {
    const read = decode(news);
    const status = read.ok && read.output.type === 'status' ? read.output.data.status : undefined;
    if (status === undefined || terminal.json) print(news, terminal);
    if (news.type === 'thread_end') return;
    if (status === undefined || terminal.json || status === 'running' || isEnded(status)) continue;
    terminal.note(`now ${status}`);
  }
}

export const tailThread: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const limit = countOption(options, 'limit');
  if (!limit.ok) return terminal.finish(limit, () => {});
  return await withRegistry(call, async ({ store }) => {
    const row = await findThread(store, asText(args[0]));
    if (!row.ok) return terminal.finish(row, () => {});
    const { id } = row.output;
    const events = await store.read(id, { last: limit.output ?? 20 });
    if (!events.ok) return terminal.finish(events, () => {});
    for (const event of events.output) print(event, terminal);
    if (options.follow !== true || isEnded(row.output.status)) return EXIT.done;
    const seq = events.output.at(-1)?.seq ?? row.output.seq;
    return await untilInterrupted((signal) => follow(store, id, seq, terminal, signal));
  });
};

// `threads top`: who is at work now, drawn again whenever something happens and every second.

const ALIVE = THREAD_STATUSES.filter((status) => !isEnded(status));
const REDRAW_MS = 1000;

interface Now {
  alive: ThreadSummary[];
  /** The last ones that ended, for whoever looks away for a moment. */
  ended: ThreadSummary[];
}

async function look(store: Store, rows: number): Promise<Outcome<Now>> {
  await store.sweep();
  const alive = await store.query({ status: ALIVE, order_by: 'updated', limit: rows });
  if (!alive.ok) return alive;
  const room = Math.max(3, rows - alive.output.rows.length);
  const ended = await store.query({
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
      const now = await look(store, Math.max(5, terminal.rows() - 5));
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
    return terminal.finish(await look(store, 20), (now) => {
      for (const line of linesOf(now, terminal)) terminal.out(line);
    });
  });

// `threads wait`: until all of them have ended or stand still, or the time is up.

/** What the thread gave back, or where it stands. */
const resultOf = ({ id, status, result, cost }: ThreadRow): JsonObject => ({
  thread_id: id,
  status,
  cost,
  ...(result !== undefined && isObject(result) ? result : {}),
});

function codeOf({ status, result }: ThreadRow): number {
  if (status === 'running' || status === 'spawning') return EXIT.failed;
  const code = plainText(getOwn(result, 'code'));
  return exitCodeOfThread({ status, ...(code === '' ? {} : { code }) });
}

export const waitForThreads: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const timeout = countOption(options, 'timeout');
  if (!timeout.ok) return terminal.finish(timeout, () => {});
  return await withRegistry(call, async ({ store }) => {
    const signal =
      timeout.output === undefined
        ? new AbortController().signal
        : AbortSignal.timeout(timeout.output * 1000);
    const rows = await Promise.all(
      asList(args[0]).map(async (word): Promise<Outcome<ThreadRow>> => {
        const row = await findThread(store, word);
        return row.ok ? await waitForEnd(store, row.output.id, signal, { untilEnd: false }) : row;
      }),
    );
    const failed = rows.find((row) => !row.ok);
    if (failed && !failed.ok) return terminal.finish(failed, () => {});
    const ended = rows.flatMap((row) => (row.ok ? [row.output] : []));
    terminal.finish(ok(ended.map(resultOf)), () => {
      for (const { id, status, cost } of ended) {
        const still = isEnded(status) ? '' : ' still';
        terminal.out(
          `${visible(id)}${still} ${terminal.paint(statusColour(status), status)} (${costText(cost)})`,
        );
      }
    });
    return ended.map(codeOf).find((code) => code !== EXIT.done) ?? EXIT.done;
  });
};
