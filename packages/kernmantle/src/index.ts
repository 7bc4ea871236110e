/** Library door of kernmantle. Each function loads its implementation at the first call. */
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
  Attachment,
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
export type { CallOptions, RuntimeOptions, ScheduleRequest } from '@kernmantle/core/runtime';
export type { Approval, ApprovalState, ThreadFilter, ThreadStatus } from '@kernmantle/core/store';
export type { ScriptEffect, ScriptRun, ScriptRunResult } from '@kernmantle/script';
export type { RunningServer, ServerSettings } from './mcp-server/start-server.ts';
export type {
  ListedThread,
  ProgramApprovals as Approvals,
  ProgramMemory as Memory,
  ProgramRuntime as Runtime,
  ProgramSchedules as Schedules,
  ProgramThreads as Threads,
  ShownThread,
} from './program.ts';
export type {
  RunResult as ThreadResult,
  ThreadCost,
  ThreadEvent,
  ThreadRun,
} from './thread-run.ts';

/** Infers the type of a tool. The tool is not registered until it is passed to a runtime. */
export const defineTool = <
  const P extends NonNullable<ProgramTool['parameters']> = Record<string, never>,
>(
  tool: TypedTool<P>,
): ProgramTool => tool as unknown as ProgramTool;

/** Opens a project without running any of its code. An invalid item fails when it is used. */
export const createRuntime = async (options?: RuntimeOptions): Promise<Outcome<ProgramRuntime>> =>
  await (await import('./program.ts')).openProgram(options);

/** Runs a directive as a thread until the thread ends or is parked. */
export const runDirective = (
  runtime: Pick<ProgramRuntime, 'run'>,
  request: RunRequest,
  signal?: AbortSignal,
): Promise<Outcome<RunResult>> => runtime.run(request, signal);

/** Runs a script from a file or a text under the policy for scripts. */
export const runScript = (
  runtime: Pick<ProgramRuntime, 'script'>,
  request: ScriptRun,
  signal?: AbortSignal,
): Promise<Outcome<ScriptRunResult>> => runtime.script(request, signal);

/** Runs the loop with a prompt and tools of the caller, without policies and without a journal. */
export const runPlain = (
  runtime: Pick<ProgramRuntime, 'plain'>,
  request: PlainRequest,
  signal?: AbortSignal,
): Promise<Outcome<PlainResult>> => runtime.plain(request, signal);

/** Runs the loop over ports of the caller. */
export const runLoop = async (ports: LoopPorts): Promise<Ending> =>
  await (await import('@kernmantle/core/harness')).runLoop(ports);

/**
 * Serves a project and the tools of the program to MCP clients. A runtime that the caller passes
 * stays open when the server closes. A runtime that is opened from options is closed with the
 * server.
 */
export const startServer = async (
  source: ProgramRuntime | (RuntimeOptions & ServerSettings),
  settings: ServerSettings = {},
): Promise<Outcome<RunningServer>> =>
  await (await import('./mcp-server/start-server.ts')).startServer(source, settings);

/** Starts a provider on loopback that returns scripted replies, for tests without a key. */
export const scriptedProvider = async (
  ...args: Parameters<typeof startScriptedProvider>
): ReturnType<typeof startScriptedProvider> =>
  await (await import('@kernmantle/core/llm')).startScriptedProvider(...args);

/** Returns a reader that turns the stream of a provider into one reply. */
export const createStreamReader = async (
  ...args: Parameters<typeof createReader>
): Promise<StreamReader> => (await import('@kernmantle/core/llm')).createReader(...args);

/** Reads a complete answer of a provider by the same rules as the stream reader. */
export const readModelReply = async (
  ...args: Parameters<typeof readReply>
): Promise<Outcome<ModelReply>> => (await import('@kernmantle/core/llm')).readReply(...args);
