// `threads tail`: the latest events of a thread, and with `-f` those that come.
import { isEnded, type Store, type StoredEvent } from '../../store/index.ts';
import { asText, type CommandRun, EXIT } from '../command.ts';
import { type Terminal, visible } from '../terminal.ts';
import { countOption, findThread, withRegistry } from '../thread-access.ts';
import { eventLine, shorten } from '../thread-words.ts';
import { untilInterrupted } from '../until-interrupted.ts';

function print(event: StoredEvent, terminal: Terminal): void {
  if (terminal.json) {
    terminal.out(JSON.stringify(event));
    return;
  }
  const told = eventLine(event.type, event.data) ?? {
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
    if (news.kind === 'event') {
      const { kind: _kind, position: _position, ...event } = news;
      print(event, terminal);
    } else if (isEnded(news.status)) return;
    else if (!terminal.json && news.status !== 'running') terminal.note(`now ${news.status}`);
  }
}

export const tailThread: CommandRun = async (call) => {
  const { args, options, terminal } = call;
  const limit = countOption(options, 'limit');
  if (!limit.ok) return terminal.finish(limit, () => {});
  return await withRegistry(call, async ({ store }) => {
    const row = findThread(store, asText(args[0]));
    if (!row.ok) return terminal.finish(row, () => {});
    const { id } = row.output;
    const events = store.readLast(id, limit.output ?? 20);
    if (!events.ok) return terminal.finish(events, () => {});
    for (const event of events.output) print(event, terminal);
    if (options.follow !== true || isEnded(row.output.status)) return EXIT.done;
    const seq = events.output.at(-1)?.seq ?? row.output.seq;
    return await untilInterrupted((signal) => follow(store, id, seq, terminal, signal));
  });
};
