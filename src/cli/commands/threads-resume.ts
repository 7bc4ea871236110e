// `threads resume`: goes on with a thread in this process, seen live like a new one.
import { ok } from '../../base/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { followRun } from '../follow-run.ts';
import { findThread, signalKey, speaker } from '../thread-access.ts';

export const run: CommandRun = (call) => {
  const message = asText(call.options.message);
  return followRun(call, {
    thread(store) {
      const row = findThread(store, asText(call.args[0]));
      return row.ok ? ok(row.output.id) : row;
    },
    async start({ store, threads }, signal, thread) {
      if (message !== undefined) {
        const payload = { role: 'user', content: message };
        const told = store.signal(thread, 'message', payload, signalKey(), speaker(call));
        if (!told.ok) return told;
      }
      return await threads.resume(thread, signal);
    },
  });
};
