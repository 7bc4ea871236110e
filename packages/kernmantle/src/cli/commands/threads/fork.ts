// Implements `threads fork`: forks a thread at a boundary of its journal and follows the fork as `resume` does.
import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import { readForkPoint } from '@kernmantle/core/journal';
import type { Threads } from '@kernmantle/core/runtime';
import { asText, type CommandCall, type CommandRun } from '../../command.ts';
import { commandActor } from '../../project.ts';
import { attachmentsOf } from '../../threads/attachments.ts';
import { findThread } from '../../threads/open-threads.ts';
import { followRun, limitsOf } from '../run.ts';

type ForkRequest = Parameters<Threads['fork']>[1];

function pointOption(text: string | undefined): Outcome<ForkRequest['at']> {
  const point = text === undefined ? undefined : readForkPoint(text);
  return text === undefined || point !== undefined
    ? ok(point)
    : fail('usage', `\`--at ${text}\` must be the number of an event, \`turn:N\` or \`last\``);
}

function optionsOf(call: CommandCall): Outcome<ForkRequest> {
  const { options } = call;
  const at = pointOption(asText(options.at));
  if (!at.ok) return at;
  const limits = limitsOf(options);
  if (!limits.ok) return limits;
  return ok(
    compact<ForkRequest>({
      at: at.output,
      limits: limits.output,
      model: asText(options.model),
      message: asText(options.message),
      attach: attachmentsOf(options),
      by: { who: commandActor(call).who, surface: 'cli' },
    }),
  );
}

export const run: CommandRun = async (call) => {
  const options = optionsOf(call);
  if (!options.ok) return options;
  return await followRun(call, {
    async start({ threads, store }, signal) {
      const row = await findThread(store, asText(call.args[0]));
      return row.ok ? await threads.fork(row.output.id, options.output, signal) : row;
    },
    usageCodes: ['invalid_input'],
  });
};
