// Directives with a script as their process, as whole threads: inputs and outputs, rights, limits, hooks,
// labels and approvals.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { probeSandboxNow } from '@kernmantle/core/kernel';
import { defineTool } from '@kernmantle/test-support/define-tool';
import { alone, eventsOf, scripted, TEXT } from '@kernmantle/test-support/script-project';
import {
  answer,
  directiveText,
  execute,
  hook,
  READ,
  run,
  stage,
  types,
} from '@kernmantle/test-support/thread-project';
import { describe, expect, test } from 'vitest';

const sandbox = await probeSandboxNow();

const SUM = '<sum type="number" required="true">x</sum>';
const NUMBERS = '<input name="a" type="number">x</input><input name="b" type="number">x</input>';

describe('inputs and outputs', () => {
  test('inputs are variables and fields of @input; what is returned is the outputs', async () => {
    const made = await alone('var @more = @a + 1\nreturn { sum: @more + @input.b }', {
      inputs: NUMBERS,
      outputs: SUM,
    });
    const result = await run(made, 'job', { inputs: { a: 1, b: 2 } });
    expect(result).toMatchObject({ status: 'completed', outputs: { sum: 4 } });
    expect(await types(made, result.thread_id)).not.toContain('turn_start');
  });

  test('the slash may stand there, and what is printed is the text of the run', async () => {
    const made = await alone('/show `hello @name`\n/return { text: @name }', {
      inputs: '<input name="name" type="string">x</input>',
      outputs: TEXT,
    });
    expect(await run(made, 'job', { inputs: { name: 'Ann' } })).toMatchObject({
      text: 'hello Ann\n',
      outputs: { text: 'Ann' },
    });
  });

  test('an input that was not given is null', async () => {
    const made = await alone(
      'when @a == null => return { text: "none" }\nreturn { text: "some" }',
      {
        inputs: NUMBERS,
        outputs: TEXT,
      },
    );
    expect(await run(made, 'job')).toMatchObject({ outputs: { text: 'none' } });
  });

  test('outputs of another type are refused', async () => {
    const made = await alone('return { sum: "four" }', { outputs: SUM });
    expect(await run(made, 'job')).toMatchObject({ status: 'failed', code: 'invalid_input' });
  });

  test('a directive that declares outputs and ends without return fails', async () => {
    const made = await alone('show "nothing more"', { outputs: SUM });
    const result = await run(made, 'job');
    expect(result).toMatchObject({ status: 'failed', text: 'nothing more\n' });
    expect(result.reason).toContain('without `/return`');
  });

  test('an error points at its line and column in the file of the directive', async () => {
    const made = await alone('      var @x = 1\n      var @y = @nobody');
    const result = await run(made, 'job');
    const file = readFileSync(join(made.fixture.root, '.ai/directives/job.md'), 'utf8');
    const line = file.split('\n').findIndex((text) => text.includes('@nobody')) + 1;
    expect(result.status).toBe('failed');
    expect(result.reason).toContain(`.ai/directives/job.md:${line}:16:`);
  });

  test('a script that does not parse runs nothing', async () => {
    const made = await alone('show "before"\nvar @x = [1, ');
    const result = await run(made, 'job');
    expect(result).toMatchObject({ status: 'failed', code: 'invalid_item', text: '' });
    expect(result.reason).toContain('.ai/directives/job.md:');
  });
});

