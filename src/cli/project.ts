import type { Outcome } from '../base/index.ts';
import { createRuntime, type Runtime, type RuntimeOptions } from '../runtime.ts';
import { asText, type CommandCall } from './command.ts';

/** The runtime for a command: its project, the user's home and environment. */
export async function openRuntime(
  { options, terminal }: CommandCall,
  more: Partial<RuntimeOptions> = {},
): Promise<Outcome<Runtime>> {
  const project = asText(options.project);
  return await createRuntime({
    cwd: terminal.cwd,
    env: terminal.env,
    ...(project === undefined ? {} : { project }),
    ...more,
  });
}

/** Opens the runtime, does the work, closes it whatever happened; the exit code comes back. */
export async function withRuntime(
  call: CommandCall,
  work: (runtime: Runtime) => Promise<number>,
  more: Partial<RuntimeOptions> = {},
): Promise<number> {
  const opened = await openRuntime(call, more);
  if (!opened.ok) return call.terminal.finish(opened, () => {});
  try {
    return await work(opened.output);
  } finally {
    await opened.output.close();
  }
}
