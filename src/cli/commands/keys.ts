import { type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';

/** The public half only: the private key never leaves its file. */
export const showKeys: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    const before = runtime.keys.list();
    const key = runtime.keys.signingKey();
    const shown = key.ok
      ? { ok: true as const, output: { id: key.output.id, public_key: key.output.publicKey } }
      : key;
    return terminal.finish(shown, ({ id, public_key }) => {
      if (before.ok && before.output.length === 0)
        terminal.note(`made a new key in ${runtime.home}/keys`);
      terminal.out(`${terminal.paint('dim', 'id        ')} ${id}`);
      terminal.out(`${terminal.paint('dim', 'public key')} ${public_key}`);
      terminal.note('others accept what you sign after `km trust add <public key> --name <you>`');
    });
  });
