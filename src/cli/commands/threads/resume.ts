// `threads resume`: goes on with a thread in this process, seen live like a new one; with `--from` from
// a snapshot of it.
import { fail, type Outcome, ok } from '../../../base/index.ts';
import type { ResumeOptions } from '../../../harness/index.ts';
import { asText, type CommandRun } from '../../command.ts';
import { findThread, signalKey, speaker } from '../../threads/open-threads.ts';
import { followRun } from '../run.ts';

function snapshotOption(text: string | undefined): Outcome<ResumeOptions> {
  if (text === undefined) return ok({});
  if (text === 'last') return ok({ from: text });
  return /^\d{1,9}$/.test(text)
    ? ok({ from: Number(text) })
    : fail('usage', `\`--from ${text}\` is no snapshot; give its number, or \`last\``);
}

export const run: CommandRun = async (call) => {
  const message = asText(call.options.message);
  const options = snapshotOption(asText(call.options.from));
  if (!options.ok) return options;
  return await followRun(call, {
    async thread(store) {
      const row = await findThread(store, asText(call.args[0]));
      return row.ok ? ok(row.output.id) : row;
    },
    async start({ store, threads }, signal, thread) {
      const { from } = options.output;
      if (from !== undefined && message !== undefined) {
        const words = { text: message, by: speaker(call) };
        return await threads.resume(thread, signal, { from, words });
      }
      if (message !== undefined) {
        const payload = { role: 'user', content: message };
        const by = speaker(call);
        const told = await store.signal({ thread, kind: 'message', payload, key: signalKey(), by });
        if (!told.ok) return told;
      }
      return await threads.resume(thread, signal, options.output);
    },
  });
};
