// Opens the library for agents in code, and runs agents. Every run is a thread of the harness: this file adds names
// and types, and no rights.
import { resolve } from 'node:path';
import type { Failure, Fault, Json, JsonObject, Outcome } from '@kernmantle/core/base';
import type { Attachment, ModelPort, RunRequest } from '@kernmantle/core/harness';
import {
  approvalDigest,
  createRuntime,
  findPerson,
  type Runtime,
  type RuntimeOptions,
} from '@kernmantle/core/runtime';
import { EXTENSIONS } from '../extensions.ts';
import { type ProgramRuntime, programOver } from '../program.ts';
import { createThreadRun, type RunResult, type ThreadCost, type ThreadRun } from '../thread-run.ts';
import {
  type AgentLimits,
  type AgentOptions,
  type CompiledAgent,
  checkLimits,
  compileAgent,
  type OutputSchema,
} from './compile.ts';
import { checkNames, invalidOption, KernmantleError } from './error.ts';
import { type AgentEvent, type ApprovalReader, agentEvents, plainLabels } from './stream.ts';
import { AgentTool, type InputOf, isStandard } from './tool.ts';

/** A model in this process, such as the one of `scriptedModel`. It answers every request, and no key is needed. */
export interface ModelInProcess {
  /** Name of the model whose prices and limits apply. */
  readonly model: string;
  readonly port: ModelPort;
}

type SdkModels = NonNullable<RuntimeOptions['models']>;

export interface KernmantleOptions extends Pick<RuntimeOptions, 'env'> {
  /**
   * A tier, the id of a model, a model object of the AI SDK, or a model in this process. Absent: every agent names its
   * own.
   */
  readonly model?: string | SdkModels[string] | ModelInProcess;
  /** More model objects of the AI SDK, by the name that an agent uses. */
  readonly models?: SdkModels;
  /** Folder of a project. Absent: no `.ai` folder is read and no file is written. */
  readonly project?: string;
  /** `memory`, a file, or `postgres://…`. Absent: that of the project, or else `memory`. */
  readonly store?: string;
  /** `false`: the user's folder is not read, and the keys are in memory. */
  readonly user?: boolean;
  /** A policy as in a policy file. It can only narrow the rights. */
  readonly policy?: JsonObject;
  /** Tools for `call`. Agents name their own tools. */
  readonly tools?: readonly AgentTool[];
}

/** Options that hold for one run. */
export interface RunOptions {
  /** Data of other people. They are labelled `untrusted` and vouch for nothing. */
  readonly data?: Readonly<Record<string, unknown>>;
  /** Files that stand in front of the conversation. */
  readonly attach?: readonly Attachment[];
  readonly signal?: AbortSignal;
  /** Lower limits than those of the agent. */
  readonly limits?: AgentLimits;
  /** Labels of the prompt, such as `untrusted` for the words of a stranger. */
  readonly labels?: readonly string[];
}

/** Result of a run. `output` is present if the agent declares an output. */
export type AgentResult<O = undefined> = {
  readonly text: string;
  readonly cost: ThreadCost;
  /** Id of the thread, which has the journal of the run. */
  readonly thread: string;
  /** Labels of everything that the result can contain. */
  readonly labels: readonly string[];
} & ([O] extends [undefined] ? unknown : { readonly output: O });

/** Value that the output schema returns. */
type OutputOf<S> = S extends OutputSchema ? InputOf<S> : undefined;

export interface Agent<O = undefined> {
  readonly name: string;
  /** Runs the agent until it ends. Throws a `KernmantleError` if it does not complete. */
  run(prompt: string, options?: RunOptions): Promise<AgentResult<O>>;
  /** Runs the agent, and returns a failure instead of throwing it. */
  attempt(prompt: string, options?: RunOptions): Promise<Outcome<AgentResult<O>>>;
  /** Starts a run and shows its events. Leaving the loop stops nothing. */
  stream(prompt: string, options?: RunOptions): AgentStream<O>;
}

