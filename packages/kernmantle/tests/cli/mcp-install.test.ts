// Tests the settings of MCP clients that the command writes into a temporary home folder.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterEach, beforeEach, expect, test } from 'vitest';

let fixture: Fixture;
beforeEach(() => {
  fixture = makeFixture();
});
afterEach(() => fixture.remove());

interface Entry {
  command: string;
  args: string[];
}
interface Settings {
  mcpServers?: Record<string, Entry>;
  servers?: Record<string, Entry>;
}

const km = (...args: string[]) => runCommand(args, fixture.root, fixture.env);
const install = (...args: string[]) => km('mcp', 'install', ...args);
const read = (file: string): Settings => JSON.parse(readFileSync(file, 'utf8')) as Settings;
const userFile = (...path: string[]): string => join(dirname(fixture.root), ...path);

test.each([
  ['claude-code', '.mcp.json', 'mcpServers'],
  ['cursor', '.cursor/mcp.json', 'mcpServers'],
  ['vscode', '.vscode/mcp.json', 'servers'],
] as const)('%s gets its file, and what it says starts a server', async (client, file, section) => {
  expect((await install('--client', client, '--yes')).code).toBe(0);
  const entry = read(join(fixture.root, file))[section]?.kernmantle;
  expect(entry?.args.slice(-2)).toEqual(['--project', fixture.root]);
  const peer = new Client({ name: 'test', version: '1.0.0' });
  const { command = '', args = [] } = entry ?? {};
  const env = { ...(fixture.env as Record<string, string>), KERNMANTLE_SRC: '1' };
  await peer.connect(new StdioClientTransport({ command, args, env, stderr: 'ignore' }));
  expect((await peer.listTools()).tools).toHaveLength(4);
  await peer.close();
  const again = await install('--client', client, '--yes');
  expect([again.code, again.output]).toEqual([0, expect.stringContaining('is up to date')]);
  expect(
    readdirSync(dirname(join(fixture.root, file))).filter((name) => name.endsWith('.bak')),
  ).toEqual([]);
});

test.skipIf(process.platform !== 'linux')('user settings are in the home folder', async () => {
  const files = {
    'claude-desktop': userFile('.config', 'Claude', 'claude_desktop_config.json'),
    'claude-code': userFile('.claude.json'),
    cursor: userFile('.cursor', 'mcp.json'),
    vscode: userFile('.config', 'Code', 'User', 'mcp.json'),
  };
  for (const [client, file] of Object.entries(files)) {
    const done = await install('--client', client, '--scope', 'user', '--yes');
    expect(done.code).toBe(0);
    expect(done.output).not.toContain('in the project');
    expect(existsSync(file), file).toBe(true);
  }
  expect((await install('--client', 'claude-desktop')).code).toBe(0);
  expect((await install('--client', 'claude-desktop', '--scope', 'project')).code).toBe(2);
  expect((await install('--client', 'emacs')).code).toBe(2);
});

test('the change is shown first, and nothing is written without a yes', async () => {
  const before = '{\n  "mcpServers": {\n    "other": {"env": {"KEY": "s3cret"}}\n  }\n}\n';
  const file = fixture.write('.mcp.json', before);
  chmodSync(file, 0o640);
  const asked = await install('--client', 'claude-code');
  expect(asked.code).toBe(7);
  expect(asked.output).toContain('+    "kernmantle": {');
  expect(readFileSync(file, 'utf8')).toBe(before);
  const printed = await install('--client', 'claude-code', '--print', '--json');
  expect(JSON.parse(printed.output)).toMatchObject({
    output: { file, settings: { mcpServers: { kernmantle: {} } } },
  });
  expect(readFileSync(file, 'utf8')).toBe(before);
  const written = await install('--client', 'claude-code', '--yes', '--json');
  const done = JSON.parse(written.output) as { output: { state: string; backup: string } };
  expect(done.output.state).toBe('written');
  expect(readFileSync(done.output.backup, 'utf8')).toBe(before);
  expect(statSync(file).mode & 0o777).toBe(0o640);
  expect(read(file).mcpServers).toMatchObject({
    other: { env: { KEY: 's3cret' } },
    kernmantle: {},
  });
  expect((await km('audit', '-n', '1')).output).toContain('mcp:install');
});

test('a file with comments is left as it is, with what to add by hand', async () => {
  const before = '{\n  // mine\n  "servers": {},\n}\n';
  const file = fixture.write('.vscode/mcp.json', before);
  const refused = await install('--client', 'vscode', '--yes');
  expect(refused.code).toBe(3);
  expect(refused.output).toContain('add by hand: {"servers":{"kernmantle":{"type":"stdio"');
  expect(readFileSync(file, 'utf8')).toBe(before);
});

test('links that lead out of the project are not followed', async () => {
  const outside = fixture.write(userFile('profile'), '{}\n');
  symlinkSync(outside, join(fixture.root, '.mcp.json'));
  expect((await install('--client', 'claude-code', '--yes')).code).toBe(4);
  mkdirSync(userFile('elsewhere'));
  symlinkSync(userFile('elsewhere'), join(fixture.root, '.cursor'));
  expect((await install('--client', 'cursor', '--yes')).code).toBe(4);
  symlinkSync(userFile('nowhere'), join(fixture.root, '.vscode'));
  expect((await install('--client', 'vscode', '--yes')).code).not.toBe(0);
  expect(readFileSync(outside, 'utf8')).toBe('{}\n');
  expect(readdirSync(userFile('elsewhere'))).toEqual([]);
  expect(existsSync(userFile('nowhere'))).toBe(false);
});
