// Finds the thread that a chat continues, and holds its conversation at this terminal.
import { fail, type Outcome, ok } from '@kernmantle/core/base';
import type { RunRequest } from '@kernmantle/core/harness';
import type { ThreadRow } from '@kernmantle/core/store';
import { createSession } from '../../conversation/session.ts';
import type { CommandCall } from '../command.ts';
import { commandActor } from '../project.ts';
import { personAt } from '../threads/ask-person.ts';
import { findThread, type ThreadWork } from '../threads/open-threads.ts';

export type ChatSession = ReturnType<typeof createChat>;

/** Statuses of a thread that no line can continue. */
const FINAL: ReadonlySet<string> = new Set(['denied', 'aborted', 'killed']);

/** Returns the newest chat of this project for `last`, else the thread. Fails with `thread_ended` for a final one. */
async function findChat({ store, runtime }: ThreadWork, id: string): Promise<Outcome<ThreadRow>> {
  const served = store.fleet ? runtime.served() : undefined;
  const project = served?.ok ? { project: served.output.project } : {};
  const page =
    id === 'last' ? await store.query({ runner: 'chat', limit: 1, ...project }) : undefined;
  if (page && !page.ok) return page;
  const newest = page?.output.rows[0]?.id;
  if (page && newest === undefined) {
    return fail('not_found', 'no chat found in this project; start one with `km chat`');
  }
  const row = await findThread(store, newest ?? id);
  if (!row.ok || !FINAL.has(row.output.status)) return row;
  const message = `thread \`${row.output.id}\` has ended: ${row.output.status}, which is final; start a new chat`;
  return fail('thread_ended', message, { thread: row.output.id });
}

/** Creates the conversation of a terminal. `request` has the directive, its inputs and the first settings. */
export function createChat(call: CommandCall, work: ThreadWork, request: RunRequest) {
  const personFor = (signal: AbortSignal) => personAt(call.terminal, signal);
  const session = createSession(work.threads, { by: commandActor(call), personFor }, request);
  return {
    ...work,
    ...session,
    /** Sets the thread that the next line continues. Undefined: the next line starts a new one. */
    async open(id: string | undefined): Promise<Outcome<ThreadRow | undefined>> {
      const row = id === undefined ? ok(undefined) : await findChat(work, id);
      if (row.ok) session.open(row.output?.id);
      return row;
    },
  };
}
