// Implements `cost`: prints the cost of threads by directive, model and day.
import { type CostFigures, type CostSum, reports } from '@kernmantle/core/reports';
import { asText, type CommandRun } from '../command.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { withRegistry } from '../threads/open-threads.ts';
import { count } from '../threads/status-text.ts';
import { parseAge } from './threads/prune.ts';

function show(report: CostFigures, terminal: Terminal): void {
  const { currency, total, by_directive, by_model, by_day } = report;
  const line = (name: string, { threads, tokens, spend }: CostSum, more = ''): string =>
    `${spend.padStart(14)} ${currency} ${count(tokens).padStart(12)} tokens ${count(threads).padStart(6)} threads  ${visible(name)}${more && terminal.paint('dim', more)}`;
  const about = ({ denied, at_limit, summaries, estimated }: CostSum): string =>
    [
      denied > 0 ? `, ${count(denied)} denied` : '',
      at_limit > 0 ? `, ${count(at_limit)} ended at a limit` : '',
      summaries === undefined ? '' : `, ${summaries} ${currency} for summaries`,
      estimated ? ', in part estimated' : '',
    ].join('');
  terminal.out(terminal.paint('bold', 'by directive'));
  for (const group of by_directive) {
    const hook = group.kind === 'hook' ? ' (hook)' : '';
    terminal.out(line(`${group.directive}${hook}`, group, about(group)));
  }
  terminal.out(terminal.paint('bold', 'by model'));
  for (const group of by_model) {
    const { requests, input, cached, output, estimated } = group;
    const figures = `, ${count(requests)} requests, ${count(input)} in, ${count(cached)} cached, ${count(output)} out`;
    const more = `${requests > 0 ? figures : ''}${estimated ? ', in part estimated' : ''}`;
    terminal.out(line(group.model, group, more));
  }
  terminal.out(terminal.paint('bold', 'by day'));
  for (const group of by_day) terminal.out(line(group.day, group));
  terminal.out(terminal.paint('bold', line('in all', total)));
}

export const run: CommandRun = async (call) => {
  const { options, terminal } = call;
  const age = parseAge('since', asText(options.since) ?? '30d');
  if (!age.ok) return age;
  const since = Date.now() - age.output;
  const { costReport } = await reports.cost();
  return await withRegistry(
    call,
    async ({ store, runtime }) => {
      const report = await costReport(runtime, store, since);
      return terminal.finish(report, (figures) => show(figures, terminal));
    },
    async (runtime) => {
      const nothing = await costReport(runtime, undefined, since);
      return nothing.ok ? nothing.output : null;
    },
  );
};
