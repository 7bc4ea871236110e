// Creates the runtime of an embedding program. It hides the internals, and its methods for
// threads and approval requests have the names of the commands.
import { compact, fail, type Json, type JsonObject, type Outcome, ok } from '@kernmantle/core/base';
import type {
  ReplayOptions,
  ReplayReport,
  ResumeOptions,
  RunObserver,
  RunRequest,
} from '@kernmantle/core/harness';
import type { Library } from '@kernmantle/core/items';
import type { Recorded } from '@kernmantle/core/journal';
import type { Audit, Verb } from '@kernmantle/core/kernel';
import {
  type Actor,
  actorName,
  type CallOptions,
  compactThread,
  createRuntime,
  decideApproval,
  endThread,
  findPerson,
  openMemory,
  openSchedules,
  type ProjectSchedules,
  personAuditRow,
  type Runtime,
  type RuntimeOptions,
  type ScheduleRequest,
  type SignalResult,
  signalThread,
  type Threads,
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

/** A row of the registry whose cost has the fields of `ThreadCost`. */
type Costed<Row> = Omit<Row, 'cost'> & { readonly cost: Partial<ThreadCost> };
export type ListedThread = Costed<ThreadSummary>;
export type ShownThread = Costed<ThreadRow>;

interface ResumeRequest extends Pick<ResumeOptions, 'from' | 'limits' | 'model'> {
  /** Next message of the user in the same conversation. */
  message?: string;
  signal?: AbortSignal;
}

type ForkOptions = Parameters<Threads['fork']>[1];

/** `message` or `attach` is required if the model had the last word at the boundary. */
interface ForkRequest extends Omit<ForkOptions, 'by'> {
  signal?: AbortSignal;
}

export interface ProgramThreads {
  /** Runs a directive. The caller can iterate over the events and await the result. */
  start(request: RunRequest, options?: { signal?: AbortSignal }): ThreadRun;
  /**
   * Resumes a thread that is parked or has ended, or continues from a snapshot (`from`). `limits`
   * are new limits, which include what the thread has used before. A completed thread needs a
   * `message`. Fails with `thread_ended` for the final statuses `denied`, `aborted` and `killed`.
   */
  resume(id: string, request?: ResumeRequest): ThreadRun;
  /**
   * Starts a new thread that continues at a boundary (`at`) of this one: the number of an event, `turn:N` or `last`.
   * It has its own limits, and nothing of the copied part runs again. Fails with `invalid_input` for a child.
   */
  fork(id: string, request?: ForkRequest): ThreadRun;
  /** Returns one page of threads, newest first. Hooks are listed only if `kind` selects them. */
  list(filter?: ThreadFilter): Promise<Outcome<{ rows: ListedThread[]; next_cursor?: string }>>;
  show(id: string): Promise<Outcome<{ thread: ShownThread; events: Recorded[] }>>;
  /** Waits until the thread has ended or is parked, in any process, or the signal aborts. */
  wait(id: string, options?: { signal?: AbortSignal }): Promise<Outcome<ShownThread>>;
  pause(id: string, options?: { reason?: string }): Promise<Outcome<SignalResult>>;
  /** Adds a message that the thread reads before its next turn. */
  inject(
    id: string,
    message: string,
    options?: { role?: 'user' | 'system' },
  ): Promise<Outcome<SignalResult>>;
  /** Cancels the current reply. The thread continues with the message, or pauses without one. */
  interrupt(id: string, message?: string): Promise<Outcome<SignalResult>>;
  /** Makes room in the context window before the next turn. `focus`: what the summary must keep. */
  compact(id: string, options?: { focus?: string }): Promise<Outcome<SignalResult>>;
  /** Ends the thread and its descendants at the next step. */
  stop(id: string): Promise<Outcome<SignalResult>>;
  /** Ends the thread even if its process does not respond. */
  kill(id: string): Promise<Outcome<SignalResult>>;
  /** Replays an ended thread from its journal, without a model and without tools. */
  replay(id: string, options?: ReplayOptions): Promise<Outcome<ReplayReport>>;
}

/** The person who decides, and the reason. Both are recorded. */
interface DecisionBy {
  who?: string;
  why?: string;
}

export interface ProgramApprovals {
  /** Returns pending requests unless the filter names another state. */
  list(filter?: { thread?: string; state?: ApprovalState | 'all' }): Promise<Outcome<Approval[]>>;
  /**
   * `beyond` also approves what the directive does not declare. `value` trusts the values that
   * steer the call, in this thread and its descendants. `scope` is a glob (`GLOB` or `NAME=GLOB`):
   * it approves this tool for every path or address that the glob matches, for `uses` calls.
   * `expires` is in milliseconds since 1970.
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
  answer(id: string, words: string, options?: DecisionBy): Promise<Outcome<Approval>>;
}

type ScheduleAct<Name extends keyof ProjectSchedules> = ReturnType<ProjectSchedules[Name]>;

/** Schedules of signed directives. Every change is an act of the user, with an audit row. */
export interface ProgramSchedules extends Pick<ProjectSchedules, 'list' | 'show'> {
  /** Signs the schedule with the key of the user. Fails with `conflict` if the name is in use. */
  add(request: ScheduleRequest): ScheduleAct<'add'>;
  pause(name: string): ScheduleAct<'pause'>;
  resume(name: string): ScheduleAct<'resume'>;
  remove(name: string): ScheduleAct<'remove'>;
  /** Queues a run now, within the budget of the day. A server runs it. */
  run(name: string): ScheduleAct<'run'>;
}

export type PersonMemory = Awaited<ReturnType<typeof openMemory>>;

/** Texts that threads kept for later threads. Every change is an act of the user, with an audit row. */
export interface ProgramMemory extends Pick<PersonMemory, 'list'> {
  /** Confirms the text that has this hash. Fails with `conflict` if the text has changed. */
  endorse(id: string, hash: string): ReturnType<PersonMemory['endorse']>;
  forget(id: string): ReturnType<PersonMemory['forget']>;
}

/** The parts of a project that the MCP server needs. */
export interface ServedProject {
  readonly project: string;
  readonly home: string;
  readonly host: McpHost;
  readonly audit: Pick<Audit, 'write'>;
}

export interface ProgramRuntime {
  readonly project: string;
  /** Folder of the user: keys, trust store, own items and policy. */
  readonly home: string;
  readonly library: Library;
  readonly threads: ProgramThreads;
  readonly approvals: ProgramApprovals;
  readonly schedules: ProgramSchedules;
  readonly memory: ProgramMemory;
  /**
   * Calls one of the four kernel tools with plain JSON. The command line and MCP use the same path.
   */
  call(verb: Verb, request: JsonObject, options?: CallOptions): Promise<Outcome<Json>>;
  /** Returns the short text that tells a model how to use the four tools. */
  instructions(): string;
  /** Runs a directive as a thread until the thread ends or is parked. */
  run(request: RunRequest, signal?: AbortSignal): Promise<Outcome<RunResult>>;
  /** Runs a script from a file or a text under the policy for scripts. */
  script(request: ScriptRun, signal?: AbortSignal): Promise<Outcome<ScriptRunResult>>;
  serving(version: string, onError: (error: Error) => void): ServedProject;
  /** Interrupts running threads, which can be resumed later, and releases all resources. */
  close(): Promise<void>;
}

/** The parts of the runtime that runs and lists need. `who` names the user of the program. */
interface ProgramParts extends Pick<Runtime, 'project' | 'mayRun' | 'threads' | 'registry'> {
  readonly who: string;
}

/** Opens the registry for `work`. If no thread has run, returns `nothing` and creates no registry. */
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
  live?: RunObserver,
): Promise<Outcome<RunResult>> {
  const may = await inside.mayRun(request);
  if (!may.ok) return may;
  const threads = await inside.threads(live);
  if (!threads.ok) return threads;
  const identified = { by: { who: inside.who, surface: 'library' }, ...request };
  return (await threads.output.run(identified, signal)) as Outcome<RunResult>;
}

async function resumeIn(
  threads: Threads,
  id: string,
  { message, signal, from, limits, model }: ResumeRequest,
  actor: Actor,
): ReturnType<Threads['resume']> {
  const by = actorName(actor);
  const audit = personAuditRow(actor, 'resume', id);
  const words = message === undefined ? undefined : { text: message, by };
  const options = compact<ResumeOptions>({ from, limits, model, words, by, audit });
  return await threads.resume(id, signal, options);
}

function createProgramThreads(inside: ProgramParts, reach: Reach, by: Actor): ProgramThreads {
  const registry = inStore(reach);
  const tell = (id: string, kind: Parameters<typeof signalThread>[2], payload: JsonObject) =>
    registry((store) => signalThread(store, id, kind, payload, by));
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
    fork: (id, { signal, ...request } = {}) =>
      createThreadRun((live) =>
        reach(async () => {
          const threads = await inside.threads(live);
          const options = { ...request, by: { who: by.who, surface: 'library' } };
          return threads.ok ? await threads.output.fork(id, options, signal) : threads;
        }),
      ),
    list: (filter = {}) =>
      registry(
        async (store) => {
          // A thread whose process has died must be listed as interrupted, not as running.
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
    compact: (id, { focus = '' } = {}) =>
      registry((store) => compactThread(store, id, by, { focus })),
    stop: (id) => registry((store) => endThread(store, id, 'terminate', by)),
    kill: (id) => registry((store) => endThread(store, id, 'kill', by)),
    replay: (id, options) => reach((threads) => threads.replay(id, options)),
  };
}

function createProgramApprovals(reach: Reach, actor: Actor): ProgramApprovals {
  const registry = inStore(reach);
  const decide = (
    id: string,
    { who, why = '' }: DecisionBy,
    decision: Omit<Decision, 'who' | 'why' | 'channel'>,
    isWords = false,
  ) =>
    registry((store) => {
      const by = who === undefined ? { by: actor } : { by: { ...actor, who }, who };
      return decideApproval(store, id, { ...decision, ...by, why }, isWords);
    });
  return {
    list: ({ thread, state = 'pending' } = {}) =>
      registry(
        (store) => store.approvals(compact({ thread, state: state === 'all' ? undefined : state })),
        () => ok([]),
      ),
    approve(id, { uses, expires, beyond, value, scope, ...by } = {}) {
      const wide = beyond === true ? { beyond } : value === true ? { value } : undefined;
      const mode = scope === undefined ? wide : { scope };
      return decide(id, by, { decision: 'approved', ...compact({ uses, expires, answer: mode }) });
    },
    deny: (id, by = {}) => decide(id, by, { decision: 'denied' }),
    answer: (id, words, by = {}) => decide(id, by, { decision: 'approved', answer: words }, true),
  };
}

function createProgramSchedules(runtime: Runtime, by: Actor): ProgramSchedules {
  const open = () => openSchedules(runtime);
  return {
    add: async (request) => await (await open()).add(request, by),
    list: async () => await (await open()).list(),
    show: async (name) => await (await open()).show(name),
    pause: async (name) => await (await open()).pause(name, by),
    resume: async (name) => await (await open()).resume(name, by),
    remove: async (name) => await (await open()).remove(name, by),
    run: async (name) => await (await open()).run(name, by),
  };
}

export async function openProgram(options: RuntimeOptions = {}): Promise<Outcome<ProgramRuntime>> {
  const opened = await createRuntime({ ...options, extensions: EXTENSIONS });
  return opened.ok ? ok(programOver(opened.output, options)) : opened;
}

/** Returns the calls of a program over an opened runtime. */
export function programOver(
  runtime: Runtime,
  { env = process.env }: Pick<RuntimeOptions, 'env'>,
): ProgramRuntime {
  const inside = { ...runtime, who: findPerson(env) };
  const by: Actor = { who: inside.who, channel: 'library' };
  const reach = createReach(inside);
  const { project, home, library } = runtime;
  return {
    project,
    home,
    library,
    threads: createProgramThreads(inside, reach, by),
    approvals: createProgramApprovals(reach, by),
    schedules: createProgramSchedules(runtime, by),
    memory: {
      list: async (filter) => await (await openMemory(runtime)).list(filter),
      endorse: async (id, hash) => await (await openMemory(runtime)).endorse(id, hash, by),
      forget: async (id) => await (await openMemory(runtime)).forget(id, by),
    },
    call: (verb, request, call) => runtime.call(verb, request, call),
    instructions: () => runtime.instructions(),
    run: (request, signal) => runIn(inside, request, signal),
    async script(request, signal) {
      const { runScriptIn } = await import('@kernmantle/script');
      return await runScriptIn(runtime, request, signal);
    },
    serving: (version, onError) => ({
      ...runtime,
      host: createMcpHost(runtime, version, onError),
    }),
    close: () => runtime.close(),
  };
}
