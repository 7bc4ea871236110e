// Inserts the row of a new thread: a root by itself, a child in a commit of its parent, which records it.
import { fail, type Outcome, ok } from '../../base/index.ts';
import type { HookStart, JournalEvent } from '../../journal/index.ts';
import {
  type Artifacts,
  type LeasedThread,
  type NewThread,
  noThread,
  type ScheduleChange,
} from '../../store/index.ts';
import type { Refusable } from '../thread/journal-writer.ts';
import type { HarnessPorts, HookAbout, Thread } from '../thread/thread.ts';

interface Insertion {
  parent?: Pick<Thread, 'journal' | 'hooks'>;
  fire?: (thread: NewThread) => ScheduleChange;
  /** The checkpoint at which a hook is asked. Absent: the child is not a hook. */
  about?: HookAbout;
  /** Other changes in the commit of the parent. It is called when the commit is made. */
  spawn?: () => Pick<Refusable, 'charge' | 'reserve' | 'cost'>;
}

/** Returns the event of a hook. The withheld result is stored now, so that it survives a loss of this process. */
async function hookStart(
  { held, ...about }: HookAbout,
  thread_id: string,
  directive: string,
): Promise<HookStart> {
  return { ...about, thread_id, directive, ...(held && { held: await held() }) };
}

/** Records a hook whose thread is in the store already. */
export async function recordHook(
  { journal, hooks }: Pick<Thread, 'journal' | 'hooks'>,
  about: HookAbout,
  id: string,
  directive: string,
): Promise<HookStart> {
  const start = await hookStart(about, id, directive);
  journal.note({ type: 'hook_start', data: start });
  hooks.pending.set(id, start);
  return start;
}

export async function insertThread(
  { store }: Pick<HarnessPorts, 'store'>,
  { parent, spawn, about, fire }: Insertion,
  thread: NewThread,
  artifacts?: Artifacts,
): Promise<Outcome<LeasedThread>> {
  if (!parent && fire) {
    const fired = await store.fire(fire(thread));
    const { leased } = fired.ok ? fired.output : {};
    return fired.ok && leased ? ok(leased) : fired.ok ? noThread(thread.id) : fired;
  }
  if (!parent) return await store.createThread(thread, artifacts);
  const { id: thread_id, directive, runner, detached = false } = thread;
  const start = about && (await hookStart(about, thread_id, directive));
  const event: JournalEvent = start
    ? { type: 'hook_start', data: start }
    : { type: 'spawn', data: { thread_id, directive, runner, detached } };
  const inserted = await parent.journal.commit(event, { children: [thread], ...spawn?.() });
  if (!inserted.ok) return inserted;
  if (start) parent.hooks.pending.set(thread_id, start);
  const [leased] = inserted.output.children;
  return leased ? ok(leased) : fail('internal_error', `thread \`${thread_id}\` was not created`);
}
