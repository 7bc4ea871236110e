import { ok } from '../../base/index.ts';
import type { CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';
import { visible } from '../terminal.ts';

export const listCatalogs: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    const { catalogs, diagnostics } = runtime.catalogs.list();
    return terminal.finish(ok({ catalogs, diagnostics }), () => {
      terminal.diagnostics(diagnostics);
      for (const { name, type, location, level, items, updated } of catalogs) {
        const state = updated === undefined ? 'never read' : `${items ?? 0} items, read ${updated}`;
        terminal.out(
          `${name} ${terminal.paint('dim', `${type} ${visible(location)} (${level}), ${state}`)}`,
        );
      }
      if (catalogs.length === 0) terminal.note('there are no catalogs; `km catalog add PLACE`');
    });
  });
