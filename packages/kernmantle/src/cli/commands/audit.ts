// Implements `audit`: lists the actions of threads and other callers by time.
import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import { type AuditFilter, type AuditRow, isOfUser } from '@kernmantle/core/kernel';
import { asText, type CommandCall } from '../command.ts';
import { inProject } from '../project.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';
import { findThread } from '../threads/open-threads.ts';
import { parseAge } from './threads/prune.ts';

const COLOURS = { allowed: 'green', denied: 'red', failed: 'yellow' } as const;
const MAX_ROWS = 100_000;

/** Parses an age such as `2h`, or a time as rows show it. A date means midnight in UTC. */
function sinceOption(text: string | undefined): Outcome<string | undefined> {
  if (text === undefined) return ok(undefined);
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(time)) return ok(new Date(time).toISOString());
  const age = parseAge('since', text);
  if (age.ok) return ok(new Date(Date.now() - age.output).toISOString());
  return fail('usage', `\`--since ${text}\` must be an age such as 2h or 3d, or a date`);
}

function filterOf({ options }: Pick<CommandCall, 'options'>): Outcome<AuditFilter> {
  const limit = asText(options.limit) ?? '20';
  if (!/^[1-9]\d{0,5}$/.test(limit) || Number(limit) > MAX_ROWS) {
    return fail('usage', `\`--limit ${limit}\` must be a number from 1 to ${MAX_ROWS}`);
  }
  const decision = asText(options.decision) ?? (options.denied === true ? 'denied' : undefined);
  if (decision !== undefined && !Object.hasOwn(COLOURS, decision)) {
    return fail('usage', `\`--decision ${decision}\` must be allowed, denied or failed`);
  }
  const since = sinceOption(asText(options.since));
  if (!since.ok) return since;
  return ok(
    compact<AuditFilter>({
      limit: Number(limit),
      decision: decision as AuditRow['decision'] | undefined,
      surface: asText(options.surface),
      thread: asText(options.thread),
      tool: asText(options.tool),
      since: since.output,
    }),
  );
}

function show(row: AuditRow, { out, paint }: Terminal): void {
  const { time, decision, surface, caller, operation, target, reason } = row;
  const who = caller === '' ? surface : `${surface} ${caller}`;
  const done = `${operation}${target === '' ? '' : ` ${target}`}`;
  const whose = isOfUser(row) ? 'applies to all your projects' : '';
  const notes = [reason, whose].filter(Boolean).join('; ');
  const why = notes === '' ? '' : `  ${paint('dim', visible(notes))}`;
  out(`${time} ${paint(COLOURS[decision], decision.padEnd(7))} ${visible(`${who} ${done}`)}${why}`);
}

export const run = inProject(async (runtime, { options, terminal }) => {
  const filter = filterOf({ options });
  if (!filter.ok) return filter;
  if (filter.output.thread === 'last') {
    const threads = await runtime.threads();
    const newest = threads.ok ? await findThread(threads.output.store, 'last') : threads;
    if (!newest.ok) return newest;
    filter.output.thread = newest.output.id;
  }
  const rows = await runtime.audit.read(filter.output);
  // If one source cannot be read, the rows of the other are still shown.
  if (!terminal.json) for (const row of rows.output) show(row, terminal);
  if (!rows.ok && !terminal.json)
    terminal.note('run `km doctor` to find the problem and its repair');
  return terminal.finish(rows, (list) => {
    if (list.length === 0) terminal.note('no matching rows');
  });
});
