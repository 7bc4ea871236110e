import { relative, resolve } from 'node:path';
import { ok } from '../../base/index.ts';
import { type SignatureState, verifyItem } from '../../items/index.ts';
import { asList, type CommandRun, EXIT } from '../command.ts';
import { withRuntime } from '../project.ts';
import { type Colour, visible } from '../terminal.ts';

const COLOURS: Readonly<Record<string, Colour>> = {
  signed: 'green',
  bundle: 'green',
  unsigned: 'yellow',
  untrusted: 'red',
  changed: 'red',
};

export const verifyItems: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    const given = asList(call.args[0]).map((file) => resolve(terminal.cwd, file));
    const own = runtime.library.all().filter(({ source }) => source === 'project');
    const files = given.length > 0 ? given : own.map(({ file }) => file);
    const rows: (SignatureState & { file: string })[] = [];
    for (const file of files) {
      const verified = verifyItem(file, runtime.trustStore, runtime.library.roots());
      if (!verified.ok) return terminal.finish(verified, () => {});
      rows.push({ file: relative(terminal.cwd, file), ...verified.output });
    }
    terminal.finish(ok(rows), () => {
      for (const { file, state, key = '', reason = '' } of rows) {
        const shown = terminal.paint(COLOURS[state] ?? 'dim', state.padEnd(10));
        terminal.out(
          `${shown} ${visible(file)} ${terminal.paint('dim', visible([key, reason].filter(Boolean).join(' ')))}`,
        );
      }
      if (rows.length === 0) terminal.note('the project has no items');
    });
    const isBroken = rows.some(({ state }) => state === 'changed' || state === 'untrusted');
    return isBroken ? EXIT.denied : EXIT.done;
  });
