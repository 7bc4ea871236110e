import { ok } from '../../base/index.ts';
import { asText, type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';

export const revokeTrust: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { args, terminal } = call;
    const id = asText(args[0]) ?? '';
    const revoked = runtime.trustStore.revoke(id);
    return terminal.finish(revoked.ok ? ok({ id }) : revoked, () =>
      terminal.out(`revoked ${id}; items it signed are refused from now on`),
    );
  });
