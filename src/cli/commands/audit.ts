import { fail } from '../../base/index.ts';
import { asText } from '../command.ts';
import { inProject } from '../project.ts';
import { visible } from '../terminal/terminal.ts';

const COLOURS = { allowed: 'green', denied: 'red', failed: 'yellow' } as const;

export const run = inProject(async (runtime, { options, terminal }) => {
  const limit = asText(options.limit) ?? '20';
  if (!/^[1-9]\d{0,5}$/.test(limit)) {
    return fail('usage', `\`--limit ${limit}\` is not a number`);
  }
  const rows = runtime.audit.read(Number(limit), options.denied === true ? 'denied' : undefined);
  return terminal.finish(rows, (list) => {
    for (const row of list) {
      const decision = terminal.paint(COLOURS[row.decision], row.decision.padEnd(7));
      const why = row.reason ? `  ${terminal.paint('dim', visible(row.reason))}` : '';
      terminal.out(`${row.time} ${decision} ${row.surface} ${visible(row.operation)}${why}`);
    }
    if (list.length === 0) terminal.note('no rows yet');
  });
});
