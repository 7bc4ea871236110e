// Implements `threads tail` and `threads wait`: prints events, or waits until threads have ended or are parked.
import {
  EXIT,
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  shorten,
} from '@kernmantle/core/base';
import { decode } from '@kernmantle/core/journal';
import { waitForEnd } from '@kernmantle/core/runtime';
import { isEnded, type Store, type StoredEvent, type ThreadRow } from '@kernmantle/core/store';
import { asList, type CommandRun, type Ending } from '../../command.ts';
import { interruptible, type Terminal, visible } from '../../terminal/terminal.ts';
import {
  countOption,
  findThread,
  type ThreadWork,
  untilInterrupted,
  withRegistry,
  withThread,
} from '../../threads/open-threads.ts';
import { exitCodeOfThread } from '../../threads/result-text.ts';
import { costText, statusColour, toldOf, unreadableOf } from '../../threads/status-text.ts';

function print(event: StoredEvent, terminal: Terminal): void {
  if (terminal.json) return terminal.out(JSON.stringify(event));
  const read = decode(event);
  // Another event reports the same change, so only a status with a reason has a line.
  if (read.ok && read.output.type === 'status' && !toldOf(read.output)) return;
  const plain = { mark: '·', colour: 'dim', text: event.type } as const;
  const line = (read.ok ? toldOf(read.output) : unreadableOf(read)) ?? plain;
  const time = new Date(event.ts).toISOString().slice(11, 19);
  const place = terminal.paint('dim', `${time} ${String(event.turn).padStart(3)}`);
  const text = visible(shorten(line.text, 300));
  terminal.out(`${place} ${terminal.paint(line.colour, line.mark)} ${text}`);
}

/** Prints new events until the thread ends, the registry closes or the signal aborts. */
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
    print(news, terminal);
    if (news.type === 'thread_end') return;
    if (status === undefined || terminal.json || status === 'running' || isEnded(status)) continue;
    terminal.note(`now ${status}`);
  }
}

export const tailThread: CommandRun = async (call) => {
  const { options, terminal } = call;
  const limit = countOption(options, 'limit');
  if (!limit.ok) return limit;
  return await withThread(call, async ({ id, status, seq: latest }, { store, threads }) => {
    await threads.mend(id);
    const events = await store.read(id, { last: limit.output ?? 20 });
    if (!events.ok) return events;
    for (const event of events.output) print(event, terminal);
    if (options.follow !== true || isEnded(status)) return EXIT.done;
    const seq = events.output.at(-1)?.seq ?? latest;
    return await untilInterrupted(terminal, (signal) => follow(store, id, seq, terminal, signal));
  });
};

/** Returns the result of an ended thread, or its status. */
const resultOf = ({ id, status, result, cost }: ThreadRow): JsonObject => ({
  thread_id: id,
  status,
  cost,
  ...(result !== undefined && isObject(result) ? result : {}),
});

async function codeOf({ id, status, result }: ThreadRow, store: Store): Promise<number> {
  if (status === 'running' || status === 'spawning') return EXIT.failed;
  const code = plainText(getOwn(result, 'code'));
  return await exitCodeOfThread({ thread_id: id, status, code }, store);
}

export const waitForThreads: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const timeout = countOption(options, 'timeout');
  if (!timeout.ok) return timeout;
  const work = async ({ store }: ThreadWork, stopped: AbortSignal): Promise<Ending> => {
    const signal =
      timeout.output === undefined
        ? stopped
        : AbortSignal.any([stopped, AbortSignal.timeout(timeout.output * 1000)]);
    const rows = await Promise.all(
      asList(args[0]).map(async (word): Promise<Outcome<ThreadRow>> => {
        const row = await findThread(store, word);
        return row.ok ? await waitForEnd(store, row.output.id, signal, { untilEnd: false }) : row;
      }),
    );
    const failed = rows.find((row) => !row.ok);
    if (failed && !failed.ok) return failed;
    const ended = rows.flatMap((row) => (row.ok ? [row.output] : []));
    terminal.finish(ok(ended.map(resultOf)), () => {
      for (const { id, status, cost } of ended) {
        const still = isEnded(status) ? '' : ' still';
        terminal.out(
          `${visible(id)}${still} ${terminal.paint(statusColour(status), status)} (${costText(cost)})`,
        );
      }
    });
    if (stopped.aborted) return EXIT.interrupted;
    const codes = await Promise.all(ended.map((row) => codeOf(row, store)));
    return codes.find((code) => code !== EXIT.done) ?? EXIT.done;
  };
  return await interruptible((stopped) => withRegistry(call, (access) => work(access, stopped)));
};
