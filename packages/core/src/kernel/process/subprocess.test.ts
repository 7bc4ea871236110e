import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import {
  callOf,
  holdsEverything,
  isGone,
  makeProject,
  portsOf,
  shell,
  type TestProject,
  verifierOf,
} from '@kernmantle/test-support/processes';
import { working } from '@kernmantle/test-support/sandboxes';
import { pollMs } from '@kernmantle/test-support/soak';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject, Outcome } from '../../base/index.ts';
import { hasStarted, type PrimitiveResult } from '../primitive.ts';
import type { SandboxReport } from '../sandbox/plan.ts';
import { createProcessPrimitive } from './subprocess.ts';

const NONE: SandboxReport = { kind: 'none', reason: 'switched off by the test' };
const kinds: [string, SandboxReport][] = [['without a sandbox', NONE], ...working];

let project: TestProject;
beforeAll(() => {
  project = makeProject({ 'src/a.txt': 'alpha\n' });
});
afterAll(() => project.remove());

function outputOf(result: Outcome<PrimitiveResult>): JsonObject {
  if (!result.ok) throw new Error(`${result.error.code}: ${result.error.detail.message}`);
  return result.output.output as JsonObject;
}

function faultOf(result: Outcome<PrimitiveResult>) {
  if (result.ok) throw new Error(`did not fail: ${JSON.stringify(result.output.output)}`);
  return result.error;
}

