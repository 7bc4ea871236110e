// How a child starts and ends in each sandbox: what arrives of it and around it is the same.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import {
  callOf,
  isGone,
  makeProject,
  portsOf,
  shell,
  type TestProject,
  verifierOf,
} from '@kernmantle/test-support/processes';
import { sandboxes } from '@kernmantle/test-support/sandboxes';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import { createProcessPrimitive } from '../process/subprocess.ts';
import type { SandboxReport } from './plan.ts';

const DRIVER = new URL('../../../../../tests/support/sandbox-driver.ts', import.meta.url).pathname;
const AS_NOBODY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
const isRoot = process.getuid?.() === 0;

let project: TestProject;
beforeEach(() => {
  project = makeProject({ 'src/a.txt': 'alpha', 'closed/b.txt': 'beta' });
});
afterEach(() => project.remove());

const stdoutOf = ({ stdout }: JsonObject): string => (typeof stdout === 'string' ? stdout : '');

for (const { name, report } of sandboxes) {
  describe.skipIf(report.kind === 'none')(name, () => cases(report));
}

function cases(report: SandboxReport): void {
  async function run(config: JsonObject, more: Parameters<typeof callOf>[2] = {}) {
    const result = await createProcessPrimitive(portsOf(project, report)).run(
      callOf(project, config, more),
    );
    return (result.ok ? result.output.output : result.error.detail) as JsonObject;
  }

  /** The sandbox as a grandchild: the command ends in the driver's own arguments. */
  function drive(command: readonly string[], script: string): ChildProcess {
    const args = [...command.slice(1), ...(command.length > 0 ? [process.execPath] : []), DRIVER];
    const file = command[0] ?? process.execPath;
    return spawn(file, [...args, report.kind, project.root, script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, TMPDIR: project.base },
    });
  }

  async function driven(command: readonly string[], script: string): Promise<string> {
    let text = '';
    const child = drive(command, script);
    for await (const chunk of child.stdout ?? []) text += String(chunk);
    return text;
  }

  test('the environment is the one that was made, to the last variable', async () => {
    const odd = {
      QUOTES: `it's "so" $(touch bad) \`touch bad\` \\ $HOME`,
      LINES: 'one\ntwo\n',
      EMPTY: '',
      IFS: 'x',
      RANDOM: '7',
      UID: '12345',
      OPTIND: 'none',
      LD_LIBRARY_PATH: '/nowhere',
    };
    const facts = await run({ command: 'env', args: ['-0'], env: odd });
    const found = stdoutOf(facts).split('\0').filter(Boolean);
    expect(Object.fromEntries(found.map((one) => one.split(/=(.*)/s).slice(0, 2)))).toEqual({
      ...odd,
      PATH: process.env.PATH?.split(':')
        .filter((folder, index, all) => all.indexOf(folder) === index)
        .join(':'),
      HOME: '/tmp/.home',
      TMPDIR: '/tmp',
      USER: 'sandbox',
      LOGNAME: 'sandbox',
      LANG: 'C.UTF-8',
      PWD: project.root,
    });
    expect(existsSync(join(project.root, 'bad'))).toBe(false);
  });

  test('arguments, input, outputs and codes pass through', async () => {
    const odd = ['-c', '--', '', 'a b', "'", '"$HOME"', 'x\ny', '*'];
    const shown = await run({ command: 'printf', args: ['%s|', ...odd] });
    expect(shown.stdout).toBe(`${odd.join('|')}|`);
    const facts = await run({
      ...shell('cat; echo to-stderr >&2; exit 7'),
      stdin: "it's\n",
      ok_exit_codes: [7],
    });
    expect(facts).toMatchObject({ stdout: "it's\n", stderr: 'to-stderr\n', exit_code: 7 });
  });

  test.each(['TERM', 'KILL', 'SEGV', 'INT'])(
    'a child ended by SIG%s says so and no more',
    async (signal) => {
      const facts = await run(shell(`kill -${signal} $$`));
      expect(facts).toMatchObject({ signal: `SIG${signal}`, exit_code: null, stderr: '' });
    },
  );

  test('a program that is not there is missing, not failed', async () => {
    const gone = project.write('src/gone', '#!/nowhere/interpreter\n');
    chmodSync(gone, 0o755);
    const result = await createProcessPrimitive(portsOf(project, report)).run(
      callOf(project, { command: './src/gone' }),
    );
    expect(result.ok).toBe(false);
  });

  test('nothing of ours is open in there, and it has no rights to give up', async () => {
    const open = await run({ command: 'ls', args: ['/proc/self/fd'] });
    // The test runner may have left descriptors open that every child inherits.
    const inherited = execFileSync('ls', ['/proc/self/fd'], { encoding: 'utf8', stdio: 'pipe' });
    const lines = (text: string) => text.trim().split('\n').sort();
    expect(lines(stdoutOf(open))).toEqual(lines(`${inherited}4`));
    const facts = await run(
      shell(
        'umask; id -u; id -g; grep -E "^(Cap|NoNewPrivs)" /proc/self/status; grep CapEff /proc/1/status',
      ),
    );
    const mask = process.umask().toString(8).padStart(4, '0');
    const none = ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb'].map(
      (kind) => `Cap${kind}:\t${'0'.repeat(16)}`,
    );
    expect(stdoutOf(facts).trim().split('\n')).toEqual([
      mask,
      String(process.getuid?.()),
      String(process.getgid?.()),
      ...none,
      'NoNewPrivs:\t1',
      ...none.slice(2, 3),
    ]);
  });

  test('a script in there can talk to itself, and to nobody else', async () => {
    const facts = await run(
      shell('(exec 9<>/dev/tcp/127.0.0.1/9) 2>&1; (exec 9<>/dev/tcp/192.0.2.1/9) 2>&1; hostname'),
    );
    expect(facts.stdout).toMatch(/refused.*unreachable/s);
  });

  test.each([
    'a b',
    "it's",
    '"quoted"',
    '-rf',
    '--',
    '$(touch bad)',
    'back\\slash\\040',
    'new\nline\n',
    '#hash',
    '\ttab ',
    'ünï\u2028cöde',
  ])('a project called %j is mounted as it is', async (odd) => {
    const root = join(project.base, odd);
    renameSync(project.root, root);
    project = { ...project, root };
    const verify = verifierOf('process.spawn', 'fs.read **', 'fs.write src/**');
    const script = 'printf %s "$PWD"; echo x > src/new; echo x > "$1"; ls -A';
    const facts = await run({ ...shell(script), args: [odd] }, { verify });
    const listed = execFileSync('ls', ['-A', '--', root], { encoding: 'utf8' });
    expect(facts.stdout).toBe(`${root}${listed}`);
    expect(existsSync(join(root, odd))).toBe(false);
    expect(existsSync(join(root, 'src/new'))).toBe(true);
    expect(existsSync(join(project.base, 'bad')) || existsSync('bad')).toBe(false);
  });

  test('a place whose name is hostile is closed all the same', async () => {
    const odd = "clo'sed\n $(touch bad)";
    mkdirSync(join(project.root, odd));
    const all = verifierOf('process.spawn', 'fs.write **');
    const verify: typeof all = (need) =>
      need.scope?.path?.startsWith(odd) ? verifierOf()(need) : all(need);
    await run({ ...shell('echo x > "$1/new"; echo x > open'), args: [odd] }, { verify });
    expect(existsSync(join(project.root, odd, 'new'))).toBe(false);
    expect(existsSync(join(project.root, 'open'))).toBe(true);
    expect(existsSync(join(project.root, 'bad'))).toBe(false);
  });

  test('nothing stays mounted and nothing stays running', async () => {
    const mounts = () => readFileSync('/proc/self/mountinfo', 'utf8');
    const before = mounts();
    const facts = await run(
      shell('(setsid sleep 1234 & echo $!) ; nohup sleep 1234 >/dev/null 2>&1 & sleep 0.1'),
    );
    expect(facts.exit_code).toBe(0);
    const left = execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' });
    expect(left.split('\n').filter((line) => line === 'sleep 1234')).toEqual([]);
    expect(mounts()).toBe(before);
  });

  test('when the supervisor is killed everything inside is gone', async () => {
    const child = drive([], 'setsid sleep 4321 & echo $$ > src/started; sleep 4321');
    await expect.poll(() => existsSync(join(project.root, 'src/started'))).toBe(true);
    const sleeping = () =>
      execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
        .split('\n')
        .filter((line) => line.trim().endsWith('sleep 4321') && !line.includes('started'))
        .map((line) => Number(line.trim().split(' ')[0]));
    await expect.poll(() => sleeping().length).toBeGreaterThanOrEqual(2);
    const all = sleeping();
    child.kill('SIGKILL');
    for (const pid of all) expect(await isGone(pid), String(pid)).toBe(true);
  });

  // Mounted in a namespace of the test's own: nobody else sees it.
  const inOwnMounts = (point: string): string[] => [
    'unshare',
    ...(isRoot ? [] : ['--user', '--map-root-user']),
    '--mount',
    '--propagation',
    'private',
    'sh',
    '-c',
    'mount -t tmpfs tmpfs "$1" && mkdir "$1/deep" && mount -t tmpfs tmpfs "$1/deep" && shift && exec "$@"',
    'sh',
    point,
  ];

  test.each([
    ['a closed folder', 'closed/sub', 'closed'],
    ['an open folder', 'src/sub', 'open'],
    ['itself a closed folder', 'closed', 'closed'],
  ])('what is mounted in %s is as closed as what is around it', async (_, path, access) => {
    mkdirSync(join(project.root, path), { recursive: true });
    const text = await driven(
      inOwnMounts(join(project.root, path)),
      `for place in ${path} ${path}/deep; do touch $place/x && echo wrote $place; done; grep -c " $PWD/${path}" /proc/self/mountinfo`,
    );
    expect(text).toContain('"ok":true');
    if (access === 'closed') expect(text).not.toContain('wrote');
    else expect(text).toContain(`wrote ${path}\\nwrote ${path}/deep`);
  });

  test.skipIf(!isRoot)('an ordinary user gets the same (tried as root)', async () => {
    execFileSync('chmod', ['-R', 'a+rwX', project.base]);
    chmodSync(join(project.base, '..'), 0o711);
    const text = await driven(
      AS_NOBODY,
      'id -u; touch src/yes closed/no .ai/no; ls src closed; grep -h CapBnd /proc/self/status /proc/1/status; cat /proc/self/uid_map; echo 0 0 1 > /proc/1/uid_map || echo kept; (exec 9<>/dev/tcp/127.0.0.1/9) 2>&1 | grep -q refused && echo refused',
    );
    const { output } = (JSON.parse(text) as { output: { output: { stdout: string } } }).output;
    const none = `CapBnd:\t${'0'.repeat(16)}\n`;
    expect(output.stdout.replaceAll(/ +/g, ' ')).toBe(
      `65534\nclosed:\nb.txt\n\nsrc:\na.txt\nyes\n${none}${none} 65534 0 1\nkept\nrefused\n`,
    );
  });

  test('a project on the way to which a link stands is refused or not left', async () => {
    symlinkSync(project.base, join(project.root, 'out'));
    const facts = await run(shell('cat out/project/src/a.txt; touch out/escaped'));
    expect(existsSync(join(project.base, 'escaped'))).toBe(false);
    expect(facts.stdout).toBe('alpha');
  });
}
