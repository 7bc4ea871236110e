// Implements `threads show`: prints the events of one thread and its cost.
import { getOwn, isObject, type Json, masked, ok, plainText, shorten } from '@kernmantle/core/base';
import { decode, eventFlags, projectStored, readStored, summary } from '@kernmantle/core/journal';
import type { StoredEvent, ThreadRow } from '@kernmantle/core/store';
import type { CommandRun } from '../../command.ts';
import { type Terminal, visible } from '../../terminal/terminal.ts';
import { withThread } from '../../threads/open-threads.ts';
import { amountsOf } from '../../threads/result-text.ts';
import { costText, statusColour, toldOf, unreadableOf } from '../../threads/status-text.ts';

const time = (ms: number): string => new Date(ms).toISOString().replace('T', ' ').slice(0, 19);

function showHead(row: ThreadRow, terminal: Terminal): void {
  const field = (name: string, value: string): void => {
    if (value === '') return;
    terminal.out(`${terminal.paint('dim', name.padEnd(10))} ${visible(value)}`);
  };
  const reason = plainText(getOwn(row.result, 'reason'));
  terminal.out(terminal.paint('bold', row.id));
  field('title', row.title ?? '');
  field('directive', `${row.directive} ${row.version}`);
  const status = terminal.paint(statusColour(row.status), row.status);
  const why = reason === '' ? '' : `: ${visible(reason)}`;
  terminal.out(`${terminal.paint('dim', 'status'.padEnd(10))} ${status}${why}`);
  field('started', `${time(row.created)} UTC${row.ended ? `, ended ${time(row.ended)}` : ''}`);
  field('parent', row.parent ?? '');
  field('attempt', row.attempt > 1 ? String(row.attempt) : '');
  const inputs = isObject(row.inputs) ? row.inputs : {};
  field('inputs', Object.keys(inputs).length === 0 ? '' : JSON.stringify(inputs));
}

/** Returns the text of a result, or its fields as JSON. */
function resultText(content: Json | undefined): string {
  for (const name of ['content', 'text', 'stdout']) {
    const text = getOwn(content, name);
    if (typeof text === 'string') return text;
  }
  return typeof content === 'string' ? content : JSON.stringify(content ?? null);
}

function showEvent(stored: StoredEvent, max: number, terminal: Terminal): void {
  const read = decode(stored);
  const event = read.ok ? read.output : undefined;
  if (event && eventFlags(event.type).turn === 'begins') {
    terminal.out(terminal.paint('dim', `\nturn ${event.turn}`));
    return;
  }
  if (event?.type === 'tool_result' && !event.data.is_error) {
    const text = visible(shorten(masked(resultText(event.data.content)), max));
    terminal.out(`    ${terminal.paint('dim', text)}`);
    return;
  }
  const line = read.ok ? toldOf(read.output) : unreadableOf(read);
  if (!line || event?.type === 'thread_end') return;
  // The steps are compared with the plan, so the whole plan is printed.
  const isWhole = max === Number.POSITIVE_INFINITY || event?.type === 'plan';
  const text = isWhole ? line.text : shorten(line.text, max);
  const [first = '', ...rest] = visible(text).split('\n');
  terminal.out(`  ${terminal.paint(line.colour, line.mark)} ${first}`);
  for (const line of rest) terminal.out(`    ${line}`);
}

function showCost(row: ThreadRow, terminal: Terminal): void {
  const currency = plainText(row.limits.spend_currency) || 'USD';
  terminal.out(`\n${terminal.paint('bold', 'cost')}       ${costText(row.cost, currency)}`);
  for (const { name, used, max, from } of amountsOf(row)) {
    const who = terminal.paint('dim', `(${from})`);
    terminal.out(`  ${terminal.paint('dim', name.padEnd(13))} ${used} of ${max} ${who}`);
  }
}

export const run: CommandRun = (call) =>
  withThread(call, async (thread, { store, threads }) => {
    const { options, terminal } = call;
    await threads.mend(thread.id);
    const events = await readStored(store, thread.id, undefined, { isShown: true });
    if (!events.ok) return events;
    const max = options.full === true ? Number.POSITIVE_INFINITY : 200;
    const { limits: inForce } = projectStored(summary, events.output);
    const limits = { ...thread.limits, ...inForce };
    const document = { thread: { ...thread, limits }, events: events.output };
    return terminal.finish(ok(document), () => {
      showHead(thread, terminal);
      terminal.out('');
      for (const event of events.output) showEvent(event, max, terminal);
      showCost({ ...thread, limits }, terminal);
    });
  });
