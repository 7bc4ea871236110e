// The bundle's own tools that start processes, from their files: real git, real shell.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  callOf,
  makeProject,
  portsOf,
  type TestProject,
  verifierOf,
} from '@kernmantle/test-support/processes';
import { working } from '@kernmantle/test-support/sandboxes';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type JsonObject, mergeDeep } from '../../base/index.ts';
import { fillBody } from '../../expr/index.ts';
import { parseTool } from '../../items/index.ts';
import type { SandboxReport } from '../sandbox/plan.ts';
import { checkParameters, schemaOf } from '../tool/parameters.ts';
import type { ProcessPorts } from './environment.ts';
import { createProcessPrimitive } from './subprocess.ts';

const NONE: SandboxReport = { kind: 'none', reason: 'switched off by the test' };
const bundle = new URL('../../../../../bundle/tools/', import.meta.url);

function toolOf(id: string) {
  const file = new URL(`${id}.yaml`, bundle).pathname;
  const { tool, diagnostics } = parseTool(readFileSync(file, 'utf8'), file);
  if (!tool) throw new Error(JSON.stringify(diagnostics));
  expect(diagnostics).toEqual([]);
  return tool;
}

test.each(['node', 'python'])('runtime/%s ends in subprocess and says which runtime', (runtime) => {
  expect(toolOf(`runtime/${runtime}`)).toMatchObject({
    executor_id: 'subprocess',
    config: { runtime },
  });
});

let project: TestProject;
const git = (...args: string[]) =>
  execFileSync('git', ['-C', project.root, ...args], { encoding: 'utf8' });

beforeEach(() => {
  project = makeProject({ 'a.txt': 'one\n' });
  git('init', '-q', '-b', 'main');
  writeFileSync(join(project.home, '.gitconfig'), '[user]\nname = Ada\nemail = ada@example.org\n');
  git('add', 'a.txt');
  git('-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', 'commit', '-q', '-m', 'first');
});
afterEach(() => project.remove());

const kinds: [string, SandboxReport][] = [['without a sandbox', NONE], ...working];