describe.each(kinds)('%s', (_, report) => {
  const primitive = () => createProcessPrimitive(portsOf(project, report));
  const run = (config: JsonObject, more: Parameters<typeof callOf>[2] = {}) =>
    primitive().run(callOf(project, config, more));

  test('arguments arrive one by one, whatever characters they hold', async () => {
    const args = ['a b', '$(id)', '`id`', '"', "'", '', '*', 'ü\n'];
    const result = await run({ command: 'printf', args: ['%s|', ...args] });
    expect(outputOf(result)).toMatchObject({
      stdout: args.map((text) => `${text}|`).join(''),
      stderr: '',
      exit_code: 0,
      signal: null,
      truncated: false,
    });
  });

  test.each([
    'sandbox: STRANGER',
    'bwrap: STRANGER',
    'sandbox: execvp STRANGER',
    'setpriv: STRANGER',
    'prlimit: failed to execute STRANGER',
    '"exit-code"',
    'unshare: STRANGER',
  ])(
    'a program that writes `%s` has run: the set-up of its sandbox has not failed',
    async (said) => {
      for (const code of [1, 126, 127]) {
        const script = `echo '${said}' >&2; echo '${said}' >&4; (echo '${said}' >&3; echo x >&5) 2>/dev/null; exit ${code}`;
        const fault = faultOf(await run(shell(script)));
        expect(fault).toMatchObject({ code: 'tool_failed', detail: { exit_code: code } });
        expect(hasStarted(fault)).toBe(true);
      }
    },
  );

  test('parameters become options, flags and repeated options', async () => {
    const result = await run(
      {
        command: 'echo',
        args: ['-'],
        args_from: ['dry_run', 'quiet', 'tag', 'name', 'gone'],
        args_last: ['--', ['x', 'y']],
      },
      { parameters: { dry_run: true, quiet: false, tag: ['a', 'b'], name: '--force' } },
    );
    expect(outputOf(result).stdout).toBe('- --dry-run --tag a --tag b --name=--force -- x y\n');
  });

  test('text and JSON arrive on stdin', async () => {
    expect(outputOf(await run({ command: 'cat', stdin: 'héllo' })).stdout).toBe('héllo');
    expect(outputOf(await run({ command: 'cat', stdin: { a: [1] } })).stdout).toBe('{"a":[1]}');
  });

  test('a program that does not read its stdin is no problem, however much there is', async () => {
    const result = await run({ command: 'true', stdin: 'x'.repeat(5_000_000) });
    expect(outputOf(result).exit_code).toBe(0);
  });

  test('it runs in the folder its config names, inside the project alone', async () => {
    expect(outputOf(await run({ command: 'cat', args: ['a.txt'], cwd: 'src' })).stdout).toBe(
      'alpha\n',
    );
    expect(faultOf(await run({ command: 'pwd', cwd: '..' })).code).toBe('permission_denied');
    expect(faultOf(await run({ command: 'pwd', cwd: 'nowhere' })).code).toBe('not_found');
  });

  test('the environment is a list: declared and set names arrive, others do not', async () => {
    const listed = outputOf(await run({ command: 'env', env: { SET: 'by config' } }))
      .stdout as string;
    expect(listed).not.toContain('tweet-tweet');
    expect(listed).toContain('SET=by config');
    expect(listed).not.toContain(`HOME=${project.home}`);
    const names = listed
      .trim()
      .split('\n')
      .map((line) => line.split('=')[0]);
    expect(
      names.filter(
        (name) =>
          !/^(PATH|HOME|TMPDIR|USER|LOGNAME|LANG|LC_.*|TERM|NO_COLOR|TZ|SET|PWD)$/.test(name ?? ''),
      ),
    ).toEqual([]);
    const declared = await run(shell('test "$CANARY" = tweet-tweet'), {
      tool: { env: ['CANARY'] },
    });
    expect(declared.ok).toBe(true);
  });

  test('a secret that the program prints is not shown', async () => {
    const result = await run(shell('echo "key=$CANARY hunter2-key"'), {
      tool: { env: ['CANARY'] },
      secrets: ['hunter2-key'],
    });
    expect(outputOf(result).stdout).toBe('key=[secret] [secret]\n');
  });

  test('an exit code, a signal, a timeout and a cancellation are four different outcomes', async () => {
    const exited = faultOf(await run(shell('echo out; echo why >&2; exit 3')));
    expect(exited.code).toBe('tool_failed');
    expect(exited.detail).toMatchObject({
      exit_code: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'why\n',
    });
    expect(exited.detail.message).toMatch(/exited with code 3: why$/);

    const signalled = faultOf(await run(shell('kill -SEGV $$')));
    expect(signalled.code).toBe('tool_failed');
    expect(signalled.detail).toMatchObject({ exit_code: null, signal: 'SIGSEGV' });

    const timed = faultOf(await run(shell('echo early; sleep 60'), { timeoutMs: 1500 }));
    expect(timed.code).toBe('timeout');
    expect(timed.detail).toMatchObject({ stdout: 'early\n', timeout_ms: 1500 });

    const stopper = new AbortController();
    const length = uniqueLength();
    const stopped = run(shell(`sleep ${length}`), { signal: stopper.signal });
    await findSleeps(length, 1);
    stopper.abort();
    expect(faultOf(await stopped).code).toBe('cancelled');
  });

  test('declared exit codes are no failure', async () => {
    const result = await run({ ...shell('exit 3'), ok_exit_codes: [3] });
    expect(outputOf(result).exit_code).toBe(3);
  });

  test('stopping ends grandchildren too, also those in a session of their own', async () => {
    const length = uniqueLength();
    const script = `trap '' TERM; (trap '' TERM; sleep ${length}) & setsid sleep ${length} & sleep ${length}`;
    const stopper = new AbortController();
    const running = run({ ...shell(script), grace_ms: 200 }, { signal: stopper.signal });
    const pids = await findSleeps(length, 3);
    stopper.abort();
    expect(faultOf(await running).code).toBe('cancelled');
    expect(await Promise.all(pids.map((pid) => isGone(pid)))).toEqual([true, true, true]);
  });

  test('what a program leaves running ends with it', async () => {
    const length = uniqueLength();
    const gate = `gate-${length}`;
    const script = `sleep ${length} & while ! test -e "$1"; do sleep 0.05; done; echo done`;
    const running = run({ ...shell(script), args: [gate] });
    const pids = await findSleeps(length, 1);
    project.write(gate, '');
    expect(outputOf(await running).stdout).toBe('done\n');
    expect(await isGone(pids[0] as number)).toBe(true);
    rmSync(join(project.root, gate));
  });

  test('a polite request comes first', async () => {
    const script = 'trap "echo bye; exit 0" TERM; touch "$1"; while :; do sleep 0.05; done';
    const [up, stopper] = [`up-${Math.random()}`, new AbortController()];
    const config = { ...shell(script), args: [up], grace_ms: 10_000 };
    const running = run(config, { signal: stopper.signal });
    await expect.poll(() => existsSync(join(project.root, up))).toBe(true);
    stopper.abort();
    expect(faultOf(await running)).toMatchObject({
      code: 'cancelled',
      detail: { stdout: 'bye\n' },
    });
  });

  test('ten megabytes of output are cut with a mark, and a file has all of them', async () => {
    const result = outputOf(
      await run(shell('head -c 10000000 /dev/zero | tr "\\\\0" x; echo small >&2')),
    );
    expect((result.stdout as string).length).toBe(1024 * 1024);
    const mark = (result.truncated as JsonObject).stdout as JsonObject;
    expect(mark.bytes).toBe(10_000_000);
    expect(statSync(mark.file as string).size).toBe(10_000_000);
    expect(result.stderr).toBe('small\n');
    expect((result.truncated as JsonObject).stderr).toBeUndefined();
  });

  test('a program that is not there is named with what to do', async () => {
    const fault = faultOf(await run({ command: 'no-such-program-here' }));
    expect(fault.code).toBe('dependency_missing');
    expect(fault.detail.message).toContain('`no-such-program-here` not found on the PATH');
  });

  test('a config without a program says which field is missing', async () => {
    const fault = faultOf(await run({}));
    expect(fault).toMatchObject({
      code: 'config_invalid',
      detail: { config_path: 'config.command' },
    });
  });

  test('JSON output becomes the result itself', async () => {
    const config = { command: 'echo', args: ['{"n":1}'], output: 'json' };
    expect(outputOf(await run(config))).toEqual({ n: 1 });
    const fault = faultOf(await run({ ...config, args: ['{'] }));
    expect(fault.code).toBe('tool_failed');
  });

  test('every right that the tool requires is asked for', async () => {
    const tool = { requires: ['process.spawn', 'db.query'] };
    const fault = faultOf(await run(shell('true'), { tool, verify: verifierOf('process.spawn') }));
    expect(fault).toMatchObject({ code: 'permission_denied', detail: { missing: 'db.query' } });
  });

  test('starting a file of the project needs `fs.exec` on it', async () => {
    const { chmodSync } = await import('node:fs');
    chmodSync(project.write('bin/hello', '#!/bin/sh\necho hello'), 0o755);
    const config = { command: './bin/hello' };
    const denied = await run(config, { verify: verifierOf('process.spawn', 'fs.exec scripts/**') });
    expect(faultOf(denied).code).toBe('permission_denied');
    const held = await run(config, { verify: verifierOf('process.spawn', 'fs.exec bin/*') });
    expect(outputOf(held).stdout).toBe('hello\n');
  });

  test('its lines reach the sinks, which are closed on every outcome', async () => {
    const seen: string[] = [];
    const sink = () => ({
      type: 'test',
      write: (events: readonly { data: string }[]) =>
        void seen.push(...events.map(({ data }) => data)),
      close: async () => {
        seen.push('closed');
        return { type: 'test', delivered: 2, dropped: 0 };
      },
    });
    const result = await run(shell('echo a; echo b'), { sinks: [sink()] });
    expect(outputOf(result)).toMatchObject({ stream_events_count: 2 });
    expect(seen).toEqual(['a', 'b', 'closed']);
    faultOf(await run({}, { sinks: [sink()] }));
    expect(seen).toEqual(['a', 'b', 'closed', 'closed']);
  });
});

