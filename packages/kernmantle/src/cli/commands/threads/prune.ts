// Implements `threads prune`: removes old trees of threads with their transcripts. Budgets and the audit stay.
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import { noted, personAuditRow, pruneThreads } from '@kernmantle/core/runtime';
import { asText, type CommandRun } from '../../command.ts';
import { commandActor } from '../../project.ts';
import { withRegistry } from '../../threads/open-threads.ts';

const UNITS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** Returns an option such as `30d` or `12h` in milliseconds. A number without a unit is in days. */
export function parseAge(option: string, text: string): Outcome<number> {
  const [, amount, unit = 'd'] = /^(\d{1,6})\s*([smhdw])?$/.exec(text) ?? [];
  return amount === undefined
    ? fail('usage', `\`--${option} ${text}\` must be a time such as 30d, 12h or 2w`)
    : ok(Number(amount) * (UNITS[unit] ?? 0));
}

export const run: CommandRun = (call) =>
  withRegistry(call, async ({ store, runtime }) => {
    const { options, terminal } = call;
    const { retention } = runtime.policies().policy;
    const text =
      asText(options.olderThan) ??
      (retention.days === undefined ? undefined : `${retention.days}d`);
    if (text === undefined) {
      return fail(
        'usage',
        'the age is missing; use `--older-than 30d`, or set `retention: {days: 30}` in the policy',
      );
    }
    const age = parseAge('older-than', text);
    if (!age.ok) return age;
    const keepFailed = options.keepFailed === true || retention.keep_failed === true;
    const before = Date.now() - age.output;
    const done = await pruneThreads(store, runtime.project, { before, keepFailed });
    const count = done.ok ? `${done.output.removed.length} threads` : '';
    const pruned = noted(runtime, personAuditRow(commandActor(call), 'prune', '', count), done);
    return terminal.finish(pruned, ({ removed }) =>
      terminal.out(`${removed.length} threads removed; their budgets and the audit stay`),
    );
  });