describe.each(kinds)('%s', (_, report) => {
  const run = (id: string, parameters: JsonObject, ...grants: string[]) =>
    runWith({}, id, parameters, ...grants);

  async function runWith(
    policy: Partial<ProcessPorts>,
    id: string,
    parameters: JsonObject,
    ...grants: string[]
  ) {
    const tool = toolOf(id);
    const checked = checkParameters(id, parameters, tool.parameters, schemaOf(tool.parameters));
    if (!checked.ok) throw new Error(checked.error.detail.message);
    const given = checked.output;
    const required = tool.parameters.filter((parameter) => parameter.required);
    const config = fillBody(
      mergeDeep({}, tool.config),
      given,
      new Set(required.map(({ name }) => name)),
    );
    if (!config.ok) throw new Error(config.error.detail.message);
    const home = { HOME: project.home, PATH: process.env.PATH, GIT_CONFIG_GLOBAL: undefined };
    const ports = portsOf(project, report, { env: home, ...policy });
    const { requires, effect, sandbox, env } = tool;
    return await createProcessPrimitive(ports).run(
      callOf(project, config.output as JsonObject, {
        tool: { id, source: 'bundle', dir: bundle.pathname, requires, effect, sandbox, env },
        parameters: given,
        verify: verifierOf(...grants),
      }),
    );
  }
  const stdoutOf = (result: Awaited<ReturnType<typeof run>>): string => {
    if (!result.ok) throw new Error(JSON.stringify(result.error));
    return (result.output.output as { stdout: string }).stdout;
  };

  test('git/status, git/diff and git/log show what git shows', async () => {
    project.write('a.txt', 'two\n');
    project.write('b.txt', 'new\n');
    expect(stdoutOf(await run('git/status', {}, 'git.read', 'fs.read **'))).toContain(
      ' M a.txt\n?? b.txt',
    );
    expect(
      stdoutOf(await run('git/status', { paths: ['b.txt'] }, 'git.read', 'fs.read **')),
    ).not.toContain('a.txt');
    expect(stdoutOf(await run('git/diff', {}, 'git.read', 'fs.read **'))).toContain('+two');
    expect(
      stdoutOf(
        await run(
          'git/diff',
          { stat: true, ref: 'HEAD', paths: ['a.txt'] },
          'git.read',
          'fs.read **',
        ),
      ),
    ).toContain('1 file changed');
    expect(stdoutOf(await run('git/diff', { staged: true }, 'git.read', 'fs.read **'))).toBe('');
    expect(
      stdoutOf(await run('git/log', { max_count: 1, oneline: true }, 'git.read', 'fs.read **')),
    ).toMatch(/^\w+ first\n$/);
  });

  test('records that somebody committed are neither shown nor in the way', async () => {
    project.write('.ai/audit.jsonl', 'RECORD\n');
    project.write('.ai/threads/t/transcript.jsonl', 'RECORD\n');
    git('add', '-f', '.ai');
    git('-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', 'commit', '-q', '-m', 'records');
    project.write('.ai/audit.jsonl', 'RECORD\nRECORD\n');
    project.write('a.txt', 'two\n');
    const [status, diff] = [
      stdoutOf(await run('git/status', {}, 'git.read', 'fs.read **')),
      stdoutOf(await run('git/diff', {}, 'git.read', 'fs.read **')),
    ];
    expect(status).toBe('## main\n M a.txt\n');
    expect(diff).toContain('+two');
    expect(diff).not.toContain('RECORD');
  });

  test('the filters of a hostile repository change nothing outside', async () => {
    const outside = join(project.base, 'PWNED');
    git('config', 'filter.x.clean', `touch ${outside}; cat`);
    git('config', 'filter.x.process', `touch ${outside}`);
    project.write('.gitattributes', '* filter=x\n');
    project.write('a.txt', 'changed\n');
    for (const id of ['git/diff', 'git/status', 'git/log']) {
      await runWith({ policySandbox: 'required' }, id, {}, 'git.read', 'fs.read **');
    }
    expect(existsSync(outside)).toBe(false);
  });

  test('reading needs `git.read`, and an option in place of a value is not one', async () => {
    expect(await run('git/log', {}, 'git.write', 'fs.read **')).toMatchObject({
      error: { code: 'permission_denied' },
    });
    const result = await run('git/diff', { ref: '--output=stolen' }, 'git.read', 'fs.read **');
    expect(result.ok).toBe(false);
    expect(existsSync(join(project.root, 'stolen'))).toBe(false);
  });

  test('git/commit commits the given files and nothing else', async () => {
    project.write('b.txt', 'b\n');
    project.write('c.txt', 'c\n');
    const message = 'add "b"; $(touch hacked) `touch hacked`';
    const said = stdoutOf(
      await run('git/commit', { message, paths: ['b.txt'] }, 'git.write', 'fs.read **'),
    );
    expect(said).toContain('1 file changed');
    expect(git('log', '-1', '--format=%s by %an').trim()).toBe(`${message} by Ada`);
    expect(git('show', '--name-only', '--format=').trim()).toBe('b.txt');
    expect(existsSync(join(project.root, 'hacked'))).toBe(false);
  });

  test('git/commit can stage everything, and leaves what runs left behind alone', async () => {
    project.write('.ai/threads/x/transcript.jsonl', '{}');
    project.write('new/deep.txt', 'x');
    await run('git/commit', { message: 'all', all: true }, 'git.write', 'fs.read **');
    expect(git('show', '--name-only', '--format=').trim()).toBe('new/deep.txt');
  });

  test('git/commit runs no hooks and says so when there is nothing to commit', async () => {
    const hook = project.write('.git/hooks/pre-commit', '#!/bin/sh\ntouch "$PWD/.git/hooked"');
    execFileSync('chmod', ['+x', hook]);
    project.write('a.txt', 'three\n');
    expect(
      (await run('git/commit', { message: 'm', all: true }, 'git.write', 'fs.read **')).ok,
    ).toBe(true);
    expect(existsSync(join(project.root, '.git/hooked'))).toBe(false);
    const again = await run('git/commit', { message: 'm', all: true }, 'git.write', 'fs.read **');
    expect(again).toMatchObject({
      ok: false,
      error: { code: 'tool_failed', detail: { exit_code: 1 } },
    });
  });

  test('git/push sends one branch, without force', async () => {
    const remote = join(project.root, 'remote.git');
    execFileSync('git', ['init', '-q', '--bare', '-b', 'main', remote]);
    git('remote', 'add', 'origin', remote);
    expect(await run('git/push', { branch: 'main' }, 'git.write', 'fs.read **')).toMatchObject({
      error: { code: 'permission_denied' },
    });
    // The remote lies in the project, and no repository there opens without `git.write`.
    const grants = ['git.push', 'git.write', 'fs.write **'];
    const result = await run('git/push', { branch: 'main' }, ...grants);
    expect(result).toMatchObject({
      ok: true,
      output: { labels: ['src:cmd', 'src:network', 'untrusted'] },
    });
    expect(git('ls-remote', 'origin')).toContain('refs/heads/main');
    const forced = await run('git/push', { branch: '+main' }, ...grants);
    expect(forced.ok).toBe(false);
  });

  test('shell/bash runs one command line where it is told to', async () => {
    project.write('sub/x', '');
    const result = await run(
      'shell/bash',
      { command: 'ls; cat', cwd: 'sub', stdin: 'in' },
      'process.spawn',
      'fs.read **',
    );
    expect(stdoutOf(result)).toBe('x\nin');
    expect(await run('shell/bash', { command: 'true' }, 'git.read', 'fs.read **')).toMatchObject({
      error: { code: 'permission_denied' },
    });
  });
});
