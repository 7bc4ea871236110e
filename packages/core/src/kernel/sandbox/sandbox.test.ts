// The sandbox, tried from inside: each test is an attempt to get out, judged by what is on the disk
// and on the wire afterwards, not by what the child says.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import {
  callOf,
  makeProject,
  portsOf,
  shell,
  type TestProject,
  verifierOf,
} from '@kernmantle/test-support/processes';
import { sandboxes } from '@kernmantle/test-support/sandboxes';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import { createProcessPrimitive } from '../process/subprocess.ts';
import type { SandboxReport } from './plan.ts';
import { probeSandbox } from './probe.ts';
import { PROGRAMS } from './util-linux.ts';

const SPAWN = 'process.spawn';
const ALL = verifierOf(SPAWN, 'fs.write **');

let project: TestProject;

for (const { name, report } of sandboxes) {
  describe.skipIf(report.kind === 'none')(name, () => attempts(report));
}

function attempts(report: SandboxReport): void {
  beforeAll(() => {
    project = makeProject({
      'src/a.txt': 'alpha',
      'docs/b.txt': 'beta',
      '.ai/tools/t.yaml': 'tool',
      '.ai/threads/one/transcript.jsonl': 'transcript',
    });
    mkdirSync(join(project.home, '.ai', 'keys'), { recursive: true });
    writeFileSync(join(project.home, '.ai', 'keys', 'private.pem'), 'private key');
    mkdirSync(join(project.home, '.ssh'));
    writeFileSync(join(project.home, '.ssh', 'id_ed25519'), 'ssh key');
    writeFileSync(join(project.base, 'outside.txt'), 'outside');
  });
  afterAll(() => project.remove());

  async function run(script: string, more: Parameters<typeof callOf>[2] = {}, args: string[] = []) {
    const primitive = createProcessPrimitive(portsOf(project, report));
    const config: JsonObject = { ...shell(script), args };
    return await primitive.run(callOf(project, config, { verify: ALL, ...more }));
  }

  /** Returns the output of the script on success and on failure. */
  async function textOf(...given: Parameters<typeof run>): Promise<string> {
    const result = await run(...given);
    const facts = (result.ok ? result.output.output : result.error.detail) as JsonObject;
    return (facts.stdout as string | undefined) ?? JSON.stringify(facts);
  }

  test('the project can be written where `fs.write` says so, and nowhere else', async () => {
    const verify = verifierOf(SPAWN, 'fs.write src/**', 'fs.write docs/b.txt');
    await run('echo 1 > src/new; echo 2 > docs/new; echo 3 > new; echo 4 > docs/b.txt', { verify });
    expect(readFileSync(join(project.root, 'src/new'), 'utf8')).toBe('1\n');
    expect(readFileSync(join(project.root, 'docs/b.txt'), 'utf8')).toBe('4\n');
    expect(existsSync(join(project.root, 'docs/new'))).toBe(false);
    expect(existsSync(join(project.root, 'new'))).toBe(false);
  });

  test('without `fs.write` nothing in the project can be written', async () => {
    await run('echo 1 > never; echo 2 > src/never; rm -f src/a.txt', { verify: verifierOf(SPAWN) });
    expect(existsSync(join(project.root, 'never'))).toBe(false);
    expect(existsSync(join(project.root, 'src/never'))).toBe(false);
    expect(existsSync(join(project.root, 'src/a.txt'))).toBe(true);
  });

  test('a folder that a policy keeps out of `**` stays read-only', async () => {
    const verify: typeof ALL = (need) =>
      need.scope?.path?.startsWith('docs/') ? verifierOf()(need) : ALL(need);
    await run('echo x > docs/denied; echo y > allowed', { verify });
    expect(existsSync(join(project.root, 'docs/denied'))).toBe(false);
    expect(existsSync(join(project.root, 'allowed'))).toBe(true);
  });

  test('a strict tool writes nothing, whatever its caller holds', async () => {
    await run('echo x > strict; echo y > /tmp/private && cat /tmp/private', {
      tool: { sandbox: 'strict' },
    });
    expect(existsSync(join(project.root, 'strict'))).toBe(false);
  });

  test('`.ai` cannot be written, moved or replaced', async () => {
    const script =
      'echo x > .ai/tools/t.yaml; echo x > .ai/new; rm -rf .ai; mv .ai .gone; ln -sfn src .ai';
    await run(script, { verify: () => ({ ok: true, output: null }) });
    expect(readFileSync(join(project.root, '.ai/tools/t.yaml'), 'utf8')).toBe('tool');
    expect(existsSync(join(project.root, '.ai/new'))).toBe(false);
    expect(existsSync(join(project.root, '.gone'))).toBe(false);
  });

  test('a project without `.ai` does not get one from inside', async () => {
    const bare = makeProject();
    execFileSync('rm', ['-rf', join(bare.root, '.ai')]);
    const primitive = createProcessPrimitive(portsOf(bare, report));
    await primitive.run(callOf(bare, shell('mkdir -p .ai/tools && echo x > .ai/tools/x.yaml')));
    expect(existsSync(join(bare.root, '.ai/tools'))).toBe(false);
    bare.remove();
  });

  test('`.ai` as a link is refused where it could be replaced', async () => {
    const odd = makeProject();
    execFileSync('rm', ['-rf', join(odd.root, '.ai')]);
    mkdirSync(join(odd.root, 'items'));
    symlinkSync('items', join(odd.root, '.ai'));
    const result = await createProcessPrimitive(portsOf(odd, report)).run(
      callOf(odd, shell('true')),
    );
    expect(result).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
    odd.remove();
  });

  test('transcripts are not there', async () => {
    expect(
      await textOf('ls -A .ai .ai/threads; cat .ai/threads/one/transcript.jsonl'),
    ).not.toContain('transcript');
  });

  test('nothing outside the project can be written or read', async () => {
    const places = [project.base, '/usr', '/etc', '/root', '/var', '/'];
    await run('for place; do echo x > "$place/km-escape"; done', {}, places);
    for (const place of places) expect(existsSync(join(place, 'km-escape')), place).toBe(false);
    expect(await textOf('cat ../outside.txt "$1"', {}, [join(project.base, 'outside.txt')])).toBe(
      '',
    );
  });

  test('a link in the project leads nowhere', async () => {
    symlinkSync(project.base, join(project.root, 'way-out'));
    expect(await textOf('cat way-out/outside.txt; echo x > way-out/outside.txt')).toBe('');
    expect(readFileSync(join(project.base, 'outside.txt'), 'utf8')).toBe('outside');
  });

  test('the home folder, its keys and the trust store do not exist', async () => {
    const text = await textOf('cat "$1"/.ai/keys/* "$1"/.ssh/*; ls -A "$1"; ls -A ~', {}, [
      project.home,
    ]);
    expect(text).toBe('');
  });

  test('a key folder inside the project is hidden too', async () => {
    const keys = join(project.root, 'user');
    mkdirSync(keys);
    writeFileSync(join(keys, 'private.pem'), 'private key');
    const env = { PATH: process.env.PATH, HOME: project.home, KERNMANTLE_HOME: keys };
    const primitive = createProcessPrimitive(portsOf(project, report, { env }));
    const result = await primitive.run(
      callOf(project, { ...shell('ls -A user; cat user/*; echo x > user/y'), ok_exit_codes: [1] }),
    );
    expect(result).toMatchObject({ ok: true, output: { output: { stdout: '' } } });
    expect(existsSync(join(keys, 'y'))).toBe(false);
  });

  test('password hashes and host keys are not there', async () => {
    expect(await textOf('cat /etc/shadow /etc/ssh/*key; ls /etc/ssh')).toBe('');
  });

  test('other processes are neither seen nor reached', async () => {
    const text = await textOf('ls /proc | grep -c "^[0-9]"; kill -0 "$1" && echo reached', {}, [
      String(process.pid),
    ]);
    expect(Number(text.split('\n')[0])).toBeLessThan(10);
    expect(text).not.toContain('reached');
  });

  test('it has no capabilities and cannot touch kernel settings', async () => {
    const text = await textOf(
      'grep CapEff /proc/self/status; for name in hostname core_pattern; do test -w /proc/sys/kernel/$name && echo writable; done; mount -t tmpfs x /mnt && echo mounted; unshare -Urm mount -o remount,rw /proc && echo remounted; unshare -Urm mount -o remount,rw,bind "$PWD/.ai" && echo opened',
    );
    expect(text).toBe('CapEff:\t0000000000000000\n');
  });

  test('environment values do not show in the list of processes', async () => {
    const running = run('while ! test -e seen; do sleep 0.05; done', { tool: { env: ['CANARY'] } });
    const lists = () => execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });
    await expect.poll(() => lists().includes('while ! test -e seen')).toBe(true);
    expect(lists()).not.toContain('tweet-tweet');
    project.write('seen', '');
    expect((await running).ok).toBe(true);
  });

  test('the network is off unless the tool requires it and its caller holds it for every host', async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections++;
      socket.end('reached');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as { port: number };
    const connect = `exec 9<>/dev/tcp/127.0.0.1/${port} && cat <&9`;
    const tool = { requires: [SPAWN, 'net.http'] };
    try {
      expect(await textOf(connect, { verify: verifierOf(SPAWN, 'net.http') })).toBe('');
      const narrow = await run(connect, {
        tool,
        verify: verifierOf(SPAWN, 'net.http *.example.org'),
      });
      expect(narrow).toMatchObject({ ok: false, error: { code: 'permission_denied' } });
      const strict = { ...tool, sandbox: 'strict' as const };
      expect(await textOf(connect, { tool: strict, verify: verifierOf(SPAWN, 'net.http') })).toBe(
        '',
      );
      expect(connections).toBe(0);
      const held = await run(connect, { tool, verify: verifierOf(SPAWN, 'net.http') });
      expect(held).toMatchObject({
        ok: true,
        output: {
          output: { stdout: 'reached', network: true },
          labels: ['src:sh', 'src:network', 'untrusted'],
        },
      });
      expect(connections).toBe(1);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });

  test("git's folder opens to `git.write` in tools that require it, its hooks and settings to nobody", async () => {
    const repo = makeProject();
    execFileSync('git', ['init', '-q', repo.root]);
    const primitive = createProcessPrimitive(portsOf(repo, report));
    const script =
      'echo x > .git/extra; echo x > .git/hooks/pre-commit; echo x >> .git/config; mv .git/hooks .git/old';
    const config = readFileSync(join(repo.root, '.git/config'), 'utf8');
    await primitive.run(callOf(repo, shell(script), { verify: ALL }));
    expect(existsSync(join(repo.root, '.git/extra'))).toBe(false);
    const verify = verifierOf(SPAWN, 'git.write', 'fs.read **');
    await primitive.run(callOf(repo, shell(script), { verify }));
    expect(existsSync(join(repo.root, '.git/extra'))).toBe(false);
    const tool = { requires: [SPAWN, 'git.write'] };
    await primitive.run(callOf(repo, shell(script), { verify, tool }));
    expect(existsSync(join(repo.root, '.git/extra'))).toBe(true);
    expect(existsSync(join(repo.root, '.git/hooks/pre-commit'))).toBe(false);
    expect(readFileSync(join(repo.root, '.git/config'), 'utf8')).toBe(config);
    repo.remove();
  });

  test('a place that became a link while it was looked at is not mounted', async () => {
    const swap = makeProject({ 'out/x': 'x' });
    let asked = 0;
    const verify: typeof ALL = (need) => {
      // The last question of the walk is about what lies in `out`: swap the folder just then.
      const isLast = need.capability === 'fs.write' && need.scope?.path === 'out/x';
      if (isLast && asked++ === 0) {
        execFileSync('rm', ['-rf', join(swap.root, 'out')]);
        symlinkSync(swap.base, join(swap.root, 'out'));
      }
      return verifierOf(SPAWN, 'fs.write out/**')(need);
    };
    const call = callOf(swap, shell('echo x > out/stolen'), { verify });
    const result = await createProcessPrimitive(portsOf(swap, report)).run(call);
    expect(asked).toBe(1);
    expect(result.ok).toBe(false);
    expect(existsSync(join(swap.base, 'stolen'))).toBe(false);
    swap.remove();
  });
}

