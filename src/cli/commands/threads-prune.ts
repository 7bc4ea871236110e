// `threads prune`: old trees go, with their transcripts; what they cost and the audit stay.
import { fail } from '../../base/index.ts';
import { pruneThreads } from '../../runtime.ts';
import { asText, type CommandRun } from '../command.ts';
import { parseAge } from '../parse-age.ts';
import { withRegistry } from '../thread-access.ts';

export const run: CommandRun = (call) =>
  withRegistry(call, async ({ store, runtime }) => {
    const { options, terminal } = call;
    const { retention } = runtime.policies().policy;
    const text =
      asText(options.olderThan) ??
      (retention.days === undefined ? undefined : `${retention.days}d`);
    if (text === undefined) {
      const missing = fail(
        'usage',
        'how old is old? Say `--older-than 30d`, or set `retention: {days: 30}` in the policy',
      );
      return terminal.finish(missing, () => {});
    }
    const age = parseAge('older-than', text);
    if (!age.ok) return terminal.finish(age, () => {});
    const keepFailed = options.keepFailed === true || retention.keep_failed === true;
    const before = Date.now() - age.output;
    const pruned = pruneThreads(store, runtime.project, { before, keepFailed });
    return terminal.finish(pruned, ({ removed }) =>
      terminal.out(`${removed.length} threads removed; their budgets and the audit stay`),
    );
  });
