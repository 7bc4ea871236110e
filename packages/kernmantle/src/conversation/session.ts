// Holds one conversation. The first line starts a thread, and each later line is a follow-up of it. Between lines the
// thread has ended and no process holds it, so nothing is lost with the terminal.
import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { Attachment, ResumeOptions, RunRequest, ThreadResult } from '@kernmantle/core/harness';
import type { Noted } from '@kernmantle/core/journal';
import {
  type Actor,
  actorName,
  compactThread,
  personAuditRow,
  signalThread,
  type Threads,
} from '@kernmantle/core/runtime';
import { answerBelow, answered, type PersonFor } from './answers.ts';

/** One line of the person, with its files and pastes. */
export interface ChatLine {
  readonly text: string;
  readonly attach?: readonly Attachment[];
}

/** The person of a conversation, and how they are asked about calls. */
interface ChatPerson {
  readonly by: Actor;
  readonly personFor: PersonFor;
}

export type ConversationSession = ReturnType<typeof createSession>;
type ChatRound = Outcome<ThreadResult>;

/** Creates a conversation. `request` has the directive, its inputs and the first settings. */
export function createSession(
  threads: Threads,
  { by, personFor }: ChatPerson,
  request: RunRequest,
) {
  const { store } = threads;
  const below = answerBelow(personFor, by);
  let thread: string | undefined;
  let running: AbortController | undefined;
  let onRequest = (): void => {};
  /** Settings that the next line brings. */
  let next: Pick<ResumeOptions, 'limits' | 'model' | 'mode' | 'compact'> = {};
  /** True if the next line continues in a fork, and this thread stays as it is. */
  let isForked = false;

  function followUp(
    id: string,
    line: ChatLine | undefined,
    signal: AbortSignal,
  ): Promise<ChatRound> {
    const isFilesOnly = line?.text === '' && line.attach !== undefined;
    const options = compact<ResumeOptions>({
      ...next,
      words: line && !isFilesOnly ? { text: line.text, by: actorName(by) } : undefined,
      attach: line?.attach,
      by: actorName(by),
      audit: personAuditRow(by, 'resume', id),
    });
    return threads.resume(id, signal, options);
  }
  /** Runs the line in a fork of the thread. */
  async function forkWith(id: string, line: ChatLine, signal: AbortSignal): Promise<ChatRound> {
    const { compact: _, ...settings } = next;
    const done = await threads.fork(
      id,
      {
        ...settings,
        message: line.text,
        ...(line.attach && { attach: line.attach }),
        by: { who: by.who, surface: by.channel },
      },
      signal,
    );
    if (done.ok) isForked = false;
    return done;
  }
  async function round(line?: ChatLine): Promise<ChatRound> {
    running = new AbortController();
    const { signal } = running;
    const { compact: _, ...settings } = next;
    const start = { ...request, ...settings, message: line?.text, attach: line?.attach };
    const first =
      thread === undefined
        ? await threads.run(compact<RunRequest>(start), signal)
        : await (isForked && line
            ? forkWith(thread, line, signal)
            : followUp(thread, line, signal));
    if (first.ok) [thread, next] = [first.output.thread_id, {}];
    const done = await answered(personFor(signal), by, threads, first, signal);
    running = undefined;
    return done;
  }

  return {
    threads,
    store,
    by,
    directive: request.directive,
    id: () => thread,
    isWorking: () => running !== undefined,
    /** Sends a line, or without one resumes the thread. Resolves when the thread has ended or waits for a person. */
    round,
    /** Sends a line to the running thread, which reads it before its next turn. False: the thread has just ended. */
    async inject({ text }: ChatLine): Promise<boolean> {
      if (thread === undefined) return false;
      const payload = { role: 'user', content: text };
      return (await signalThread(store, thread, 'message', payload, by)).ok;
    },
    /** Calls off the reply and the calls under way. A worker pauses the thread first, so that it does not go on. */
    async interrupt(): Promise<void> {
      if (running && thread !== undefined) {
        if (store.fleet) await signalThread(store, thread, 'pause', {}, by);
        await signalThread(store, thread, 'interrupt', { reason: 'interrupted by the person' }, by);
      }
      if (!store.fleet) running?.abort();
    },
    /** Ends the work of this process. The thread is interrupted, and a worker goes on with it. */
    abort: () => running?.abort(),
    /** Sets the thread that the next line continues. Undefined: the next line starts a new one. */
    open(id: string | undefined): void {
      [thread, isForked] = [id, false];
    },
    set(news: typeof next): void {
      next = { ...next, ...news };
    },
    /** Makes room before the next turn: now if the thread is working, else when the next line resumes it. */
    async makeRoom(focus: string): Promise<Outcome<unknown>> {
      if (thread === undefined)
        return fail('not_found', 'the chat has no thread yet; write a line first');
      if (running) return await compactThread(store, thread, by, { focus });
      next = { ...next, compact: { focus } };
      return ok(null);
    },
    /** Lets the next line continue in a fork. */
    fork(): Outcome<null> {
      if (thread === undefined)
        return fail('not_found', 'the chat has no thread yet; write a line first');
      isForked = true;
      return ok(null);
    },
    /** Receives each event, for the id of a new thread and for approval requests of threads below it. */
    hear(id: string, event: Noted): void {
      if (running) thread ??= id;
      below.hear(threads, thread, event);
      const isAsked = event.type === 'approval' && event.data.state === 'pending';
      if (isAsked && id !== thread) onRequest();
    },
    /** Calls the listener when a thread below this one asks a person. */
    whenAsked(listener: () => void): void {
      onRequest = listener;
    },
    close: () => below.close(),
  };
}
