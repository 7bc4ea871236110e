// Implements `replay`: replays an ended thread from its journal and prints the first difference from
// the recorded events.
import { compact, EXIT, type JsonObject, masked, ok, shorten } from '@kernmantle/core/base';
import type { ReplayReport } from '@kernmantle/core/harness';
import { eventLine, type Noted } from '@kernmantle/core/journal';
import type { CommandRun } from '../command.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { around, firstDifference } from '../threads/event-diff.ts';
import { countOption, withThread } from '../threads/open-threads.ts';

type Difference = NonNullable<ReplayReport['difference']>;

function side(name: string, text: string, terminal: Terminal): void {
  terminal.out(`  ${terminal.paint('dim', name.padEnd(9))} ${text}`);
}

function eventText(event: Noted | undefined): string {
  if (!event) return 'nothing; the thread had ended';
  const what = eventLine(event)?.text ?? masked(JSON.stringify(event.data));
  return visible(shorten(`${event.type} in turn ${event.turn}: ${what}`, 400));
}

/** Shows two events of the same type, cut around the first difference. */
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
