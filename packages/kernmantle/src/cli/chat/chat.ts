// Implements `chat`: a conversation about a project. An ordinary thread runs it, under the rights and limits of its
// directive. A terminal gets an editor and a status line, a program gets JSON lines.
import { compact, EXIT, type Failure, fail, type Outcome, ok } from '@kernmantle/core/base';
import type { RunRequest } from '@kernmantle/core/harness';
import type { ProviderEndpoint } from '@kernmantle/core/llm';
import { chatDirective, type Runtime, type ThreadObserver } from '@kernmantle/core/runtime';
import type { ChatLine } from '../../conversation/session.ts';
import { asText, type CommandCall, type CommandRun, type Ending } from '../command.ts';
import {
  printWarnings,
  refuse as refuseStart,
  requestOf,
  warnPolicies,
  withReplies,
} from '../commands/run.ts';
import { askLine } from '../terminal/terminal.ts';
import { mayLeave } from '../threads/follow-queued.ts';
import { createRunView } from '../threads/live-view.ts';
import { type ThreadWork, withThreads } from '../threads/open-threads.ts';
import { exitCodeOfThread, showResult } from '../threads/result-text.ts';
import { type ChatSession, createChat } from './session.ts';

const USAGE =
  'a chat needs a terminal; pass one message with `-m TEXT`, or use `--json` from a program';
const LEAVING = ['SIGTERM', 'SIGHUP'] as const;
/** Time in which the thread can record its interruption. */
const LEAVE_PATIENCE_MS = 1000;

/** Runs the work. SIGTERM and the loss of the terminal call off the reply and end the input; the exit code is 130. */
async function untilLost(session: () => ChatSession | undefined, work: () => Promise<Ending>) {
  let isLost = false;
  const leave = (): void => {
    isLost = true;
    session()?.abort();
    process.stdin.destroy();
    setTimeout(() => process.exit(EXIT.interrupted), LEAVE_PATIENCE_MS).unref();
  };
  for (const signal of LEAVING) process.on(signal, leave);
  try {
    const ended = await work();
    return isLost ? EXIT.interrupted : ended;
  } finally {
    for (const signal of LEAVING) process.off(signal, leave);
  }
}

/** Sends one line and prints its result, without a terminal. */
async function oneRound(session: ChatSession, line: ChatLine, { terminal }: CommandCall) {
  const done = await session.round(line);
  if (!done.ok) return done;
  showResult(done.output, terminal);
  return await exitCodeOfThread(done.output, session.store);
}

/** Talks at a terminal that cannot draw: a line, its result, the next line. Ctrl-C interrupts a reply. */
async function plainRounds(session: ChatSession, first: ChatLine | undefined, call: CommandCall) {
  const { terminal } = call;
  const interrupt = (): void => void session.interrupt();
  for (let line = first; ; line = undefined) {
    const typed = line?.text ?? (await askLine(terminal, '› '));
    if (typed === undefined || typed.trim() === '/quit') return EXIT.done;
    if (typed.trim() === '') continue;
    process.on('SIGINT', interrupt);
    const done = await session.round(line ?? { text: typed });
    process.off('SIGINT', interrupt);
    if (done.ok) showResult(done.output, terminal);
    else terminal.finish(done, () => {});
  }
}

function requestFor(call: CommandCall, runtime: Runtime): Outcome<RunRequest> {
  const name = asText(call.args[0]);
  const directive = name === undefined ? chatDirective(runtime.home) : ok(name);
  if (!directive.ok) return directive;
  const args = [directive.output, ...call.args.slice(1)];
  const request = requestOf({ ...call, args }, runtime.library);
  return request.ok ? ok({ ...request.output, chat: true }) : request;
}

async function open(call: CommandCall, standIn?: ProviderEndpoint): Promise<Ending> {
  const { terminal, options } = call;
  const isTalk = terminal.isInteractive && terminal.isLive;
  const front = isTalk
    ? (await import('./terminal-chat.ts')).createTerminalChat(terminal)
    : undefined;
  const view = front ? undefined : createRunView(terminal);
  let session: ChatSession | undefined;
  let request: Outcome<RunRequest> = fail('internal_error', 'no request');
  const message = asText(options.message);
  const refuse = (refused: Failure): Ending => refuseStart(refused, terminal, ['invalid_input']);

  async function talk(access: ThreadWork): Promise<Ending> {
    if (!request.ok) return refuse(request);
    const { message: _, attach, ...rest } = request.output;
    session = createChat(call, access, rest);
    const row = await session.open(asText(options.resume));
    if (!row.ok) return refuse(row);
    const first = message === undefined ? undefined : { text: message, ...(attach && { attach }) };
    if (front) return await front.run(session, first);
    await view?.begin(access.store, row.output?.id);
    if (terminal.json && view) {
      const { jsonChat } = await import('./json-chat.ts');
      return await jsonChat(session, { terminal, view, first });
    }
    if (!terminal.isInteractive) return await oneRound(session, first ?? { text: '' }, call);
    return await plainRounds(session, first, call);
  }
  const observer = {
    onText: front?.live.onText ?? view?.live.onText,
    onEvent(thread: string, event: Parameters<ChatSession['hear']>[1]) {
      if (front) return front.live.onEvent(thread, event);
      session?.hear(thread, event);
      view?.live.onEvent?.(thread, event);
    },
  };
  return await untilLost(
    () => session,
    () =>
      withThreads(
        call,
        async (access) => {
          try {
            return await talk(access);
          } finally {
            session?.close();
            await view?.end();
          }
        },
        compact<ThreadObserver>(observer),
        async (runtime) => {
          warnPolicies(runtime, terminal);
          request = requestFor(call, runtime);
          if (!request.ok) return refuse(request);
          const place = mayLeave(call, runtime);
          if (!place.ok) return refuse(place);
          const may = await runtime.mayRun(request.output);
          if (may.ok) printWarnings(request.output.directive, runtime, terminal);
          return may.ok ? undefined : refuse(may);
        },
        standIn && { standIn },
      ),
  );
}

export const run: CommandRun = async (call) => {
  const { terminal, options } = call;
  if (!terminal.isInteractive && !terminal.json && options.message === undefined) {
    return fail('usage', USAGE);
  }
  const replies = asText(options.replies);
  return replies === undefined ? await open(call) : await withReplies(call, replies, open);
};
