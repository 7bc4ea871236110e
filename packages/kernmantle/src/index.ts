/** Library door of kernmantle. Each function loads its implementation at the first call. */
import type { Outcome } from '@kernmantle/core/base';
import type { Ending, LoopPorts } from '@kernmantle/core/harness';
import type { RuntimeOptions } from '@kernmantle/core/runtime';
import type { Kernmantle, KernmantleOptions } from './agent/agent.ts';
import type { RunningServer, ServerSettings } from './mcp-server/start-server.ts';
import type { ProgramRuntime } from './program.ts';

export type { Code, Fault, Json, JsonObject, Outcome } from '@kernmantle/core/base';
export type { Attachment, Ending, LoopPorts, RunRequest, Turn } from '@kernmantle/core/harness';
export type { EventType, Recorded as ThreadRecord } from '@kernmantle/core/journal';
export type { ProgramTool, StandardSchema, Verb } from '@kernmantle/core/kernel';
export type { CallOptions, RuntimeOptions, ScheduleRequest } from '@kernmantle/core/runtime';
export type { Approval, ApprovalState, ThreadFilter, ThreadStatus } from '@kernmantle/core/store';
export type { ScriptEffect, ScriptRun, ScriptRunResult } from '@kernmantle/script';
export type {
  Agent,
  AgentResult,
  Kernmantle,
  KernmantleOptions,
  ModelInProcess,
  RunOptions,
} from './agent/agent.ts';
export type { AgentLimits, AgentOptions, AgentPermissions } from './agent/compile.ts';
export { KernmantleError } from './agent/error.ts';
export { type AgentTool, type ToolContext, type ToolOptions, tool } from './agent/tool.ts';
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

/** Opens a project without running any of its code. An invalid item fails when it is used. */
export const createRuntime = async (options?: RuntimeOptions): Promise<Outcome<ProgramRuntime>> =>
  await (await import('./program.ts')).openProgram(options);

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

/** Opens the library for agents in code. Throws a `KernmantleError`. */
export const kernmantle = async (options?: KernmantleOptions): Promise<Kernmantle> =>
  await (await import('./agent/agent.ts')).openKernmantle(options);