test('a probe that finds nothing says why', async () => {
  const nowhere = ['/nowhere'];
  expect(await probeSandbox({ platform: 'linux', folders: nowhere })).toEqual({
    kind: 'none',
    reason: '`bwrap` is not installed; `unshare` is not installed',
  });
  const darwin = await probeSandbox({ platform: 'darwin', folders: nowhere });
  expect(darwin).toMatchObject({ kind: 'none' });
  expect(await probeSandbox({ platform: 'plan9' })).toMatchObject({ kind: 'none' });
});

test('a sandbox that is installed but does not work counts as none, and the next is tried', async () => {
  const broken = '#!/bin/sh\necho "no namespaces here" >&2; exit 1';
  const programs = ['bwrap', ...PROGRAMS].map((name) => [`bin/${name}`, broken]);
  const fake = makeProject(Object.fromEntries(programs));
  execFileSync('chmod', ['-R', '+x', join(fake.root, 'bin')]);
  expect(await probeSandbox({ platform: 'linux', folders: [join(fake.root, 'bin')] })).toEqual({
    kind: 'none',
    reason:
      '`bwrap` does not work here: no namespaces here; `unshare` does not work here: no namespaces here',
  });
  fake.remove();
});

test('what is in use comes with the reason why it is not the one that is tried first', async () => {
  const fake = makeProject({ 'bin/bwrap': '#!/bin/sh\nexit 1' });
  execFileSync('chmod', ['+x', join(fake.root, 'bin/bwrap')]);
  const folders = [join(fake.root, 'bin'), '/usr/bin', '/bin', '/usr/sbin', '/sbin'];
  const found = await probeSandbox({ platform: 'linux', folders });
  expect(found.reason).toMatch(/^`bwrap` does not work here/);
  const alone = await probeSandbox({ platform: 'linux', kinds: ['util-linux'] });
  expect(found.kind).toBe(alone.kind);
  fake.remove();
});
