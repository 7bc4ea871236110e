// Opens the library for agents in code, and runs agents. Every run is a thread of the harness: this file adds names
// and types, and no rights.
import { resolve } from 'node:path';
import type { Fault, Json, JsonObject, Outcome } from '@kernmantle/core/base';
import type { Attachment, ModelPort, RunRequest } from '@kernmantle/core/harness';
import {
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
import { AgentTool, type InputOf, isStandard } from './tool.ts';

/** A model in this process, such as the one of `scriptedModel`. It answers every request, and no key is needed. */
export interface ModelInProcess {
  /** Name of the model whose prices and limits apply. */
  readonly model: string;
  readonly port: ModelPort;
}

export interface KernmantleOptions extends Pick<RuntimeOptions, 'env'> {
  /** A tier, the id of a model, or a model in this process. Absent: every agent names its own. */
  readonly model?: string | ModelInProcess;
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

const OPTIONS = ['model', 'project', 'store', 'user', 'policy', 'env', 'tools'];
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

/** Returns the labels of a result, without its sources. */
function labelsOf({ marks }: Pick<RunResult, 'marks'>): string[] {
  const all = [...(marks?.labels ?? []), ...(marks?.taint ?? [])];
  return [...new Set(all)].filter((label) => !/^(?:src|dir):/.test(label));
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
    const facts = { text, cost, thread, labels: labelsOf(result) };
    return { ...facts, ...(agent.output !== undefined && { output }) } as AgentResult<O>;
  }
  const pending = await program.approvals.list({ thread });
  const approvals = pending.ok ? pending.output : [];
  const error = new KernmantleError(runFault(result), { status, thread, cost, approvals });
  if (status !== 'interrupted' || signal?.aborted !== true) throw error;
  throw new DOMException('the run was cancelled', { name: 'AbortError', cause: error });
}

function createAgent<S extends OutputSchema | undefined>(
  opened: Opened,
  options: AgentOptions<S>,
): Agent<OutputOf<S>> {
  const { model, hasProject } = opened;
  const own = { ...(model !== undefined && { model }), ...options };
  const agent = compileAgent(own, hasProject);
  return {
    name: agent.name,
    run: async (prompt, request = {}) =>
      await finishRun(opened, agent, startRun(opened, agent, prompt, request), request.signal),
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
  const { model, env, tools = [], policy } = options;
  const inProcess = typeof model === 'object' ? model : undefined;
  if (model !== undefined && typeof model !== 'string' && !inProcess?.port) {
    throw invalidOption(ABOUT, 'model', 'must be a name or a model in this process');
  }
  const wrong = tools.findIndex((one) => !(one instanceof AgentTool));
  if (wrong >= 0) throw invalidOption(ABOUT, `tools[${wrong}]`, 'must come from `tool`');
  const created = await createRuntime({
    ...storeOptions(options),
    extensions: EXTENSIONS,
    tools,
    ...(env && { env }),
    ...(inProcess && { model: inProcess.port }),
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
    model: typeof model === 'string' ? model : inProcess?.model,
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
