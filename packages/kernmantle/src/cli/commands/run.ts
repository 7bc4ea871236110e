// Implements `run`: a directive as a thread, within its limits, with a live view. The thread runs
// in this process, or on a worker if several machines share the store. The first Ctrl-C stops a thread
// of this process at its next step. A second one ends the process at once; the thread is interrupted
// and can be resumed.
import {
  compact,
  EXIT,
  exitCodeOf,
  type Failure,
  fail,
  type Outcome,
  ok,
  systemRandom,
} from '@kernmantle/core/base';
import type { RunRequest, ThreadResult } from '@kernmantle/core/harness';
import { checkItemText, type Library } from '@kernmantle/core/items';
import type { ProviderEndpoint } from '@kernmantle/core/llm';
import {
  type Actor,
  actorName,
  personAuditRow,
  type Runtime,
  type Threads,
} from '@kernmantle/core/runtime';
import type { Store } from '@kernmantle/core/store';
import { answerBelow, answered } from '../../conversation/answers.ts';
import { asList, asText, type CommandCall, type CommandRun, type Ending } from '../command.ts';
import { commandActor } from '../project.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { personAt } from '../threads/ask-person.ts';
import { attachmentsOf } from '../threads/attachments.ts';
import {
  awayFrom,
  howToGoOn,
  listenToLeave,
  mayLeave,
  printUnserved,
  watchServer,
} from '../threads/follow-queued.ts';
import { createRunView, type RunView } from '../threads/live-view.ts';
import { signalKey, type ThreadWork, withThreads } from '../threads/open-threads.ts';
import {
  countRefused,
  exitCodeOfThread,
  printNextStep,
  printResult,
  showResult,
} from '../threads/result-text.ts';
import { parseParameters, readInput, textsOf } from './exec.ts';

/** Time in which an interrupted thread can record its interruption. */
const LEAVE_PATIENCE_MS = 1000;

function listenForInterrupts(view: RunView, store: Store, person: Actor) {
  const controller = new AbortController();
  let [presses, last]: [number, NodeJS.Timeout | undefined] = [0, undefined];

  async function leave(): Promise<void> {
    await view.end();
    process.exit(EXIT.interrupted);
  }
  async function requestStop(): Promise<void> {
    const thread = view.isAtWork() ? view.root() : undefined;
    // Only this run receives the signal. A later resume must not be stopped by it.
    const by = actorName(person);
    const request = { kind: 'terminate', payload: { this_run: true }, key: signalKey(), by };
    const sent =
      thread === undefined
        ? undefined
        : await store.signal({ thread, ...request }, personAuditRow(person, 'stop', thread));
    if (sent?.ok) view.say('stopping; press Ctrl-C again to leave at once and resume later');
    else controller.abort();
  }
  function press(): void {
    presses += 1;
    if (presses > 2) void leave();
    else if (presses === 2) {
      last = setTimeout(() => void leave(), LEAVE_PATIENCE_MS);
      controller.abort();
    } else void requestStop();
  }
  process.on('SIGINT', press);
  process.on('SIGTERM', press);
  return {
    signal: controller.signal,
    /** Returns the number of times that the person pressed Ctrl-C. */
    count: () => presses,
    release(): void {
      clearTimeout(last);
      process.off('SIGINT', press);
      process.off('SIGTERM', press);
    },
  };
}

/** Ends the display of a thread that continues elsewhere. Prints its id. */
function printDetached(thread: string, terminal: Terminal): number {
  if (terminal.json) terminal.out(resultLine(ok({ thread_id: thread, status: 'queued' })));
  else {
    terminal.out(thread);
    terminal.note(`the thread continues: ${howToGoOn(thread)}`);
  }
  return EXIT.done;
}

/** The last line of JSON output. Its `type` distinguishes it from the events before it. */
export const resultLine = (end: Outcome<object>): string =>
  JSON.stringify({ type: 'result', ...end });

export function refuse(
  refused: Failure,
  terminal: Terminal,
  usageCodes: readonly string[],
): number {
  if (terminal.json) terminal.out(resultLine(refused));
  else terminal.finish(refused, () => {});
  const { code, detail } = refused.error;
  const isUsage = usageCodes.includes(code) || detail.attachment !== undefined;
  return isUsage ? EXIT.usage : exitCodeOf(refused.error);
}

async function finish(
  done: Outcome<ThreadResult>,
  store: Store,
  terminal: Terminal,
  usageCodes: readonly string[],
): Promise<number> {
  if (!done.ok) return refuse(done, terminal, usageCodes);
  const result = done.output;
  const refused = await countRefused(store, result.thread_id);
  if (terminal.json) terminal.out(resultLine(ok({ ...result, ...refused })));
  else {
    const row = await store.thread(result.thread_id);
    const limits = row.ok ? row.output.limits : {};
    const around = { limits, ...refused, isShared: store.fleet !== undefined };
    showResult(result, terminal);
    printResult(result, around, terminal);
    printNextStep(result, around, terminal);
  }
  return await exitCodeOfThread(result, store);
}

