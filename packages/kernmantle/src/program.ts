// What an embedding program is given: the runtime without its inside, threads and approvals by the
// names of the commands.
import { compact, fail, type Json, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import type {
  Live,
  PlainRequest,
  PlainResult,
  ReplayOptions,
  ReplayReport,
  ResumeOptions,
  RunRequest,
} from '@kernmantle/core/harness';
import type { Library } from '@kernmantle/core/items';
import type { Recorded } from '@kernmantle/core/journal';
import type { Audit, Verb } from '@kernmantle/core/kernel';
import {
  type CallOptions,
  createRuntime,
  decideApproval,
  endThread,
  personIn,
  personRow,
  type Runtime,
  type RuntimeOptions,
  type Speaker,
  spokenBy,
  type Threads,
  type Told,
  tellThread,
  waitForEnd,
} from '@kernmantle/core/runtime';
import type {
  Approval,
  ApprovalState,
  Decision,
  Store,
  ThreadFilter,
  ThreadRow,
  ThreadSummary,
} from '@kernmantle/core/store';
import { createMcpHost, type McpHost } from '@kernmantle/mcp';
import type { ScriptRun, ScriptRunResult } from '@kernmantle/script';
import { EXTENSIONS } from './extensions.ts';
import { createThreadRun, type RunResult, type ThreadCost, type ThreadRun } from './thread-run.ts';

/** `Summary` of the registry, with its cost as it is written. */
type Costed<Row> = Omit<Row, 'cost'> & { readonly cost: Partial<ThreadCost> };
export type ListedThread = Costed<ThreadSummary>;
export type ShownThread = Costed<ThreadRow>;

interface ResumeRequest extends Pick<ResumeOptions, 'from' | 'limits' | 'model'> {
  /** The next message of the person in the same conversation. */
  message?: string;
  signal?: AbortSignal;
}

/** Threads of a project: the commands `km threads …` for a program. */
export interface ProgramThreads {
  /** Runs a directive. Its events can be looped over; its result comes in the end. */
  start(request: RunRequest, options?: { signal?: AbortSignal }): ThreadRun;
  /**
   * Goes on with a thread that stands still or has ended, or goes back to a snapshot (`from`). `limits` are new
   * ceilings, what was used included. One that completed needs a `message`. Fails with `thread_ended` after
   * `denied`, `aborted` and `killed`, which are final.
   */
  resume(id: string, request?: ResumeRequest): ThreadRun;
  /** Newest first, a page at a time. Threads of hooks only when `kind` says so. */
  list(filter?: ThreadFilter): Promise<Outcome<{ rows: ListedThread[]; next_cursor?: string }>>;
  /** One thread and its journal. */
  show(id: string): Promise<Outcome<{ thread: ShownThread; events: Recorded[] }>>;
  /** Until it has ended or stands still, or the signal aborts; whichever process runs it. */
  wait(id: string, options?: { signal?: AbortSignal }): Promise<Outcome<ShownThread>>;
  pause(id: string, options?: { reason?: string }): Promise<Outcome<Told>>;
  /** It reads this before its next turn. */
  inject(
    id: string,
    message: string,
    options?: { role?: 'user' | 'system' },
  ): Promise<Outcome<Told>>;
  /** Breaks off the model's answer; with a message it goes on with that, else it stands still. */
  interrupt(id: string, message?: string): Promise<Outcome<Told>>;
  /** Ends it and everything below it, at the next step. */
  stop(id: string): Promise<Outcome<Told>>;
  /** Ends it whether it answers or not. */
  kill(id: string): Promise<Outcome<Told>>;
  /** An ended thread again, from its journal, without a model and without tools. */
  replay(id: string, options?: ReplayOptions): Promise<Outcome<ReplayReport>>;
}

/** Who decides, and why: both are recorded. */
interface DecisionBy {
  who?: string;
  why?: string;
}

/** What waits for a person: the commands `km approvals …` for a program. */
export interface ProgramApprovals {
  /** What waits, unless another state is named. */
  list(filter?: { thread?: string; state?: ApprovalState | 'all' }): Promise<Outcome<Approval[]>>;
  /**
   * `beyond`: also what the directive does not declare. `value`: from now on what steers the call counts as
   * named, in its thread and below. `scope`: the same for every path or address that this glob covers, for
   * this tool (`GLOB`, or `NAME=GLOB`); `uses` counts the calls in it. `expires`: milliseconds since 1970.
   */
  approve(
    id: string,
    options?: DecisionBy & {
      uses?: number;
      expires?: number;
      beyond?: boolean;
      value?: boolean;
      scope?: string;
    },
  ): Promise<Outcome<Approval>>;
  deny(id: string, options?: DecisionBy): Promise<Outcome<Approval>>;
  /** Words for a question. */
  answer(id: string, words: string, options?: DecisionBy): Promise<Outcome<Approval>>;
}

/** A project as MCP clients reach it. */
export interface ServedProject {
  readonly project: string;
  readonly home: string;
  readonly host: McpHost;
  readonly audit: Pick<Audit, 'write'>;
}

export interface ProgramRuntime {
  readonly project: string;
  /** The user's folder: keys, trust store, own items and policy. */
  readonly home: string;
  readonly library: Library;
  readonly threads: ProgramThreads;
  readonly approvals: ProgramApprovals;
  /** One verb, plain JSON in and out: what the command line, MCP and programs use. */
  call(verb: Verb, request: JsonObject, options?: CallOptions): Promise<Outcome<Json>>;
  /** The short universal text that tells a model how to use the four tools. */
  instructions(): string;
  /** What `runDirective`, `runScript` and `runPlain` do. */
  run(request: RunRequest, signal?: AbortSignal): Promise<Outcome<RunResult>>;
  script(request: ScriptRun, signal?: AbortSignal): Promise<Outcome<ScriptRunResult>>;
  plain(request: PlainRequest, signal?: AbortSignal): Promise<Outcome<PlainResult>>;
  /** What `startServer` serves. */
  serving(version: string, onError: (error: Error) => void): ServedProject;
  /** Threads that run are interrupted and can be resumed; nothing of the runtime stays behind. */
  close(): Promise<void>;
}

/** The parts of the runtime that runs and lists need, and whose program it is. */
interface ProgramParts extends Pick<Runtime, 'project' | 'mayRun' | 'threads' | 'registry'> {
  readonly who: string;
}

/** Opens the registry for whoever looks or steers: where nothing ever ran, nothing is made. */
function createReach({ project, registry, threads: open }: ProgramParts) {
  return async <T>(
    work: (threads: Threads) => Promise<Outcome<T>>,
    nothing: () => Outcome<T> = () => fail('not_found', `no thread has run in \`${project}\` yet`),
  ): Promise<Outcome<T>> => {
    if (!registry.isThere()) return nothing();
    const threads = await open();
    return threads.ok ? await work(threads.output) : threads;
  };
}

type Reach = ReturnType<typeof createReach>;

const inStore =
  (reach: Reach) =>
  <T>(work: (store: Store) => Promise<Outcome<T>>, nothing?: () => Outcome<T>) =>
    reach((threads) => work(threads.store), nothing);

async function runIn(
  inside: ProgramParts,
  request: RunRequest,
  signal?: AbortSignal,
  live?: Live,
): Promise<Outcome<RunResult>> {
  const may = await inside.mayRun(request);
  if (!may.ok) return may;
  const threads = await inside.threads(live);
  if (!threads.ok) return threads;
  const asked = { by: { who: inside.who, surface: 'library' }, ...request };
  return (await threads.output.run(asked, signal)) as Outcome<RunResult>;
}

async function resumeIn(
  threads: Threads,
  id: string,
  { message, signal, from, limits, model }: ResumeRequest,
  speaker: Speaker,
): ReturnType<Threads['resume']> {
  const by = spokenBy(speaker);
  const audit = personRow(speaker, 'resume', id);
  const words = message === undefined ? undefined : { text: message, by };
  const options = compact<ResumeOptions>({ from, limits, model, words, by, audit });
  return await threads.resume(id, signal, options);
}

function createProgramThreads(inside: ProgramParts, reach: Reach, by: Speaker): ProgramThreads {
  const registry = inStore(reach);
  const tell = (id: string, kind: Parameters<typeof tellThread>[2], payload: JsonObject) =>
    registry((store) => tellThread(store, id, kind, payload, by));
  return {
    start: (request, { signal } = {}) =>
      createThreadRun((live) => runIn(inside, request, signal, live)),
    resume: (id, request = {}) =>
      createThreadRun(
        (live) =>
          reach(async () => {
            const threads = await inside.threads(live);
            return threads.ok ? await resumeIn(threads.output, id, request, by) : threads;
          }),
        id,
      ),
    list: (filter = {}) =>
      registry(
        async (store) => {
          // Whose process is gone is shown as interrupted, not as running for ever.
          await store.sweep();
          return await store.query({ kind: 'thread', ...filter });
        },
        () => ok({ rows: [] }),
      ),
    show: (id) =>
      registry(async (store) => {
        const { readJournal } = await import('@kernmantle/core/journal');
        const thread = await store.thread(id);
        if (!thread.ok) return thread;
        const events = await readJournal(store, id);
        return events.ok ? ok({ thread: thread.output, events: events.output }) : events;
      }),
    wait: (id, { signal = new AbortController().signal } = {}) =>
      registry((store) => waitForEnd(store, id, signal, { untilEnd: false })),
    pause: (id, { reason } = {}) => tell(id, 'pause', reason === undefined ? {} : { reason }),
    inject: (id, content, { role = 'user' } = {}) => tell(id, 'message', { role, content }),
    interrupt: (id, content) =>
      tell(id, 'interrupt', content === undefined ? {} : { role: 'user', content }),
    stop: (id) => registry((store) => endThread(store, id, 'terminate', by)),
    kill: (id) => registry((store) => endThread(store, id, 'kill', by)),
    replay: (id, options) => reach((threads) => threads.replay(id, options)),
  };
}

function createProgramApprovals(reach: Reach, speaker: Speaker): ProgramApprovals {
  const registry = inStore(reach);
  const decide = (
    id: string,
    { who, why = '' }: DecisionBy,
    given: Omit<Decision, 'who' | 'why' | 'channel'>,
    isWords = false,
  ) =>
    registry((store) => {
      const by = who === undefined ? { by: speaker } : { by: { ...speaker, who }, who };
      return decideApproval(store, id, { ...given, ...by, why }, isWords);
    });
  return {
    list: ({ thread, state = 'pending' } = {}) =>
      registry(
        (store) => store.approvals(compact({ thread, state: state === 'all' ? undefined : state })),
        () => ok([]),
      ),
    approve(id, { uses, expires, beyond, value, scope, ...by } = {}) {
      const wide = beyond === true ? { beyond } : value === true ? { value } : undefined;
      const given = scope === undefined ? wide : { scope };
      return decide(id, by, { decision: 'approved', ...compact({ uses, expires, answer: given }) });
    },
    deny: (id, by = {}) => decide(id, by, { decision: 'denied' }),
    answer: (id, words, by = {}) => decide(id, by, { decision: 'approved', answer: words }, true),
  };
}

/** Opens a project for an embedding program, which gets the runtime without its inside. */
export async function openProgram(options: RuntimeOptions = {}): Promise<Outcome<ProgramRuntime>> {
  const opened = await createRuntime({ ...options, extensions: EXTENSIONS });
  if (!opened.ok) return opened;
  const runtime = opened.output;
  const inside = { ...runtime, who: personIn(options.env ?? process.env) };
  const by: Speaker = { who: inside.who, channel: 'library' };
  const reach = createReach(inside);
  const { project, home, library } = runtime;
  return ok({
    project,
    home,
    library,
    threads: createProgramThreads(inside, reach, by),
    approvals: createProgramApprovals(reach, by),
    call: (verb, request, call) => runtime.call(verb, request, call),
    instructions: () => runtime.instructions(),
    run: (request, signal) => runIn(inside, request, signal),
    async script(request, signal) {
      const { runScriptIn } = await import('@kernmantle/script');
      return await runScriptIn(runtime, request, signal);
    },
    plain: (request, signal) => runtime.plain(request, signal),
    serving: (version, onError) => ({
      ...runtime,
      host: createMcpHost(runtime, version, onError),
    }),
    close: () => runtime.close(),
  });
}
