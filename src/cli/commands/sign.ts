import { resolve } from 'node:path';
import { asList, type CommandRun } from '../command.ts';
import { signFiles } from '../own-key.ts';
import { withRuntime } from '../project.ts';

export const run: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    const files = asList(call.args[0]).map((file) => resolve(terminal.cwd, file));
    return terminal.finish(signFiles(runtime, files), (signed) => {
      for (const { file, statement } of signed) {
        terminal.out(`signed ${statement.kind} ${statement.id} (${file})`);
      }
    });
  });
