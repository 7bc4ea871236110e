import { resolve } from 'node:path';
import { ok, systemClock } from '../../base/index.ts';
import { signItem } from '../../items/index.ts';
import { asList, type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';

/** Signs file by file; the first that cannot be signed ends it, those before stay signed. */
export const run: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    const key = runtime.keys.signingKey();
    if (!key.ok) return terminal.finish(key, () => {});
    const { id, publicKey } = key.output;
    const known = runtime.trustStore.list();
    // Whoever signs with this key on this machine trusts it; a revoked one stays revoked.
    if (known.ok && !known.output.some((entry) => entry.id === id)) {
      const added = runtime.trustStore.add({ id, key: publicKey, name: 'me' });
      if (!added.ok) return terminal.finish(added, () => {});
    }
    const signed: { file: string; kind: string; id: string }[] = [];
    for (const file of asList(call.args[0])) {
      const path = resolve(terminal.cwd, file);
      const done = signItem(path, key.output, systemClock, runtime.library.roots());
      if (!done.ok) return terminal.finish(done, () => {});
      const { statement } = done.output;
      signed.push({ file, kind: statement.kind, id: statement.id });
    }
    return terminal.finish(ok({ key: id, signed }), () => {
      for (const { file, kind, id: item } of signed)
        terminal.out(`signed ${kind} ${item} (${file})`);
    });
  });
