// `threads wait`: until all of them have ended or stand still, or the time is up.
import { getOwn, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import { isEnded, type ThreadRow } from '../../store/index.ts';
import { asList, type CommandRun, EXIT } from '../command.ts';
import { visible } from '../terminal.ts';
import { countOption, findThread, withRegistry } from '../thread-access.ts';
import { exitCodeOfThread } from '../thread-ending.ts';
import { costText, statusColour } from '../thread-words.ts';
import { waitForEnd } from '../wait-thread.ts';

/** What the thread gave back, or where it stands. */
const resultOf = ({ id, status, result, cost }: ThreadRow): JsonObject => ({
  thread_id: id,
  status,
  cost,
  ...(typeof result === 'object' ? (result as JsonObject) : {}),
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
        const row = findThread(store, word);
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
