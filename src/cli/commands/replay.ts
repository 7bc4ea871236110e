// `replay`: an ended thread again, from its journal, and where it would go another way today.
import { compact, ok } from '../../base/index.ts';
import type { Noted, ReplayReport } from '../../harness/index.ts';
import type { CommandRun } from '../command.ts';
import { EXIT } from '../terminal/exit-code.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { countOption, withThread } from '../threads/open-threads.ts';
import { eventLine, shorten } from '../threads/words.ts';

function side(name: string, event: Noted | undefined, terminal: Terminal): void {
  const text = event
    ? `${event.type} in turn ${event.turn}: ${eventLine(event)?.text ?? JSON.stringify(event.data)}`
    : 'nothing: it had ended';
  terminal.out(`  ${terminal.paint('dim', name.padEnd(9))} ${visible(shorten(text, 400))}`);
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
  side('recorded', difference.recorded, terminal);
  side('replayed', difference.replayed, terminal);
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
