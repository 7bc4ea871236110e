// Implements `threads pause|inject|interrupt|compact|stop|kill`: sends a signal to a thread, from any process. A parked
// thread handles the signal after a resume; the command itself records the end of a parked thread.
import { EXIT, fail, type Outcome, ok } from '@kernmantle/core/base';
import {
  type Actor,
  compactThread,
  endThread,
  type SignalResult,
  signalThread,
} from '@kernmantle/core/runtime';
import { isEnded, type Store, type ThreadRow } from '@kernmantle/core/store';
import { asList, asText, type CommandCall, type CommandRun } from '../../command.ts';
import { commandActor } from '../../project.ts';
import { visible } from '../../terminal/terminal.ts';
import { withThread } from '../../threads/open-threads.ts';

/** Effects of the signals on a running thread. */
const EFFECTS: Readonly<Record<string, string>> = {
  pause: 'pauses at its next step',
  message: 'reads the message before its next turn',
  interrupt: 'cancels the current reply',
  compact: 'makes room in its context window before its next turn',
  terminate: 'ends at its next step',
  kill: 'ends at once',
};

/** Returns the effect of a signal as text. A parked thread handles the signal after a resume. */
function signalText({ thread_id, kind, status }: SignalResult): string {
  if (isEnded(status)) return `${thread_id}: ${status}`;
  if (status === 'running' || status === 'spawning') {
    return `${thread_id}: ${EFFECTS[kind] ?? `received \`${kind}\``} (now ${status})`;
  }
  return `${thread_id}: it is ${status} and handles the signal after a resume`;
}

type Tell = (store: Store, row: ThreadRow, by: Actor) => Promise<Outcome<SignalResult>>;

function command(tell: (call: CommandCall) => Outcome<Tell>): CommandRun {
  return async (call) => {
    const chosen = tell(call);
    if (!chosen.ok) return chosen;
    return await withThread(call, async (row, { store }) => {
      const done = await chosen.output(store, row, commandActor(call));
      const exit = call.terminal.finish(done, (now) =>
        call.terminal.note(visible(signalText(now))),
      );
      return !done.ok && done.error.code === 'invalid_input' ? EXIT.usage : exit;
    });
  };
}

/** Returns a function that sends the signal. */
const send =
  (kind: Parameters<typeof signalThread>[2], payload: Parameters<typeof signalThread>[3]): Tell =>
  (store, { id }, by) =>
    signalThread(store, id, kind, payload, by);

export const pause = command(({ options }) => {
  const reason = asText(options.reason) ?? '';
  return ok(send('pause', reason === '' ? {} : { reason }));
});

export const inject = command(({ args, options }) => {
  const role = asText(options.role) ?? 'user';
  const content = asList(args[1]).join(' ');
  if (role !== 'user' && role !== 'system') {
    return fail('usage', `\`--role ${role}\` must be \`user\` or \`system\``);
  }
  return ok(send('message', { role, content }));
});

export const interrupt = command(({ args }) => {
  const content = asList(args[1]).join(' ');
  return ok(send('interrupt', content === '' ? {} : { role: 'user', content }));
});

export const compactConversation = command(({ options }) => {
  const focus = asText(options.focus) ?? '';
  return ok((store, { id }, by) => compactThread(store, id, by, { focus }));
});

export const stop = command(() => ok((store, { id }, by) => endThread(store, id, 'terminate', by)));
export const kill = command(() => ok((store, { id }, by) => endThread(store, id, 'kill', by)));
