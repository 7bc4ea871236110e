// `replay`: an ended thread again, from its journal, and where it would go another way today.
import { compact, getOwn, isObject, type Json, type JsonObject, ok } from '../../base/index.ts';
import type { Noted, ReplayReport } from '../../harness/index.ts';
import type { CommandRun } from '../command.ts';
import { EXIT } from '../terminal/exit-code.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { countOption, withThread } from '../threads/open-threads.ts';
import { eventLine, masked, shorten } from '../threads/words.ts';

type Difference = NonNullable<ReplayReport['difference']>;

interface Parted {
  path: string;
  recorded: Json | undefined;
  replayed: Json | undefined;
}

/** The first place where they are not the same, keys in their order. */
export function firstDifference(
  recorded: Json | undefined,
  replayed: Json | undefined,
  path = '',
): Parted | undefined {
  const areBoth = (test: (value: Json | undefined) => boolean) => test(recorded) && test(replayed);
  if (!areBoth((value) => isObject(value)) && !areBoth(Array.isArray)) {
    return recorded === replayed ? undefined : { path, recorded, replayed };
  }
  const [a, b] = [{ ...(recorded as JsonObject) }, { ...(replayed as JsonObject) }];
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const [left, right] = [getOwn(a, key), getOwn(b, key)];
    const found = firstDifference(left, right, path === '' ? key : `${path}.${key}`);
    if (found) return found;
  }
  return undefined;
}

const MAX = 200;
/** How much of what is the same stands before it. */
const BEFORE = 40;

/** A long value from shortly before the place where the other one departs. */
export function around(value: Json | undefined, other: Json | undefined): string {
  const areTexts = typeof value === 'string' && typeof other === 'string';
  const words = (one: Json | undefined): string =>
    one === undefined ? 'nothing' : areTexts ? String(one) : JSON.stringify(one);
  const [text, against] = [words(value), words(other)];
  let at = 0;
  while (at < text.length && text[at] === against[at]) at += 1;
  const from = text.length <= MAX ? 0 : Math.max(0, at - BEFORE);
  return visible(masked(`${from > 0 ? '…' : ''}${shorten(text.slice(from), MAX)}`));
}

function side(name: string, text: string, terminal: Terminal): void {
  terminal.out(`  ${terminal.paint('dim', name.padEnd(9))} ${text}`);
}

function eventText(event: Noted | undefined): string {
  if (!event) return 'nothing: it had ended';
  const what = eventLine(event)?.text ?? masked(JSON.stringify(event.data));
  return visible(shorten(`${event.type} in turn ${event.turn}: ${what}`, 400));
}

/** Two events of one kind differ somewhere inside: that place is what people look for. */
function showDifference({ recorded, replayed }: Difference, terminal: Terminal): void {
  const parted =
    recorded && replayed && recorded.type === replayed.type
      ? firstDifference({ ...recorded.data } as JsonObject, { ...replayed.data } as JsonObject)
      : undefined;
  side(
    'recorded',
    parted ? around(parted.recorded, parted.replayed) : eventText(recorded),
    terminal,
  );
  side(
    'replayed',
    parted ? around(parted.replayed, parted.recorded) : eventText(replayed),
    terminal,
  );
  if (parted)
    side('at', visible(`${parted.path} of ${recorded?.type} in turn ${recorded?.turn}`), terminal);
}

function show(report: ReplayReport, terminal: Terminal): void {
  const { same, recorded, isSame, difference, status } = report;
  const end = status === undefined ? '' : `, ended ${status}`;
  if (isSame || !difference) {
    terminal.out(`${terminal.paint('green', 'the same')}: ${same} of ${recorded} events${end}`);
    return;
  }
  const at = `from event ${difference.seq} on`;
  terminal.out(`${terminal.paint('red', 'different')} ${at}, after ${same} that are the same`);
  showDifference(difference, terminal);
}

export const run: CommandRun = async (call) => {
  const { options, terminal } = call;
  const until = countOption(options, 'until');
  if (!until.ok) return until;
  return await withThread(call, async ({ id }, { threads }) => {
    const done = await threads.replay(id, compact({ until: until.output }));
    if (!done.ok) return done;
    terminal.finish(ok(done.output), (report) => show(report, terminal));
    return done.output.isSame ? EXIT.done : EXIT.failed;
  });
};