/** The events of one run, which can be iterated once. The last one is `done`. A failed run throws its error. */
export interface AgentStream<O = undefined>
  extends AsyncIterable<AgentEvent | { readonly type: 'done'; readonly result: AgentResult<O> }> {
  /** Id of the thread, as soon as it exists. */
  readonly thread: Promise<string>;
  readonly result: Promise<AgentResult<O>>;
}

/** The same calls, which throw a `KernmantleError` instead of returning a failure. */
type Throwing<T> = {
  readonly [name in keyof T]: T[name] extends (...args: infer A) => Promise<Outcome<infer R>>
    ? (...args: A) => Promise<R>
    : T[name];
};

export interface Kernmantle {
  /** Defines an agent. Throws `config_invalid` and names the option. */
  agent<const S extends OutputSchema | undefined = undefined>(
    options: AgentOptions<S>,
  ): Agent<OutputOf<S>>;
  readonly call: Throwing<ProgramRuntime>['call'];
  readonly threads: Throwing<ProgramRuntime['threads']>;
  readonly approvals: Throwing<ProgramRuntime['approvals']>;
  readonly schedules: Throwing<ProgramRuntime['schedules']>;
  readonly script: Throwing<ProgramRuntime>['script'];
  /** Interrupts running threads and releases all resources. */
  close(): Promise<void>;
}

const OPTIONS = ['model', 'models', 'project', 'store', 'user', 'policy', 'env', 'tools'];
/** Name of the model object that is given as `model`. */
const OWN_MODEL = 'default';
const RUN_OPTIONS = ['data', 'attach', 'signal', 'limits', 'labels'];
const MAX_PROMPT = 1024 * 1024;

function unwrap<T>(outcome: Outcome<T>): T {
  if (outcome.ok) return outcome.output;
  throw new KernmantleError(outcome.error);
}

const isPromise = (value: unknown): value is Promise<Outcome<unknown>> =>
  typeof value === 'object' && value !== null && 'then' in value;

const settle = async <T>(answer: Promise<Outcome<T>>): Promise<T> => unwrap(await answer);

/** Returns the object with calls that throw. Results that are no outcomes stay as they are. */
const throwing = <T extends object>(calls: T): Throwing<T> =>
  Object.assign(
    Object.create(null),
    Object.fromEntries(
      Object.entries(calls).map(([name, call]) => [
        name,
        (...args: unknown[]) => {
          const answer = call(...args);
          return isPromise(answer) ? settle(answer) : answer;
        },
      ]),
    ),
  );

const invalidInput = (option: string, problem: string): KernmantleError =>
  new KernmantleError({
    code: 'invalid_input',
    detail: { message: `\`${option}\` ${problem}`, option },
  });

/** Returns each value of the data as an attachment that carries `untrusted`. Throws for a value that is no JSON. */
function attachData(data: Readonly<Record<string, unknown>> = {}): Attachment[] {
  return Object.entries(data).map(([name, value]) => {
    let text: string | undefined;
    try {
      text = JSON.stringify(value);
    } catch {
      text = undefined;
    }
    if (text === undefined) throw invalidInput(`data.${name}`, 'must be JSON without cycles');
    return { name, data: Buffer.from(text), mime: 'application/json', paste: true };
  });
}

/** Returns the fault of a run that did not complete. */
function runFault({ status, reason, code }: RunResult): Fault {
  const waits = status === 'waiting' || status === 'needs_input';
  const message = reason === '' ? `the run is ${status}` : reason;
  return { code: code ?? (waits ? 'approval_pending' : `run_${status}`), detail: { message } };
}

async function checkOutput(
  { output: schema, name }: CompiledAgent,
  outputs: Json,
): Promise<unknown> {
  if (schema === undefined) return undefined;
  if (!isStandard(schema)) return outputs;
  const read = await schema['~standard'].validate(outputs);
  if (!read.issues) return read.value;
  const issues = read.issues.map(({ message }) => message).join('; ');
  throw new KernmantleError({
    code: 'invalid_output',
    detail: { message: `the output of agent \`${name}\` does not fit its schema: ${issues}` },
  });
}

