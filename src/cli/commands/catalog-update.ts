import type { CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';

export const updateCatalogs: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    return terminal.finish(await runtime.catalogs.update(), (catalogs) => {
      for (const { name, items = 0 } of catalogs) terminal.out(`${name}: ${items} items`);
      if (catalogs.length === 0) terminal.note('there are no catalogs; `km catalog add PLACE`');
    });
  });
