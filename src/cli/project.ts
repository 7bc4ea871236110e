import { compact, type Outcome, ok, systemClock } from '../base/index.ts';
import { type SignedFile, signItem } from '../items/index.ts';
import { createRuntime, ownKey, type Runtime } from '../runtime/index.ts';
import { asText, type CommandCall, type CommandRun, type Ending } from './command.ts';

/** Signs file by file; the first that cannot be signed ends it, those before stay signed. */
export function signFiles(runtime: Runtime, files: readonly string[]): Outcome<SignedFile[]> {
  const key = ownKey(runtime);
  if (!key.ok) return key;
  const signed: SignedFile[] = [];
  for (const file of files) {
    const done = signItem(file, key.output, systemClock, runtime.library.roots());
    runtime.library.noteChange();
    if (!done.ok) return done;
    signed.push(done.output);
  }
  return ok(signed);
}

/** Opens the runtime of the command's project, does the work, closes it whatever happened. */
export async function withRuntime(
  { options, terminal: { cwd, env } }: CommandCall,
  work: (runtime: Runtime) => Promise<Ending>,
): Promise<Ending> {
  const project = asText(options.project);
  const opened = await createRuntime({ cwd, env, ...compact({ project }) });
  if (!opened.ok) return opened;
  try {
    return await work(opened.output);
  } finally {
    await opened.output.close();
  }
}

/** A command that works in a project. */
export const inProject =
  (work: (runtime: Runtime, call: CommandCall) => Promise<Ending>): CommandRun =>
  (call) =>
    withRuntime(call, (runtime) => work(runtime, call));