/** The opened runtime of all agents of one `kernmantle`. */
interface Opened {
  readonly runtime: Runtime;
  readonly program: ProgramRuntime;
  readonly who: string;
  readonly model: string | undefined;
  readonly hasProject: boolean;
}

/** Starts the agent as a thread. Throws for options that cannot be used. */
function startRun(
  { runtime, who }: Opened,
  agent: CompiledAgent,
  prompt: string,
  options: RunOptions,
): ThreadRun {
  checkNames(`run of agent \`${agent.name}\``, options, RUN_OPTIONS);
  if (typeof prompt !== 'string' || prompt.trim() === '') {
    throw invalidInput('prompt', 'must be a text');
  }
  if (prompt.length > MAX_PROMPT) {
    throw invalidInput('prompt', 'is longer than 1 MB; pass long texts as `data` or files');
  }
  const { data, attach = [], signal, limits, labels } = options;
  if (limits) checkLimits(`agent \`${agent.name}\``, limits);
  const files = [...attach, ...attachData(data)];
  const request: RunRequest = {
    directive: agent.name,
    message: prompt,
    by: { who, surface: 'library' },
    ...(files.length > 0 && { attach: files }),
    ...(limits && { limits }),
    ...(labels && { labels }),
  };
  return createThreadRun(async (live) => {
    const threads = await runtime.threads(live, agent.items);
    return threads.ok ? await threads.output.run(request, signal) : threads;
  });
}

/** Returns the result of a completed run. Throws for every other status. */
async function finishRun<O>(
  { program }: Opened,
  agent: CompiledAgent,
  run: Pick<ThreadRun, 'result'>,
  signal: AbortSignal | undefined,
): Promise<AgentResult<O>> {
  const result = unwrap(await run.result);
  const { status, thread_id: thread, outputs, text, cost } = result;
  if (status === 'completed') {
    const output = await checkOutput(agent, outputs);
    const facts = { text, cost, thread, labels: plainLabels(result.marks) };
    return { ...facts, ...(agent.output !== undefined && { output }) } as AgentResult<O>;
  }
  const pending = await program.approvals.list({ thread });
  const approvals = pending.ok ? pending.output : [];
  const error = new KernmantleError(runFault(result), { status, thread, cost, approvals });
  if (status !== 'interrupted' || signal?.aborted !== true) throw error;
  throw new DOMException('the run was cancelled', { name: 'AbortError', cause: error });
}

/** Returns the failure that was thrown. An error of the program itself is thrown again. */
function failureOf(error: unknown): Failure {
  const cause = error instanceof DOMException ? error.cause : error;
  if (!(cause instanceof KernmantleError)) throw error;
  const { code, detail } = cause;
  return { ok: false, error: { code: error === cause ? code : 'cancelled', detail } };
}

/** Waits for a promise whose failure others receive, so that it is never unhandled. */
async function watch(promise: Promise<unknown>): Promise<void> {
  await Promise.allSettled([promise]);
}

function createStream<O>(
  { runtime }: Opened,
  run: ThreadRun,
  result: Promise<AgentResult<O>>,
): AgentStream<O> {
  const thread = (async () => unwrap(await run.id))();
  void watch(result);
  void watch(thread);
  const approvals: ApprovalReader = async (id, name) => {
    const threads = await runtime.threads();
    const { store } = unwrap(threads);
    const [row, pending] = [await store.thread(id), await store.approvals({ thread: id })];
    const approval = unwrap(pending).find((one) => one.id === name);
    return approval && { approval, digest: approvalDigest(approval, unwrap(row).epoch).digest };
  };
  async function* events() {
    yield* agentEvents(run, approvals);
    yield { type: 'done', result: await result } as const;
  }
  return { thread, result, [Symbol.asyncIterator]: events };
}

