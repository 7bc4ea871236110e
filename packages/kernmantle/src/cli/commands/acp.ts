// Implements `acp`: serves a client of the Agent Client Protocol, such as an editor, over the standard streams. The
// command `acp config` prints the entry for the settings of a client.
import { EXIT, fail, ok } from '@kernmantle/core/base';
import { asText, type CommandRun, version } from '../command.ts';
import { openRuntime } from '../project.ts';
import { ownCommand } from './mcp/client-settings.ts';
import { exitWithin } from './server-options.ts';

export const run: CommandRun = async ({ options, terminal }) => {
  const { serveAcp } = await import('../../acp/server.ts');
  const { env, cwd, note } = terminal;
  // No answer can be delivered after this point.
  terminal.closed.addEventListener('abort', () => process.exit(EXIT.done));
  const stop = (): void => void process.stdin.destroy();
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, stop);
  const store = asText(options.store);
  try {
    await serveAcp({
      input: process.stdin,
      output: process.stdout,
      env,
      cwd,
      version: version(),
      directive: asText(options.directive),
      open: (folder) => openRuntime({ cwd: folder, env, ...(store !== undefined && { store }) }),
      note,
    });
    return EXIT.done;
  } finally {
    exitWithin();
  }
};

interface Client {
  /** The file that takes the entry. */
  readonly file: string;
  entry(command: string, args: readonly string[]): string;
}

const json = (value: unknown): string => JSON.stringify(value, null, 2);
const servers = (more: object) => (command: string, args: readonly string[]) =>
  json({ agent_servers: { kernmantle: { ...more, command, args } } });

const CLIENTS: Readonly<Record<string, Client>> = {
  zed: { file: '~/.config/zed/settings.json', entry: servers({ type: 'custom' }) },
  jetbrains: { file: '~/.jetbrains/acp.json', entry: servers({}) },
  neovim: {
    file: 'init.lua, for codecompanion.nvim',
    entry: (command, args) => `require("codecompanion").setup({
  adapters = {
    acp = {
      kernmantle = function()
        return require("codecompanion.adapters").extend("gemini_cli", {
          name = "kernmantle",
          formatted_name = "kernmantle",
          commands = { default = { ${[command, ...args].map((word) => JSON.stringify(word)).join(', ')} } },
          defaults = { auth_method = nil, mcpServers = {} },
          handlers = { auth = function() return true end },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "kernmantle" } },
})`,
  },
  harness: {
    file: 'policy.yaml of your folder (~/.ai), for a program that answers permission requests itself',
    entry: () => 'acp:\n  may_approve: false\n  words: untrusted',
  },
};

/** Prints the entry of one client. Nothing is written. */
export const printConfig: CommandRun = async ({ args, options, terminal }) => {
  const name = asText(args[0]) ?? '';
  const client = Object.hasOwn(CLIENTS, name) ? CLIENTS[name] : undefined;
  if (!client) {
    return fail(
      'usage',
      `\`${name}\` is not a known client; use one of ${Object.keys(CLIENTS).join(', ')}`,
    );
  }
  const directive = asText(options.directive);
  const words = ['acp', ...(directive === undefined ? [] : ['--directive', directive])];
  const { command, args: all } = ownCommand(terminal.env, words);
  const entry = client.entry(command, all);
  return terminal.finish(ok({ client: name, file: client.file, entry }), () => {
    terminal.note(`for ${client.file}:`);
    terminal.out(entry);
  });
};