describe('steps', () => {
  const script =
    'var @file = @tool("fs/read_file", { path: "notes/a.txt" })\nreturn { text: @file.content }';

  test('a tool is called with the token of the thread, counted and noted', async () => {
    const made = await alone(script, { permissions: READ, outputs: TEXT });
    const result = await run(made, 'job');
    expect(result).toMatchObject({
      status: 'completed',
      outputs: { text: 'hello\n' },
      cost: { tool_calls: 1, turns: 0 },
    });
    const calls = (await eventsOf(made, result.thread_id)).filter(({ type }) =>
      type.startsWith('tool_'),
    );
    expect(calls.slice(1).map(({ type, data }) => [type, data.tool])).toEqual([
      ['tool_call', 'fs/read_file'],
      ['tool_result', 'fs/read_file'],
    ]);
  });

  test('a script that its own guard stops has been denied, with every reason', async () => {
    const guards = ['one', 'two']
      .map((why) => `guard @${why} before op:show = when [ * => deny "${why}" ]\n`)
      .join('');
    const made = await alone(`${guards}show "x"`);
    expect(await run(made, 'job')).toMatchObject({
      status: 'denied',
      code: 'permission_denied',
      reason: expect.stringMatching(/denied by @one \(op:show\): one; two$/),
    });
  });

  test.each([
    'show <notes/nope.txt>',
    'import { x } from "@root/notes/nope.mld"',
    'show <notes>',
    'guard before op:show = when [ * => deny "x" ]\nshow "a"',
  ])('a refusal does not say where on this machine the project lies: %s', async (line) => {
    const made = await alone(line, { permissions: READ });
    const result = await run(made, 'job');
    expect(result.status).not.toBe('completed');
    const told = JSON.stringify([result, await eventsOf(made, result.thread_id)]);
    expect(told).not.toContain(made.fixture.root);
  });

  test('what the token does not allow is refused, and says so', async () => {
    const made = await alone(script.replace('notes/a.txt', 'other.txt'), {
      permissions: READ,
      outputs: TEXT,
    });
    const result = await run(made, 'job');
    expect(result).toMatchObject({ status: 'denied', code: 'permission_denied' });
    expect(await types(made, result.thread_id)).toContain('permission_denied');
  });

  test('files and commands need the right too', async () => {
    for (const line of [
      'output "x" to "out.txt"',
      'show <notes/a.txt>',
      'run cmd {echo hi}',
      'run sh {echo hi}',
    ]) {
      const made = await alone(line);
      expect(await run(made, 'job'), line).toMatchObject({
        status: 'denied',
        code: 'permission_denied',
      });
    }
  });

  test('what a script writes is a step', async () => {
    const made = await alone('output "x" to "notes/out.txt"', {
      permissions: '<write resource="filesystem" path="notes/**"/>',
    });
    const result = await run(made, 'job');
    expect(result).toMatchObject({ status: 'completed', cost: { tool_calls: 1 } });
    expect(readFileSync(join(made.fixture.root, 'notes/out.txt'), 'utf8')).toBe('x');
    const call = (await eventsOf(made, result.thread_id)).find(
      ({ data }) => data.tool === 'script:write',
    );
    expect(call).toMatchObject({ type: 'tool_call', data: { effect: 'idempotent' } });
  });

  test('a limit of calls stops the script', async () => {
    const made = await alone(
      'for @n in [1, 2, 3] => @tool("fs/read_file", { path: "notes/a.txt", limit: @n })',
      { permissions: READ, limits: '<tool_calls>2</tool_calls>' },
    );
    const result = await run(made, 'job');
    expect(result).toMatchObject({
      status: 'limit',
      code: 'tool_calls_exceeded',
      cost: { tool_calls: 2 },
    });
  });

  test('hooks stand around its steps', async () => {
    const made = await stage(
      {
        '.ai/directives/job.md': scripted('job', script, {
          permissions: READ,
          outputs: TEXT,
          hooks: hook('event.name == "before_step" and event.tool == "fs/read_file"', 'stop_it'),
        }),
        '.ai/directives/stop_it.md': answer('stop_it', { action: 'fail', error: 'not today' }),
      },
      [],
    );
    expect(await run(made, 'job')).toMatchObject({ status: 'failed', reason: 'not today' });
  });
});

