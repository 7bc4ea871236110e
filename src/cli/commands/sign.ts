import { relative, resolve } from 'node:path';
import { ok } from '../../base/index.ts';
import { asList, type CommandRun } from '../command.ts';
import { signFiles } from '../own-key.ts';
import { withRuntime } from '../project.ts';

export const signItems: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    const files = asList(call.args[0]).map((file) => resolve(terminal.cwd, file));
    const signed = signFiles(runtime, files);
    if (!signed.ok) return terminal.finish(signed, () => {});
    const rows = signed.output.map(({ file, statement }) => ({
      file: relative(terminal.cwd, file),
      kind: statement.kind,
      id: statement.id,
      key: statement.key,
    }));
    return terminal.finish(ok(rows), () => {
      for (const { file, kind, id } of rows) terminal.out(`signed ${kind} ${id} (${file})`);
    });
  });
