// How a notice leaves: over HTTP through the kernel's chain, or as a line on a command's standard input.
// The command is the operator's own: only a policy with authority can name it.
import { spawn } from 'node:child_process';
import { fail, type JsonObject, type Outcome, ok } from '../base/index.ts';
import type { Frame } from '../flow/index.ts';
import type { Kernel } from '../kernel/index.ts';

const TIMEOUT_MS = 10_000;

export const postNotice =
  (kernel: Pick<Kernel, 'execute'>, frame: () => Frame) =>
  async (url: string, notice: JsonObject): Promise<Outcome<unknown>> =>
    await kernel.execute(
      {
        item_type: 'tool',
        item_id: 'http/request',
        parameters: { method: 'POST', url, body: notice },
      },
      {
        surface: 'harness',
        name: 'notify',
        frame: frame(),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      },
    );

export const runNotice =
  (cwd: string, env: Readonly<Record<string, string | undefined>>) =>
  ([file = '', ...args]: readonly string[], notice: JsonObject): Promise<Outcome<unknown>> =>
    new Promise((resolve) => {
      const child = spawn(file, args, {
        cwd,
        env: { ...env },
        stdio: ['pipe', 'ignore', 'ignore'],
        timeout: TIMEOUT_MS,
        killSignal: 'SIGKILL',
      });
      child.on('error', () => resolve(fail('tool_failed', 'the command cannot be started')));
      child.on('close', (code) =>
        resolve(code === 0 ? ok(null) : fail('tool_failed', `the command ended with ${code}`)),
      );
      // A command that does not read its input is told all the same.
      child.stdin.on('error', () => {});
      child.stdin.end(`${JSON.stringify(notice)}\n`);
    });
