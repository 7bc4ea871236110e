import type { CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';
import { visible } from '../terminal.ts';

export const listTrust: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    return terminal.finish(runtime.trustStore.list(), (keys) => {
      for (const { id, name, kinds, ids, expires, revoked } of keys) {
        const limits = [
          kinds ? `kinds ${kinds.join(',')}` : '',
          ids ? `ids ${ids.join(',')}` : '',
          expires ? `until ${expires}` : '',
        ].filter(Boolean);
        const state = revoked ? terminal.paint('red', ' revoked') : '';
        terminal.out(
          `${id} ${visible(name ?? '')} ${terminal.paint('dim', limits.join(' '))}${state}`,
        );
      }
      if (keys.length === 0) terminal.note('no keys are trusted yet; `km keys` makes yours');
    });
  });