/** Seconds that no other process of the machine sleeps, so that a test finds its own `sleep`. */
const uniqueLength = (): string => `${70_000 + Math.floor(Math.random() * 10_000)}.25`;

/** Waits until so many `sleep` processes of this length exist. */
async function findSleeps(length: string, count: number): Promise<number[]> {
  for (const end = performance.now() + pollMs; performance.now() < end; ) {
    const found = readdirSync('/proc').filter((name) => {
      if (!/^\d+$/.test(name)) return false;
      try {
        return readFileSync(join('/proc', name, 'cmdline'), 'utf8') === `sleep\0${length}\0`;
      } catch {
        return false;
      }
    });
    if (found.length >= count) return found.map(Number);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`no ${count} sleeps of ${length} were started`);
}

describe('when there is no sandbox', () => {
  const refusing = createProcessPrimitive;

  test('a tool that starts processes is refused and told how to get one', async () => {
    const ports = portsOf(project, NONE, { policySandbox: 'required' });
    const fault = faultOf(await refusing(ports).run(callOf(project, shell('touch ran'))));
    expect(fault.code).toBe('sandbox_missing');
    expect(fault.detail.message).toContain('switched off by the test');
    expect(fault.detail.message).toContain('`sandbox: none` in the user-level policy');
    expect(existsSync(join(project.root, 'ran'))).toBe(false);
  });

  test('a right that is missing everywhere is said before what is missing here', async () => {
    const ports = portsOf(project, NONE, { policySandbox: 'required' });
    const call = callOf(project, shell('true'), { verify: verifierOf('fs.read') });
    expect(faultOf(await refusing(ports).run(call))).toMatchObject({
      code: 'permission_denied',
      detail: { missing: 'process.spawn' },
    });
  });

  test('a fixed program of the bundle is refused like any other', async () => {
    const ports = portsOf(project, NONE, { policySandbox: 'required' });
    const tool = { source: 'bundle' as const, requires: ['git.read'] };
    const fixed = await refusing(ports).run(callOf(project, { command: 'true' }, { tool }));
    expect(faultOf(fixed).code).toBe('sandbox_missing');
  });

  test('unconfined, a tool needs `process.spawn` even if it does not say so', async () => {
    const call = callOf(
      project,
      { command: 'true' },
      { tool: { requires: [] }, verify: verifierOf('fs.read') },
    );
    const fault = faultOf(await refusing(portsOf(project, NONE)).run(call));
    expect(fault.detail.missing).toBe('process.spawn');
  });

  test('a private home folder is removed afterwards', async () => {
    const call = callOf(project, shell('echo "$HOME"; echo x > "$HOME/x"'), {
      verify: holdsEverything,
    });
    const home = (
      outputOf(await refusing(portsOf(project, NONE)).run(call)).stdout as string
    ).trim();
    expect(home).toMatch(/kernmantle-/);
    expect(existsSync(home)).toBe(false);
  });
});

