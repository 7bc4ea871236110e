// Tests `km mcp add` at a terminal: the tools are shown, and a person accepts or refuses them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { installServer } from './support/changing-server.ts';
import { type Connected, makeConnected, QUERY } from './support/connected.ts';

const KM = fileURLToPath(new URL('../../../bin/km.js', import.meta.url));
const HAS_SCRIPT = process.platform === 'linux' && existsSync('/usr/bin/script');

/** The process of the command below `script`, with or without a shell in between. */
function commandOf(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  const isCommand = readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(process.execPath);
  return isCommand ? pid : commandOf(Number(children.split(' ')[0]));
}

let project: Connected;
beforeEach(() => {
  project = makeConnected();
});
afterEach(() => project.remove());

/** Types an answer to a question, or sends a signal to the command instead. */
async function atTerminal(words: readonly string[], typed: string, signal?: NodeJS.Signals) {
  const command = [process.execPath, KM, ...words].map((word) => `'${word}'`).join(' ');
  const child = spawn('/usr/bin/script', ['-qec', command, '/dev/null'], {
    cwd: project.root,
    env: { ...project.env, KERNMANTLE_SRC: '1', TERM: 'dumb' },
  });
  let output = '';
  child.stdout.on('data', (piece) => {
    output += piece;
    if (!output.endsWith('[y/N] ')) return;
    if (signal === undefined) child.stdin.write(typed);
    else process.kill(commandOf(child.pid ?? 0), signal);
  });
  const [code] = (await once(child, 'exit')) as [number];
  return { code, output };
}

test.skipIf(!HAS_SCRIPT)('no keeps nothing, yes signs what was shown', async () => {
  const { args } = installServer(project, { tools: [QUERY] });
  const words = ['mcp', 'add', 'db', '--command', process.execPath, '--read', 'server/**'];
  const no = await atTerminal([...words, '--', ...args], 'n\n');
  expect(no.code, no.output).toBe(4);
  expect(no.output).toContain('+ mcp/db/query destructive, open world');
  expect(no.output).toContain('takes sql: string');
  expect(no.output).toContain('needs mcp.db.call');
  expect(existsSync(join(project.root, '.ai/tools/mcp/db'))).toBe(false);
  const yes = await atTerminal([...words, '--', ...args], 'y\n');
  expect(yes.code, yes.output).toBe(0);
  expect(await project.run('mcp/db/query', { sql: 'x' })).toMatchObject({ ok: true });
});

test.skipIf(!HAS_SCRIPT).each([
  ['Ctrl-C', '\u0003', undefined],
  ['SIGTERM', '', 'SIGTERM'],
  ['SIGHUP', '', 'SIGHUP'],
] as const)(
  '%s at the question ends the command, and nothing of it is left',
  async (_name, typed, signal) => {
    const { args } = installServer(project, { tools: [QUERY] });
    const words = ['mcp', 'add', 'db', '--command', process.execPath, '--read', 'server/**'];
    const left = await atTerminal([...words, '--', ...args], typed, signal);
    expect(left.code, left.output).toBe(130);
    expect(left.output).toContain('interrupted before its tools were added');
    expect(existsSync(join(project.root, '.ai/tools/mcp/db'))).toBe(false);
    const { output } = await project.km('approvals', 'ls', '--json');
    expect(JSON.parse(output)).toMatchObject({ ok: true, output: [] });
  },
);
