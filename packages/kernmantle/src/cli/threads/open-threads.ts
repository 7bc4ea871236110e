// Opens the runtime and the registry for a command and closes them after it.
import { EXIT, fail, type Outcome, ok, systemRandom } from '@kernmantle/core/base';
import type { Runtime, ThreadObserver, Threads } from '@kernmantle/core/runtime';
import type { Store, ThreadRow } from '@kernmantle/core/store';
import { asText, type CommandCall, type Ending } from '../command.ts';
import { withRuntime } from '../project.ts';
import { interruptible, type Terminal, visible } from '../terminal/terminal.ts';

export interface ThreadWork {
  runtime: Runtime;
  threads: Threads;
  store: Store;
}

/**
 * Opens the runtime and the registry for a command that starts threads, and creates a missing registry. `before`
 * can end the command before that.
 */
export function withThreads(
  call: CommandCall,
  work: (access: ThreadWork) => Promise<Ending>,
  live: ThreadObserver = {},
  before: (runtime: Runtime) => Promise<Ending | undefined> = async () => undefined,
  more?: Parameters<typeof withRuntime>[2],
): Promise<Ending> {
  const open = async (runtime: Runtime): Promise<Ending> => {
    const refused = await before(runtime);
    if (refused !== undefined) return refused;
    const opened = await runtime.threads(live);
    if (!opened.ok) return opened;
    const { store } = opened.output;
    // A thread whose process has died must be shown as interrupted, not as running.
    await store.sweep();
    return await work({ runtime, threads: opened.output, store });
  };
  return withRuntime(call, open, more);
}

/**
 * Opens the registry for a command that reads or steers threads. It never creates a registry. Without one, a
 * list prints `nothing`, and every other command fails with `not_found`.
 */
export function withRegistry(
  call: CommandCall,
  work: (access: ThreadWork) => Promise<Ending>,
  nothing?: (runtime: Runtime) => unknown,
  more?: Parameters<typeof withThreads>[4],
): Promise<Ending> {
  const { terminal } = call;
  const before = async (runtime: Runtime): Promise<Ending | undefined> => {
    if (runtime.registry.isThere()) return undefined;
    const message = `no thread has run in \`${runtime.project}\` yet`;
    if (nothing)
      return terminal.finish(ok(await nothing(runtime)), () => terminal.note(visible(message)));
    const hint = 'start one with `km run DIRECTIVE`, or name the project with `-C DIR`';
    return fail('not_found', message, { hint });
  };
  return withThreads(call, work, {}, before, more);
}

/** Opens the registry and finds the thread that the first argument names. */
export const withThread = (
  call: CommandCall,
  work: (row: ThreadRow, access: ThreadWork) => Promise<Ending>,
  more?: Parameters<typeof withThreads>[4],
): Promise<Ending> =>
  withRegistry(
    call,
    async (access) => {
      const row = await findThread(access.store, asText(call.args[0]));
      return row.ok ? await work(row.output, access) : row;
    },
    undefined,
    more,
  );

/** Finds a thread by its id. `last` is the newest thread that is not a hook. */
export async function findThread(
  store: Store,
  word: string | undefined,
): Promise<Outcome<ThreadRow>> {
  if (word !== undefined && word !== 'last') return store.thread(word);
  const newest = await store.query({ kind: 'thread', limit: 1 });
  if (!newest.ok) return newest;
  const [row] = newest.output.rows;
  return row
    ? await store.thread(row.id)
    : fail('not_found', 'no thread found; start one with `km run DIRECTIVE`');
}

/** Returns a new key, so that a repeated command sends a second signal. */
export const signalKey = (): string => `cli:${Buffer.from(systemRandom(9)).toString('base64url')}`;

/** Returns the whole number of an option. Undefined if the option is absent. */
export function countOption(
  options: CommandCall['options'],
  name: string,
): Outcome<number | undefined> {
  const text = asText(options[name]);
  if (text === undefined) return ok(undefined);
  return /^\d{1,9}$/.test(text)
    ? ok(Number(text))
    : fail('usage', `\`--${name} ${text}\` must be a whole number`);
}

/** Watches a run until it ends or the user interrupts. An interrupt is not a failure. */
export const untilInterrupted = (
  { closed }: Terminal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<number> =>
  interruptible(async (signal) => {
    await work(AbortSignal.any([signal, closed]));
    return EXIT.done;
  });
