// Implements `policy show` and `doctor`. `policy show` prints the merged policy with the source of
// each line, and marks lines that another level overrules. `doctor` prints what this installation
// can and cannot do, and how to repair it.
import { EXIT, ok, plainText } from '@kernmantle/core/base';
import { type HealthReport, type PolicyReport, reports } from '@kernmantle/core/reports';
import { asText } from '../command.ts';
import { inProject } from '../project.ts';
import { type Colour, type Terminal, valueText, visible } from '../terminal/terminal.ts';

const COLOURS = { broken: 'red', changed: 'red', untrusted: 'red', signed: 'green' } as const;

function showPolicy({ files, lines }: PolicyReport, { out, paint }: Terminal): void {
  for (const { level, file, state } of files) {
    const colour = COLOURS[state as keyof typeof COLOURS] ?? 'dim';
    out(
      `${plainText(level).padEnd(9)} ${visible(plainText(file))} ${paint(colour, plainText(state))}`,
    );
  }
  out('');
  for (const { setting, value, from, void: isVoid } of lines) {
    const text = [value].flat().map(valueText).join(', ') || 'none';
    const origin = paint('dim', `[${from.join(', ')}]`);
    const line = `${visible(setting).padEnd(28)} ${text}`;
    out(
      isVoid ? paint('dim', `${line}  [${from.join(', ')}: has no effect]`) : `${line}  ${origin}`,
    );
  }
}

export const policy = inProject(async (runtime, { options, terminal }) => {
  const { policyReport } = await reports.policy();
  const report = policyReport(runtime, asText(options.directive));
  const code = terminal.finish(report, (output) => {
    showPolicy(output, terminal);
    terminal.diagnostics(runtime.policies().diagnostics);
  });
  const isBroken = report.ok && report.output.files.some(({ state }) => state === 'broken');
  return isBroken ? EXIT.invalid : code;
});

const MARKS: Readonly<
  Record<HealthReport['findings'][number]['state'], readonly [Colour, string]>
> = {
  good: ['green', 'ok'],
  note: ['yellow', '!'],
  bad: ['red', 'x'],
};

function showHealth({ findings }: HealthReport, terminal: Terminal): void {
  for (const { about, state, message, fix } of findings) {
    const [colour, mark] = MARKS[state];
    const sign = terminal.paint(colour, mark.padEnd(3));
    terminal.out(`${sign}${about.padEnd(16)} ${visible(message)}`);
    if (fix) terminal.out(`   ${terminal.paint('blue', 'fix')}: ${fix}`);
  }
}

export const doctor = inProject(async (runtime, { terminal }) => {
  const { healthReport } = await reports.health();
  const report = await healthReport(runtime, terminal.env);
  terminal.finish(ok(report), () => showHealth(report, terminal));
  return report.healthy ? EXIT.done : EXIT.failed;
});
