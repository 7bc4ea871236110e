// Starting `git` and `npm`, the two programs that catalogs need: an argument list, never a shell;
// bounded output; the whole process group ends with the call.
import { spawn } from 'node:child_process';
import { fail, type Outcome, ok } from '../base/index.ts';

export interface CommandOptions {
  cwd: string;
  env: Readonly<Record<string, string | undefined>>;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** Answers with what the program printed. */
export type RunCommand = (
  command: string,
  args: readonly string[],
  options: CommandOptions,
) => Promise<Outcome<string>>;

const MAX_OUTPUT = 8 * 1024 * 1024;

/** Secrets in addresses (`https://user:token@host`) do not belong into messages. */
const withoutSecrets = (text: string): string =>
  text.replaceAll(/:\/\/[^/@\s]{1,500}@/g, '://***@');

export const runCommand: RunCommand = (command, args, { cwd, env, timeoutMs, signal }) =>
  new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    let [output, errors] = ['', ''];
    let stopped: Outcome<never> | undefined;
    const end = (code: string, why: string) => {
      stopped ??= fail(code, `\`${command}\` was stopped: ${why}`);
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended already.
      }
    };
    const onAbort = () => end('cancelled', 'it was cancelled');
    const timer = setTimeout(
      () => end('timeout', `it took longer than ${timeoutMs / 1000} seconds`),
      timeoutMs,
    );
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (output.length > MAX_OUTPUT) end('tool_failed', 'it printed too much');
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-2000);
    });
    const finish = (result: Outcome<string>) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      resolve(result);
    };
    child.on('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'ENOENT' ? 'it is not installed' : error.message;
      finish(fail('dependency_missing', `cannot run \`${command}\`: ${why}`));
    });
    child.on('close', (code) => {
      if (stopped) finish(stopped);
      else if (code === 0) finish(ok(output));
      else {
        const said = withoutSecrets(errors.trim().split('\n').at(-1) ?? '');
        finish(fail('tool_failed', `\`${command}\` ended with ${code}: ${said}`));
      }
    });
  });
