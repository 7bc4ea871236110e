import { ok } from '../../base/index.ts';
import { keyIdOf } from '../../trust/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';

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
