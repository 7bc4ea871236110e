import { ok } from '../../base/index.ts';
import { keyIdOf } from '../../trust/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';
import { visible } from '../terminal/terminal.ts';

const listOf = (text: string | undefined): string[] | undefined =>
  text
    ?.split(',')
    .map((part) => part.trim())
    .filter(Boolean);

export const addTrust: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { args, options, terminal } = call;
    const key = asText(args[0]) ?? '';
    const id = keyIdOf(key);
    if (!id.ok) return terminal.finish(id, () => {});
    const [name, expires] = [asText(options.name), asText(options.expires)];
    const [kinds, ids] = [listOf(asText(options.kinds)), listOf(asText(options.ids))];
    const added = runtime.trustStore.add({
      id: id.output,
      key,
      ...(name === undefined ? {} : { name }),
      ...(kinds === undefined ? {} : { kinds }),
      ...(ids === undefined ? {} : { ids }),
      ...(expires === undefined ? {} : { expires }),
    });
    const shown = added.ok ? ok({ id: id.output }) : added;
    return terminal.finish(shown, (done) => terminal.out(`trusted ${done.id}`));
  });

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

export const revokeTrust: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { args, terminal } = call;
    const id = asText(args[0]) ?? '';
    const revoked = runtime.trustStore.revoke(id);
    return terminal.finish(revoked.ok ? ok({ id }) : revoked, () =>
      terminal.out(`revoked ${id}; items it signed are refused from now on`),
    );
  });
