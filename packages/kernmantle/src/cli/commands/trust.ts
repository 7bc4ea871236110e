import { compact, ok } from '@kernmantle/core/base';
import { noted, personAuditRow } from '@kernmantle/core/runtime';
import { keyIdOf } from '@kernmantle/core/trust';
import { asText } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { visible } from '../terminal/terminal.ts';

const listOf = (text: string | undefined): string[] | undefined =>
  text
    ?.split(',')
    .map((part) => part.trim())
    .filter(Boolean);

export const addTrust = inProject(async (runtime, call) => {
  const { args, options, terminal } = call;
  const key = asText(args[0]) ?? '';
  const id = keyIdOf(key);
  if (!id.ok) return id;
  const tried = runtime.trustStore.add(
    compact<Parameters<typeof runtime.trustStore.add>[0]>({
      id: id.output,
      key,
      name: asText(options.name),
      kinds: listOf(asText(options.kinds)),
      ids: listOf(asText(options.ids)),
      expires: asText(options.expires),
    }),
  );
  const row = personAuditRow(commandActor(call), 'trust:add', id.output, asText(options.name));
  const added = noted(runtime, row, tried);
  const result = added.ok ? ok({ id: id.output }) : added;
  return terminal.finish(result, (done) => terminal.out(`trusted ${done.id}`));
});

export const listTrust = inProject(async (runtime, { terminal }) => {
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
    if (keys.length === 0) terminal.note('no trusted keys; create yours with `km keys`');
  });
});

export const revokeTrust = inProject(async (runtime, call) => {
  const { args, terminal } = call;
  const id = asText(args[0]) ?? '';
  const row = personAuditRow(commandActor(call), 'trust:revoke', id);
  const revoked = noted(runtime, row, runtime.trustStore.revoke(id));
  return terminal.finish(revoked.ok ? ok({ id }) : revoked, () =>
    terminal.out(`revoked ${id}; items it signed are refused from now on`),
  );
});
