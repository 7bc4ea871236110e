import { compact, fail, type Outcome, ok } from '@kernmantle/core/base';
import {
  type Actor,
  createRuntime,
  findPerson,
  type Runtime,
  type RuntimeOptions,
} from '@kernmantle/core/runtime';
import { EXTENSIONS } from '../extensions.ts';
import { asText, type CommandCall, type CommandRun, type Ending } from './command.ts';

/** Returns the actor of a command. Threads and the audit record it with every signal. */
export const commandActor = ({ terminal }: Pick<CommandCall, 'terminal'>): Actor => ({
  who: findPerson(terminal.env),
  channel: 'cli',
});

/** Opens a runtime with all extensions of the package. */
export const openRuntime = (options: RuntimeOptions): Promise<Outcome<Runtime>> =>
  createRuntime({ ...options, extensions: EXTENSIONS });

/** Opens the runtime of the command's project, runs the work and always closes the runtime. */
export async function withRuntime(
  { options, terminal: { cwd, env } }: CommandCall,
  work: (runtime: Runtime) => Promise<Ending>,
  more: Pick<RuntimeOptions, 'login' | 'standIn'> = {},
): Promise<Ending> {
  const [project, store] = [asText(options.project), asText(options.store)];
  const place = store ? (await import('@kernmantle/fleet')).readPlace(store) : ok(null);
  if (!place.ok) return fail('usage', `\`--store\`: ${place.error.detail.message}`);
  const opened = await openRuntime({ cwd, env, ...compact({ project, store }), ...more });
  if (!opened.ok) return opened;
  try {
    return await work(opened.output);
  } finally {
    await opened.output.close();
  }
}

/** Wraps a command that needs a project. */
export const inProject =
  (work: (runtime: Runtime, call: CommandCall) => Promise<Ending>): CommandRun =>
  (call) =>
    withRuntime(call, (runtime) => work(runtime, call));