interface Follow {
  /** Checks whether the run may start, before anything is created. */
  mayStart?(runtime: Runtime): Promise<Outcome<null>>;
  /** Returns the id of the thread to resume. Absent: a new thread. */
  thread?(store: Store): Promise<Outcome<string>>;
  start(access: ThreadWork, signal: AbortSignal, thread: string): Promise<Outcome<ThreadResult>>;
  /** Codes of failures that are usage errors of the command line. */
  usageCodes?: readonly string[];
}

/** Implements `--replies`: a scripted provider replaces all providers. */
export async function withReplies(
  call: CommandCall,
  file: string,
  work: (call: CommandCall, standIn: ProviderEndpoint) => Promise<Ending>,
): Promise<Ending> {
  const { terminal } = call;
  const text = readInput(file);
  if (!text.ok) return fail('usage', `--replies ${text.error.detail.message}`);
  const { startScriptedProvider } = await import('@kernmantle/core/llm');
  const key = Buffer.from(systemRandom(18)).toString('base64url');
  const provider = await startScriptedProvider(text.output, { key });
  if (!provider.ok) return fail('usage', `--replies \`${file}\`: ${provider.error.detail.message}`);
  const { url, close, unused } = provider.output;
  const env = {
    ...terminal.env,
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: key,
    OPENAI_BASE_URL: url,
    OPENAI_API_KEY: key,
  };
  const standIn = { base_url: url, key: 'ANTHROPIC_API_KEY' };
  try {
    const ended = await work({ ...call, terminal: { ...terminal, env } }, standIn);
    const rest = unused();
    if (rest > 0 && ended === EXIT.done) {
      terminal.note(`${rest} ${rest === 1 ? 'reply was' : 'replies were'} not used`);
    }
    return ended;
  } finally {
    await close();
  }
}

/** Runs a thread to its end, prints the result and returns the exit code. */
export async function followRun(call: CommandCall, follow: Follow): Promise<Ending> {
  const file = asText(call.options.replies);
  if (file === undefined) return await followOne(call, follow);
  return await withReplies(call, file, (scripted, standIn) => followOne(scripted, follow, standIn));
}

/** Warns about policies with an invalid signature, whose relaxations have no effect. */
export function warnPolicies(runtime: Runtime, terminal: Terminal): void {
  const issues = runtime.policies().diagnostics.filter(({ code }) => code.startsWith('signature_'));
  terminal.diagnostics(issues.map((one) => ({ ...one, severity: 'warning' })));
}

/** At a terminal, asks the pending approval requests and resumes the thread after the answer. */
const answeredAt = (
  call: CommandCall,
  { threads }: ThreadWork,
  first: Outcome<ThreadResult>,
  signal: AbortSignal,
) => answered(personAt(call.terminal, signal), commandActor(call), threads, first, signal);

/** Follows a thread on a worker until it ends, the user leaves, or no worker serves it. */
async function followOnWorker(
  call: CommandCall,
  follow: Follow,
  access: ThreadWork,
  { view, thread, queued }: { view: RunView; thread: string; queued: Queued },
): Promise<Ending> {
  const { terminal, options } = call;
  const { usageCodes: codes = [] } = follow;
  const leaving = listenToLeave();
  const detaching = new AbortController();
  if (options.detach === true) detaching.abort();
  let [id, isUnserved, isLooked] = [thread, false, false];
  const look = async (): Promise<void> => {
    const isSo = await printUnserved(access, id, view);
    [isUnserved, isLooked] = [isUnserved || isSo, true];
    if (isUnserved && options.wait === false) detaching.abort();
  };
  queued.onMade = async (created) => {
    id = created;
    await look();
  };
  const signal = AbortSignal.any([leaving.signal, detaching.signal]);
  let away: Failure | undefined;
  const unwatch = watchServer(access, () => id, {
    onAway(why) {
      away ??= why;
      detaching.abort();
    },
    // The warning is printed once: at the start, or when the last worker has ended.
    onUnserved: () => void (isLooked && !isUnserved && look()),
  });
  const first = await follow.start(access, signal, thread);
  const done = await answeredAt(call, access, first, signal);
  unwatch();
  leaving.release();
  await view.end();
  const lost = away ?? (!done.ok && done.error.detail.place !== undefined ? done : undefined);
  if (lost && id !== '') return refuse(awayFrom(lost, id), terminal, codes);
  const hasLeft = !done.ok && done.error.code === 'cancelled';
  if (!hasLeft || id === '') return await finish(done, access.store, terminal, codes);
  if (isUnserved && options.wait === false) {
    const hint = `the thread stays queued: ${howToGoOn(id)}`;
    const none = fail('unavailable', `no worker serves thread \`${id}\``, { thread: id, hint });
    return refuse(none, terminal, codes);
  }
  const code = printDetached(id, terminal);
  return leaving.count() > 0 ? EXIT.interrupted : code;
}

/** `onMade` is called with the id of a queued thread when the thread exists. */
interface Queued {
  onMade?: (thread: string) => Promise<void>;
}

