// `doctor`: what this installation can and cannot do, and how to mend what is missing.
import { ok } from '../../base/index.ts';
import { type HealthReport, reports } from '../../runtime/index.ts';
import { inProject } from '../project.ts';
import { EXIT } from '../terminal/exit-code.ts';
import { type Colour, type Terminal, visible } from '../terminal/terminal.ts';

const MARKS: Readonly<
  Record<HealthReport['findings'][number]['state'], readonly [Colour, string]>
> = {
  good: ['green', 'ok'],
  note: ['yellow', '!'],
  bad: ['red', 'x'],
};

function show({ findings }: HealthReport, terminal: Terminal): void {
  for (const { about, state, message, fix } of findings) {
    const [colour, mark] = MARKS[state];
    const shown = terminal.paint(colour, mark.padEnd(3));
    terminal.out(`${shown}${about.padEnd(16)} ${visible(message)}`);
    if (fix) terminal.out(`   ${terminal.paint('blue', 'fix')}: ${fix}`);
  }
}

export const run = inProject(async (runtime, { terminal }) => {
  const { healthReport } = await reports.health();
  const report = await healthReport(runtime, terminal.env);
  terminal.finish(ok(report), () => show(report, terminal));
  return report.healthy ? EXIT.done : EXIT.failed;
});
