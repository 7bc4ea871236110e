/**
 * kernmantle as a library. Everything a program needs; the rest is internal. Importing it loads
 * types and these few functions; the rooms behind them are loaded by the first call.
 */
import type { Outcome } from './base/index.ts';
import type {
  Ending,
  LoopPorts,
  PlainRequest,
  PlainResult,
  RunRequest,
  ThreadResult,
} from './harness/index.ts';
import type { ProgramTool, TypedTool } from './kernel/index.ts';
import type { startScriptedProvider } from './llm/index.ts';
import type { Runtime, RuntimeOptions, ScriptRun, ScriptRunResult } from './runtime/index.ts';

export type { Fault, Json, JsonObject, Outcome } from './base/index.ts';
export type {
  Ending,
  LoopPorts,
  PlainRequest,
  PlainResult,
  PlainTool,
  RunRequest,
  ThreadResult,
  Turn,
} from './harness/index.ts';
export type { ProgramTool } from './kernel/index.ts';
export type { ScriptedProvider, ScriptedReply } from './llm/index.ts';
export type {
  CallOptions,
  Runtime,
  RuntimeOptions,
  ScriptRun,
  ScriptRunResult,
  Threads,
  Verb,
} from './runtime/index.ts';
export type { ScriptEffect } from './script/index.ts';

/** Gives a tool its type; it does nothing until a runtime is given it. */
export const defineTool = <
  const P extends NonNullable<ProgramTool['parameters']> = Record<never, never>,
>(
  tool: TypedTool<P>,
): ProgramTool => tool as unknown as ProgramTool;

/** Opens a project. Nothing of it is run; what is wrong with it shows where it is used. */
export const createRuntime = async (options?: RuntimeOptions): Promise<Outcome<Runtime>> =>
  await (await import('./runtime/index.ts')).createRuntime(options);

/** Runs a directive as a thread, to its end or until it pauses. */
export async function runDirective(
  runtime: Runtime,
  request: RunRequest,
  signal?: AbortSignal,
): Promise<Outcome<ThreadResult>> {
  const may = await runtime.mayRun(request);
  if (!may.ok) return may;
  const threads = await runtime.threads();
  return threads.ok ? await threads.output.run(request, signal) : threads;
}

/** Runs a script, from a file or a text, under the policy for scripts. */
export const runScript = async (
  runtime: Runtime,
  request: ScriptRun,
  signal?: AbortSignal,
): Promise<Outcome<ScriptRunResult>> =>
  await (await import('./runtime/index.ts')).runScriptIn(runtime, request, signal);

/** The same loop without a directive: your own prompt and tools, and none of the safety. */
export const runPlain = async (
  runtime: Runtime,
  request: PlainRequest,
  signal?: AbortSignal,
): Promise<Outcome<PlainResult>> => await runtime.plain(request, signal);

/** The loop itself, over ports of your own. */
export const runLoop = async (ports: LoopPorts): Promise<Ending> =>
  await (await import('./harness/index.ts')).runLoop(ports);

/** A provider on loopback that answers from a script, for tests without a key. */
export const scriptedProvider = async (
  ...given: Parameters<typeof startScriptedProvider>
): ReturnType<typeof startScriptedProvider> =>
  await (await import('./llm/index.ts')).startScriptedProvider(...given);