async function followOne(
  call: CommandCall,
  follow: Follow,
  standIn?: ProviderEndpoint,
): Promise<Ending> {
  const { terminal } = call;
  const view = createRunView(terminal);
  const { usageCodes: codes = [] } = follow;
  const queued: Queued = {};
  const below = answerBelow((signal) => personAt(terminal, signal), commandActor(call));
  let threads: Threads | undefined;
  try {
    return await withThreads(
      call,
      async (access) => {
        const { store } = access;
        threads = access.threads;
        const threadId = (await follow.thread?.(store)) ?? ok('');
        if (!threadId.ok) return await finish(threadId, store, terminal, codes);
        const thread = threadId.output;
        await view.begin(store, thread === '' ? undefined : thread);
        if (store.fleet)
          return await followOnWorker(call, follow, access, { view, thread, queued });
        const interrupts = listenForInterrupts(view, store, commandActor(call));
        const first = await follow.start(access, interrupts.signal, thread);
        const done = await answeredAt(call, access, first, interrupts.signal);
        below.close();
        interrupts.release();
        await view.end();
        const code = await finish(done, store, terminal, codes);
        return interrupts.count() > 0 && code !== EXIT.done ? EXIT.interrupted : code;
      },
      {
        ...view.live,
        onEvent(thread, event) {
          view.live.onEvent?.(thread, event);
          below.hear(threads, view.root(), event);
        },
        onQueued: (thread) => void queued.onMade?.(thread),
      },
      async (runtime) => {
        warnPolicies(runtime, terminal);
        const place = mayLeave(call, runtime);
        const may = place.ok ? ((await follow.mayStart?.(runtime)) ?? ok(null)) : place;
        return may.ok ? undefined : refuse(may, terminal, codes);
      },
      standIn && { standIn },
    );
  } finally {
    below.close();
    await view.end();
  }
}

const MODES = ['auto', 'results', 'off'];
const WHOLE = [/^\d{1,12}$/, 'a whole number'] as const;

/** Limits that an option of the same name narrows, each with the form of its value. */
export const LIMITS: Readonly<Record<string, readonly [pattern: RegExp, form: string]>> = {
  turns: WHOLE,
  tokens: WHOLE,
  tool_calls: WHOLE,
  spawns: WHOLE,
  depth: WHOLE,
  duration: WHOLE,
  spend: [/^\d+(\.\d{1,9})?$/, 'an amount such as 0.50'],
  context_compact: [new RegExp(`^(${MODES.join('|')})$`), `one of ${MODES.join(', ')}`],
};

export function limitsOf(
  options: Readonly<Record<string, unknown>>,
): Outcome<RunRequest['limits']> {
  const limits: Record<string, number | string> = {};
  for (const [name, [pattern, form]] of Object.entries(LIMITS)) {
    const text = asText(
      options[name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())],
    );
    if (text === undefined) continue;
    if (!pattern.test(text)) {
      return fail('usage', `\`--${name.replace('_', '-')} ${text}\` must be ${form}`);
    }
    limits[name] = pattern === WHOLE[0] ? Number(text) : text;
  }
  return ok(Object.keys(limits).length === 0 ? undefined : limits);
}

export function requestOf(call: CommandCall, library?: Library): Outcome<RunRequest> {
  const { args, options } = call;
  const words = asList(args[1]);
  const isText = library && textsOf(library, 'directive', asText(args[0]) ?? '', {});
  const inputs = parseParameters(words, isText);
  if (!inputs.ok) return inputs;
  const limits = limitsOf(options);
  if (!limits.ok) return limits;
  const isCheck = options.check === true;
  if (isCheck && options.plan !== true) return fail('usage', '`--check` needs `--plan`');
  return ok(
    compact<RunRequest>({
      directive: asText(args[0]) ?? '',
      inputs: inputs.output,
      message: asText(options.message),
      attach: attachmentsOf(options),
      model: asText(options.model),
      limits: limits.output,
      stream: options.stream === true ? true : undefined,
      plan: options.plan === true ? (isCheck ? 'check' : true) : undefined,
      by: { who: commandActor(call).who, surface: 'cli' },
    }),
  );
}

/** Warns about calls of the directive that will be denied. `check` prints the same warnings. */
export function printWarnings(name: string, { library }: Runtime, terminal: Terminal): void {
  const item = library.find('directive', name);
  if (!item.ok || item.output.source === 'bundle') return;
  const { body, file } = item.output;
  const list = checkItemText(body, file, library) ?? [];
  terminal.diagnostics(list.filter(({ severity }) => severity === 'warning'));
}

export const run: CommandRun = async (call) => {
  // Invalid options are refused before a project is opened.
  let request = requestOf(call);
  if (!request.ok) return request;
  return await followRun(call, {
    async mayStart(runtime) {
      request = requestOf(call, runtime.library);
      if (!request.ok) return request;
      const may = await runtime.mayRun(request.output);
      if (may.ok) printWarnings(request.output.directive, runtime, call.terminal);
      return may;
    },
    start: async ({ threads }, signal) =>
      request.ok ? await threads.run(request.output, signal) : request,
    usageCodes: ['invalid_input'],
  });
};
