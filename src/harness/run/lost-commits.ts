// A transcript that is ahead of its registry proves lost commits: the disk kept one file and not the end of
// the other. A write that such a line names may have been done, and nobody remembers; so it is not made
// again, and the model is told. The transcript itself is written anew by whoever goes on.
import type { JsonObject } from '../../base/index.ts';
import type { LostCommits } from '../thread/ports.ts';
import { tell } from '../thread/talk.ts';
import type { Thread } from '../thread/thread.ts';
import { noteUnknown } from './unfinished-work.ts';

/** Calls of the last reply that had begun: what became of them is not known. */
function settle(thread: Thread, begun: ReadonlyMap<string, string>): void {
  for (const call of thread.talk.conversation.pending()) {
    const tool = begun.get(call.id);
    if (tool !== undefined) noteUnknown(thread, call, tool);
  }
}

/** What the transcript knew and the registry does not. */
export function tellLostCommits(thread: Thread, { events, calls }: LostCommits): void {
  if (events === 0) return;
  const data: JsonObject = { events, calls: calls.map((call) => ({ ...call })) };
  thread.journal.note({
    type: 'logged',
    data: { event_type: 'commits_lost', by: 'harness', data },
  });
  const pending = new Set(thread.talk.conversation.pending().map(({ id }) => id));
  settle(thread, new Map(calls.map(({ call_id, tool }) => [call_id, tool])));
  const unknown = calls.filter(({ call_id }) => !pending.has(call_id));
  if (unknown.length === 0) return;
  const names = unknown.map(({ tool }) => `\`${tool}\``).join(', ');
  tell(
    thread,
    `[harness] outcome_unknown: the record of this thread lost its last ${events} events. Calls of ${names} had begun that it does not remember, and they may have been done: look before you repeat them.`,
  );
}
