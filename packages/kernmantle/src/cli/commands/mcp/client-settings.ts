// Finds the settings files of MCP clients and creates the entry for this server.
import { accessSync, constants, readFileSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import {
  errnoOf,
  fail,
  type JsonObject,
  type Outcome,
  ok,
  packagePath,
} from '@kernmantle/core/base';
import { asText, type CommandCall } from '../../command.ts';

type Env = Readonly<Record<string, string | undefined>>;
type SettingsScope = 'project' | 'user';

/** Settings file of a client, relative to the project or the home folder. Absent: the client has none. */
interface ClientFile {
  readonly section: string;
  readonly project?: string;
  user(env: Env, platform: NodeJS.Platform): string;
  readonly extra?: JsonObject;
  readonly next: Readonly<Partial<Record<SettingsScope, string>> & { user: string }>;
}

/** Folder of the settings of programs, below the home folder. */
function settings(env: Env, platform: NodeJS.Platform, ...path: string[]): string {
  if (platform === 'darwin') return join('Library', 'Application Support', ...path);
  if (platform === 'win32') return join(env.APPDATA ?? join('AppData', 'Roaming'), ...path);
  return join(env.XDG_CONFIG_HOME ?? '.config', ...path);
}

const CLIENTS: Readonly<Record<string, ClientFile>> = {
  'claude-code': {
    section: 'mcpServers',
    project: '.mcp.json',
    user: () => '.claude.json',
    next: {
      project: 'start `claude` in the project; it asks once whether to use the server',
      user: 'start `claude` again, in any folder; `/mcp` there shows the server',
    },
  },
  'claude-desktop': {
    section: 'mcpServers',
    user: (env, platform) => settings(env, platform, 'Claude', 'claude_desktop_config.json'),
    next: { user: 'start Claude Desktop again' },
  },
  cursor: {
    section: 'mcpServers',
    project: '.cursor/mcp.json',
    user: () => '.cursor/mcp.json',
    next: { user: 'enable the server in the settings of Cursor, under MCP' },
  },
  vscode: {
    section: 'servers',
    project: '.vscode/mcp.json',
    user: (env, platform) => settings(env, platform, 'Code', 'User', 'mcp.json'),
    extra: { type: 'stdio' },
    next: { user: 'open the file in VS Code and press Start above the server' },
  },
};

/** True if a client would find this program as `km` in its path. */
function isOnPath(env: Env): boolean {
  const name = process.platform === 'win32' ? 'km.cmd' : 'km';
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    try {
      const file = join(folder, name);
      accessSync(file, constants.X_OK);
      const manifest = join(dirname(realpathSync(file)), '..', 'package.json');
      const { name: program } = JSON.parse(readFileSync(manifest, 'utf8')) as { name?: unknown };
      // The system starts the first program of that name.
      return program === 'kernmantle';
    } catch (error) {
      if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') return false;
    }
  }
  return false;
}

/** Returns how a client starts this program: by its name if the client finds it, else by its file. */
export const ownCommand = (env: Env, args: readonly string[]) =>
  isOnPath(env)
    ? { command: 'km', args: [...args] }
    : { command: process.execPath, args: [packagePath('bin/km.js'), ...args] };

export const entryOf = (project: string, env: Env, extra: JsonObject = {}): JsonObject => ({
  ...extra,
  ...ownCommand(env, ['mcp', 'serve', '--project', project]),
});

export interface SettingsFile {
  readonly client: string;
  readonly file: string;
  /** Folder that must contain the file after links are resolved. */
  readonly within: string;
  readonly settings: ClientFile;
  readonly next: string;
}

export function targetOf(
  project: string,
  { options, terminal: { env } }: CommandCall,
): Outcome<SettingsFile> {
  const client = asText(options.client) ?? '';
  const entry = Object.hasOwn(CLIENTS, client) ? CLIENTS[client] : undefined;
  if (!entry) {
    return fail('usage', `\`--client\` must be one of ${Object.keys(CLIENTS).join(', ')}`);
  }
  const scope = asText(options.scope) ?? (entry.project === undefined ? 'user' : 'project');
  if (scope !== 'project' && scope !== 'user') {
    return fail('usage', '`--scope` must be `project` or `user`');
  }
  const home = env.HOME ?? homedir();
  const paths: Readonly<Record<SettingsScope, readonly [string, string | undefined]>> = {
    project: [project, entry.project],
    user: [home, entry.user(env, process.platform)],
  };
  const [base, path] = paths[scope];
  if (path === undefined)
    return fail('usage', `${client} has no project settings; use \`--scope user\``);
  const file = resolve(base, path);
  const within = isAbsolute(path) ? dirname(file) : base;
  return ok({ client, file, within, settings: entry, next: entry.next[scope] ?? entry.next.user });
}
