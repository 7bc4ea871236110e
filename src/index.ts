/** kernmantle as a library. Everything a program needs; the rest is internal. */
import type { Outcome } from './base/index.ts';
import type { RunRequest, ThreadResult } from './harness/index.ts';
import type { startScriptedProvider } from './llm/index.ts';
import type { Runtime } from './runtime.ts';

export type { Fault, Json, JsonObject, Outcome } from './base/index.ts';
export type { RunRequest, ThreadResult } from './harness/index.ts';
export type { ProgramTool } from './kernel/index.ts';
export { defineTool } from './kernel/index.ts';
export type { ScriptedProvider, ScriptedReply } from './llm/index.ts';
export {
  type CallOptions,
  createRuntime,
  type Runtime,
  type RuntimeOptions,
  type Threads,
  type Verb,
} from './runtime.ts';

/** Runs a directive as a thread, to its end or until it pauses. */
export async function runDirective(
  runtime: Runtime,
  request: RunRequest,
  signal?: AbortSignal,
): Promise<Outcome<ThreadResult>> {
  const threads = await runtime.threads();
  return threads.ok ? await threads.output.run(request, signal) : threads;
}

/** A provider on loopback that answers from a script, for tests without a key. */
export const scriptedProvider = async (
  ...given: Parameters<typeof startScriptedProvider>
): ReturnType<typeof startScriptedProvider> =>
  await (await import('./llm/index.ts')).startScriptedProvider(...given);
