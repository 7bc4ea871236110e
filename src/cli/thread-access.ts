// Threads for a command: the runtime and the registry, opened for it and closed after it.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fail, type Json, type Outcome, ok, systemRandom } from '../base/index.ts';
import type { Live, Runtime, Threads } from '../runtime.ts';
import type { Store, ThreadRow } from '../store/index.ts';
import { asText, type CommandCall } from './command.ts';
import { withRuntime } from './project.ts';
import { visible } from './terminal.ts';

export interface ThreadWork {
  runtime: Runtime;
  threads: Threads;
  store: Store;
}

/**
 * Opens the registry, also one that is not there yet: for commands that make threads. `before` may
 * end the command with an exit code while nothing is made.
 */
export function withThreads(
  call: CommandCall,
  work: (access: ThreadWork) => Promise<number>,
  live: Live = {},
  before: (runtime: Runtime) => Promise<number | undefined> = async () => undefined,
): Promise<number> {
  return withRuntime(call, async (runtime) => {
    const refused = await before(runtime);
    if (refused !== undefined) return refused;
    const opened = await runtime.threads(live);
    if (!opened.ok) return call.terminal.finish(opened, () => {});
    const { store } = opened.output;
    // Whose process is gone is shown as interrupted, not as running for ever.
    store.interruptExpired();
    return await work({ runtime, threads: opened.output, store });
  });
}

export const registryFile = ({ project }: Runtime): string =>
  join(project, '.ai', 'threads', 'registry.db');

/**
 * For commands that only look or steer: where nothing ever ran, nothing is made. A list of nothing is
 * an answer (`nothing`); a thread that does not exist is an error.
 */
export function withRegistry(
  call: CommandCall,
  work: (access: ThreadWork) => Promise<number>,
  { live = {}, nothing }: { live?: Live; nothing?: (runtime: Runtime) => Json } = {},
): Promise<number> {
  return withRuntime(call, async (runtime) => {
    if (!existsSync(registryFile(runtime))) {
      if (nothing) {
        return call.terminal.finish(ok(nothing(runtime)), () =>
          call.terminal.note(`no thread has run in \`${visible(runtime.project)}\` yet`),
        );
      }
      const missing = fail('not_found', `no thread has run in \`${runtime.project}\` yet`, {
        hint: 'start one with `km run DIRECTIVE`, or name the project with `-C DIR`',
      });
      return call.terminal.finish(missing, () => {});
    }
    return await withThreads(call, work, live);
  });
}

/** The thread a word names: its id, or `last` for the newest one that is no hook. */
export function findThread(store: Store, word: string | undefined): Outcome<ThreadRow> {
  if (word !== undefined && word !== 'last') return store.thread(word);
  const newest = store.query({ kind: 'thread', limit: 1 });
  if (!newest.ok) return newest;
  const [row] = newest.output.rows;
  return row ? store.thread(row.id) : fail('not_found', 'there is no thread yet');
}

/** Who speaks: threads note it with everything they are told. */
export const speaker = ({ terminal }: CommandCall): string =>
  terminal.env.USER ? `${terminal.env.USER} (cli)` : 'cli';

/** A signal of its own, however often the command is given. */
export const signalKey = (): string => `cli:${Buffer.from(systemRandom(9)).toString('base64url')}`;

/** A positive whole number given as an option; undefined when it was not given. */
export function countOption(
  options: CommandCall['options'],
  name: string,
): Outcome<number | undefined> {
  const text = asText(options[name]);
  if (text === undefined) return ok(undefined);
  return /^\d{1,9}$/.test(text)
    ? ok(Number(text))
    : fail('usage', `\`--${name} ${text}\` is not a whole number`);
}