describe('other threads', () => {
  const PART = scripted('part', 'return { text: `part @n` }', {
    inputs: '<input name="n" type="number">x</input>',
    outputs: TEXT,
  });

  test('a script spawns them, waits for all and puts their outputs together', async () => {
    const made = await stage(
      {
        '.ai/directives/part.md': PART,
        '.ai/directives/job.md': scripted(
          'job',
          [
            'var @parts = for @n in [1, 2, 3] => @tool("threads/thread_directive", { directive_name: "part", inputs: { n: @n } })',
            'var @ids = for @part in @parts => @part.thread_id',
            'var @all = @tool("threads/wait_all", { thread_ids: @ids, timeout_ms: 60000 })',
            'var @texts = for @one in @all.results => @one.outputs.text',
            'return { text: @texts.join(", ") }',
          ].join('\n'),
          { permissions: '<orchestration enabled="true"/>', outputs: TEXT },
        ),
      },
      [],
    );
    const done = await run(made, 'job');
    expect(done).toMatchObject({
      status: 'completed',
      outputs: { text: 'part 1, part 2, part 3' },
      cost: { spawns: 3, tool_calls: 4 },
    });
  });

  test('a model spawns a script', async () => {
    const made = await stage(
      {
        '.ai/directives/part.md': PART,
        '.ai/directives/lead.md': directiveText('lead', {
          permissions: '<orchestration enabled="true"/>',
        }),
      },
      [
        {
          tool_calls: [
            execute('threads/thread_directive', {
              directive_name: 'part',
              inputs: { n: 7 },
              wait_ms: 60_000,
            }),
          ],
        },
        { text: 'done' },
      ],
    );
    const done = await run(made, 'lead');
    expect(done.status).toBe('completed');
    expect(JSON.stringify(made.provider.requests.at(-1)?.body)).toContain('part 7');
  });
});

describe('branches', () => {
  test('tools that only read are called at the same time', async () => {
    let [now, most] = [0, 0];
    const slow = defineTool({
      id: 'probe/slow',
      description: 'x',
      effect: 'read',
      parameters: { n: 'number' },
      async run({ n }) {
        now += 1;
        most = Math.max(most, now);
        for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
        now -= 1;
        return { n };
      },
    });
    const script = [
      'var @all = for parallel(3) @n in [1, 2, 3] => @tool("probe/slow", { n: @n })',
      'var @numbers = for @one in @all => @one.n',
      'return { text: @numbers.join(" ") }',
    ].join('\n');
    const made = await stage(
      {
        '.ai/directives/job.md': scripted('job', script, {
          permissions: '<execute resource="tool" id="probe/slow"/>',
          outputs: TEXT,
        }),
      },
      [],
      { tools: [slow] },
    );
    expect(await run(made, 'job')).toMatchObject({ outputs: { text: '1 2 3' } });
    expect(most).toBe(3);
  });
});

// Without a sandbox the policy refuses processes.
describe.skipIf(sandbox.kind === 'none')('commands (need a sandbox)', () => {
  const SPAWN = '<execute resource="process" action="spawn"/>';

  test('run with the right of the thread, and are steps', async () => {
    const made = await alone('var @out = cmd {echo hi}\nreturn { text: @out }', {
      permissions: SPAWN,
      outputs: TEXT,
    });
    const done = await run(made, 'job');
    expect(done).toMatchObject({
      status: 'completed',
      outputs: { text: 'hi' },
      cost: { tool_calls: 1 },
    });
    const rows = await made.runtime.audit.read({ limit: 50 });
    expect(rows.ok && rows.output.map(({ surface, caller }) => [surface, caller])).toContainEqual([
      'thread',
      done.thread_id,
    ]);
  });

  test('the time limit ends one that takes too long', async () => {
    const made = await alone('run sh {sleep 30}', {
      permissions: SPAWN,
      limits: '<duration>1</duration>',
    });
    expect(await run(made, 'job')).toMatchObject({ status: 'limit', code: 'duration_exceeded' });
  });
});