function createAgent<S extends OutputSchema | undefined>(
  opened: Opened,
  options: AgentOptions<S>,
): Agent<OutputOf<S>> {
  const { model, hasProject } = opened;
  const own = { ...(model !== undefined && { model }), ...options };
  const agent = compileAgent(own, hasProject);
  const start = (prompt: string, request: RunOptions) => {
    const run = startRun(opened, agent, prompt, request);
    return { run, result: finishRun<OutputOf<S>>(opened, agent, run, request.signal) };
  };
  return {
    name: agent.name,
    run: async (prompt, request = {}) => await start(prompt, request).result,
    async attempt(prompt, request = {}) {
      try {
        return { ok: true, output: await start(prompt, request).result };
      } catch (error) {
        return failureOf(error);
      }
    },
    stream(prompt, request = {}) {
      const { run, result } = start(prompt, request);
      return createStream(opened, run, result);
    },
  };
}

const ABOUT = 'kernmantle';

/** Returns the options of the runtime that hold the place of the registry and of the project. */
function storeOptions({ project, store, user = true }: KernmantleOptions): object {
  const isServer = store !== undefined && /^[a-z][a-z0-9+.-]+:\/\//.test(store);
  if (project !== undefined) {
    if (store !== undefined && !isServer) {
      throw invalidOption(ABOUT, 'store', 'must be absent or a server if there is a `project`');
    }
    if (!user) throw invalidOption(ABOUT, 'user', 'cannot be false if there is a `project`');
    return { project, ...(store !== undefined && { store }) };
  }
  if (isServer) throw invalidOption(ABOUT, 'store', 'on a server needs a `project` with an id');
  const isFile = store !== undefined && store !== 'memory';
  if (isFile && !user) {
    throw invalidOption(
      ABOUT,
      'user',
      'cannot be false if the store is a file, because its key is',
    );
  }
  return { store: '', detached: { user, ...(isFile && { registry: resolve(store) }) } };
}

/** Opens the library for agents. Throws a `KernmantleError`. */
export async function openKernmantle(options: KernmantleOptions = {}): Promise<Kernmantle> {
  checkNames(ABOUT, options, OPTIONS);
  const { model, models, env, tools = [], policy } = options;
  if (!['string', 'undefined', 'object'].includes(typeof model) || model === null) {
    throw invalidOption(
      ABOUT,
      'model',
      'must be a name, a model object or a model in this process',
    );
  }
  const inProcess = typeof model === 'object' && 'port' in model ? model : undefined;
  const sdkModel = typeof model === 'object' && !('port' in model) ? model : undefined;
  const wrong = tools.findIndex((one) => !(one instanceof AgentTool));
  if (wrong >= 0) throw invalidOption(ABOUT, `tools[${wrong}]`, 'must come from `tool`');
  const created = await createRuntime({
    ...storeOptions(options),
    extensions: EXTENSIONS,
    tools,
    ...(env && { env }),
    ...(inProcess && { model: inProcess.port }),
    ...((models || sdkModel) && {
      models: { ...models, ...(sdkModel && { [OWN_MODEL]: sdkModel }) },
    }),
    ...(policy && {
      policies: [{ level: 'project', file: 'program:policy', text: JSON.stringify(policy) }],
    }),
  });
  const runtime = unwrap(created);
  const program = programOver(runtime, options);
  const opened: Opened = {
    runtime,
    program,
    who: findPerson(env ?? process.env),
    model: typeof model === 'string' ? model : sdkModel ? OWN_MODEL : inProcess?.model,
    hasProject: options.project !== undefined,
  };
  const { call, script } = throwing({ call: program.call, script: program.script });
  return {
    agent: (own) => createAgent(opened, own),
    call,
    script,
    threads: throwing(program.threads),
    approvals: throwing(program.approvals),
    schedules: throwing(program.schedules),
    close: () => program.close(),
  };
}