test.each(['bwrap', 'util-linux'] as const)(
  'a sandbox that cannot be set up says why, and nothing has begun (%s)',
  async (kind) => {
    const path = project.write(
      'no-sandbox',
      '#!/bin/sh\necho "bwrap: no such right" >&2\nexit 1\n',
    );
    chmodSync(path, 0o755);
    const ports = portsOf(project, { kind, path });
    const fault = faultOf(await createProcessPrimitive(ports).run(callOf(project, shell('true'))));
    expect(fault).toMatchObject({
      code: 'sandbox_missing',
      detail: { message: 'the sandbox cannot be set up: no such right' },
    });
    expect(hasStarted(fault)).toBe(false);
  },
);

test('a tool that wants no sandbox gets that only from a policy', async () => {
  const call = callOf(project, shell('true'), { tool: { sandbox: 'none' } });
  const fault = faultOf(
    await createProcessPrimitive(
      portsOf(project, working[0]?.[1] ?? NONE, { policySandbox: 'required' }),
    ).run(call),
  );
  expect(['permission_denied', 'sandbox_missing']).toContain(fault.code);
});

test('a dry run tells what would run and starts nothing', async () => {
  const ports = portsOf(project, NONE);
  const plan = createProcessPrimitive(ports).plan?.(
    callOf(project, { command: 'touch', args: ['planned'] }),
  );
  expect(plan).toMatchObject({ program: { command: 'touch', args: ['planned'] }, sandbox: 'none' });
  expect(existsSync(join(project.root, 'planned'))).toBe(false);
});
