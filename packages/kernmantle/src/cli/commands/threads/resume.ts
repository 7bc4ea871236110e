// Implements `threads resume`: resumes a thread with a live view, or continues from a snapshot (`--from`). An
// ended thread can resume with new limits, another model or a new message.
import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { ResumeOptions } from '@kernmantle/core/harness';
import { actorName, personAuditRow } from '@kernmantle/core/runtime';
import { asText, type CommandCall, type CommandRun } from '../../command.ts';
import { commandActor } from '../../project.ts';
import { attachmentsOf } from '../../threads/attachments.ts';
import { findThread } from '../../threads/open-threads.ts';
import { followRun, limitsOf } from '../run.ts';

function snapshotOption(text: string | undefined): Outcome<ResumeOptions['from']> {
  if (text === undefined || text === 'last') return ok(text);
  return /^\d{1,9}$/.test(text)
    ? ok(Number(text))
    : fail('usage', `\`--from ${text}\` must be the number of a snapshot, or \`last\``);
}

function optionsOf(call: CommandCall): Outcome<ResumeOptions> {
  const { options } = call;
  const from = snapshotOption(asText(options.from));
  if (!from.ok) return from;
  const limits = limitsOf(options);
  if (!limits.ok) return limits;
  const items = asText(options.items);
  if (items !== undefined && items !== 'today') {
    return fail('usage', `\`--items ${items}\` must be \`today\``);
  }
  const [text, by] = [asText(options.message), actorName(commandActor(call))];
  return ok(
    compact<ResumeOptions>({
      from: from.output,
      limits: limits.output,
      model: asText(options.model),
      items,
      attach: attachmentsOf(options),
      words: text === undefined ? undefined : { text, by },
      by,
    }),
  );
}

export const run: CommandRun = async (call) => {
  const options = optionsOf(call);
  if (!options.ok) return options;
  return await followRun(call, {
    async thread(store) {
      const row = await findThread(store, asText(call.args[0]));
      return row.ok ? ok(row.output.id) : row;
    },
    start({ threads }, signal, thread) {
      const audit = personAuditRow(commandActor(call), 'resume', thread);
      return threads.resume(thread, signal, { ...options.output, audit });
    },
  });
};
