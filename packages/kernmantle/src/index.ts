/**
 * kernmantle as a library. Everything a program needs; the rest is internal. Importing it loads
 * types and these few functions; the rooms behind them are loaded by the first call.
 */
import type { Outcome } from '@kernmantle/core/base';
import type {
  Ending,
  LoopPorts,
  PlainRequest,
  PlainResult,
  RunRequest,
} from '@kernmantle/core/harness';
import type { ProgramTool, TypedTool } from '@kernmantle/core/kernel';
import type {
  createReader,
  ModelReply,
  readReply,
  StreamReader,
  startScriptedProvider,
} from '@kernmantle/core/llm';
import type { RuntimeOptions } from '@kernmantle/core/runtime';
import type { ScriptRun, ScriptRunResult } from '@kernmantle/script';
import type { RunningServer, ServerSettings } from './mcp-server/start-server.ts';
import type { ProgramRuntime } from './program.ts';
import type { RunResult } from './thread-run.ts';

export type { Code, Fault, Json, JsonObject, Outcome } from '@kernmantle/core/base';
export type {
  Ending,
  LoopPorts,
  PlainRequest,
  PlainResult,
  PlainTool,
  RunRequest,
  Turn,
} from '@kernmantle/core/harness';
export type { EventType, Recorded as ThreadRecord } from '@kernmantle/core/journal';
export type { ProgramTool, StandardSchema, Verb } from '@kernmantle/core/kernel';
export type {
  Block as ContentBlock,
  Message,
  ModelReply,
  Protocol,
  ReaderOptions,
  ScriptedProvider,
  ScriptedReply,
  StreamReader,
  Usage,
} from '@kernmantle/core/llm';
export type { CallOptions, RuntimeOptions } from '@kernmantle/core/runtime';
export type { Approval, ApprovalState, ThreadFilter, ThreadStatus } from '@kernmantle/core/store';
export type { ScriptEffect, ScriptRun, ScriptRunResult } from '@kernmantle/script';
export type { RunningServer, ServerSettings } from './mcp-server/start-server.ts';
export type {
  ListedThread,
  ProgramApprovals as Approvals,
  ProgramRuntime as Runtime,
  ProgramThreads as Threads,
  ShownThread,
} from './program.ts';
export type {
  RunResult as ThreadResult,
  ThreadCost,
  ThreadEvent,
  ThreadRun,
} from './thread-run.ts';

/** Gives a tool its type; it does nothing until a runtime is given it. */
export const defineTool = <
  const P extends NonNullable<ProgramTool['parameters']> = Record<string, never>,
>(
  tool: TypedTool<P>,
): ProgramTool => tool as unknown as ProgramTool;

/** Opens a project. Nothing of it is run; what is wrong with it shows where it is used. */
export const createRuntime = async (options?: RuntimeOptions): Promise<Outcome<ProgramRuntime>> =>
  await (await import('./program.ts')).openProgram(options);

/** Runs a directive as a thread, to its end or until it pauses. */
export const runDirective = (
  runtime: Pick<ProgramRuntime, 'run'>,
  request: RunRequest,
  signal?: AbortSignal,
): Promise<Outcome<RunResult>> => runtime.run(request, signal);

/** Runs a script, from a file or a text, under the policy for scripts. */
export const runScript = (
  runtime: Pick<ProgramRuntime, 'script'>,
  request: ScriptRun,
  signal?: AbortSignal,
): Promise<Outcome<ScriptRunResult>> => runtime.script(request, signal);

/** The same loop without a directive: your own prompt and tools, and none of the safety. */
export const runPlain = (
  runtime: Pick<ProgramRuntime, 'plain'>,
  request: PlainRequest,
  signal?: AbortSignal,
): Promise<Outcome<PlainResult>> => runtime.plain(request, signal);

/** The loop itself, over ports of your own. */
export const runLoop = async (ports: LoopPorts): Promise<Ending> =>
  await (await import('@kernmantle/core/harness')).runLoop(ports);

/**
 * Serves a project to MCP clients, with the tools of the program: a runtime that stays yours, or what to
 * open one with, which is closed with the server.
 */
export const startServer = async (
  given: ProgramRuntime | (RuntimeOptions & ServerSettings),
  settings: ServerSettings = {},
): Promise<Outcome<RunningServer>> =>
  await (await import('./mcp-server/start-server.ts')).startServer(given, settings);

/** A provider on loopback that answers from a script, for tests without a key. */
export const scriptedProvider = async (
  ...given: Parameters<typeof startScriptedProvider>
): ReturnType<typeof startScriptedProvider> =>
  await (await import('@kernmantle/core/llm')).startScriptedProvider(...given);

/** Reads the stream of a provider, event by event, into one reply: text, thoughts, complete calls, usage. */
export const createStreamReader = async (
  ...given: Parameters<typeof createReader>
): Promise<StreamReader> => (await import('@kernmantle/core/llm')).createReader(...given);

/** Reads a whole answer of a provider by the same rules. */
export const readModelReply = async (
  ...given: Parameters<typeof readReply>
): Promise<Outcome<ModelReply>> => (await import('@kernmantle/core/llm')).readReply(...given);
