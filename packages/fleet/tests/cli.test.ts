// Commands over a store on a server say and do what they do over a file; threads run on workers.
import { TRUSTING } from '@kernmantle/test-support/project';
import { directive, READ, read } from '@kernmantle/test-support/thread-project';
import { describe, expect, inject, test } from 'vitest';
import { openCliStage } from './support/cli-stage.ts';

const server = inject('postgres');
const LOOK = directive('look', { permissions: READ });
const SEEN = [read('notes/a.txt'), { text: 'seen' }];
const idIn = (output: string): string => /look-\d[\w-]*|look_[\w-]+/.exec(output)?.[0] ?? '';

describe.skipIf(server === '')('over a server (needs PostgreSQL)', () => {
  test('tables are made by a command of their own, which every other one names', async () => {
    const { km } = await openCliStage(server, LOOK, SEEN);
    const before = await km('threads', 'ls');
    expect(before.code).toBe(1);
    expect(before.output).toContain('km store migrate');
    expect((await km('store', 'migrate')).output).toContain('created the tables');
    expect((await km('store', 'migrate')).output).toContain('up to date');
    expect(await km('threads', 'ls', '--json')).toMatchObject({ code: 0 });
    const check = await km('store', 'check');
    expect(check).toMatchObject({ code: 0 });
    expect(check.output).toContain('no worker');
    expect(check.output).toMatch(/PostgreSQL \d+.*; tables of schema \d+, journal \d+, queue \d+/);
    expect(check.output).toContain('threads: none');
    expect(check.output).toContain('?schema=t_cli_');
  });

  test('a run is queued, done by a worker and seen as if it ran here', async () => {
    const { km, work } = await openCliStage(server, LOOK, SEEN);
    await km('store', 'migrate');
    await work();
    const ran = await km('run', 'look');
    expect(ran).toMatchObject({ code: 0 });
    expect(ran.output).toContain('seen');
    expect(ran.output).toContain('turn 2');
    const id = idIn(ran.output);
    expect(ran.output).not.toContain('no worker');
    expect((await km('threads', 'ls')).output).toContain(id);
    expect((await km('threads', 'show', 'last')).output).toContain('completed');
    expect((await km('threads', 'tree', id)).output).toContain(id);
    expect((await km('threads', 'tail', id)).output).toContain('fs/read_file');
    expect((await km('threads', 'wait', id)).code).toBe(0);
    expect((await km('cost')).code).toBe(0);
    expect((await km('replay', id)).code).toBe(0);
    expect((await km('explain', '--thread', id)).output).toContain('look');
    expect((await km('audit')).output).toContain(id);
    expect((await km('completion', 'words', 'threads', 'show', '')).output).toContain(id);
    expect((await km('approvals', 'ls')).code).toBe(0);
    expect((await km('doctor')).output).not.toContain('secret-of-tests');
  });

  test('what is detached waits for a worker; without one it can be left or ended', async () => {
    const { km, work } = await openCliStage(server, LOOK, [...SEEN, ...SEEN]);
    await km('store', 'migrate');
    const detached = await km('run', 'look', '--detach');
    expect(detached.code).toBe(0);
    const id = idIn(detached.output);
    expect(detached.output).toContain(`km threads tail -f ${id}`);
    const none = await km('run', 'look', '--no-wait', '--json');
    expect(none.code).toBe(1);
    const [last = ''] = none.output.trim().split('\n').slice(-1);
    expect(JSON.parse(last)).toMatchObject({ type: 'result', error: { code: 'unavailable' } });
    const other = idIn(last);
    expect(await km('threads', 'stop', other)).toMatchObject({ code: 0 });
    expect((await km('threads', 'ls')).output).toContain('terminated');
    const check = await km('store', 'check');
    expect(check.output).toContain('1 ready');
    expect(check.output).toContain('no worker serves prj_');
    await work();
    expect((await km('threads', 'wait', id)).code).toBe(0);
    expect((await km('threads', 'show', id)).output).toContain('seen');
  });

  test('Ctrl-C leaves, and nothing ends', async () => {
    const { km, work } = await openCliStage(server, LOOK, SEEN);
    await km('store', 'migrate');
    const before = process.listenerCount('SIGINT');
    const running = km('run', 'look');
    while (process.listenerCount('SIGINT') === before) await new Promise(setImmediate);
    process.emit('SIGINT');
    const left = await running;
    expect(left.code).toBe(130);
    const id = idIn(left.output);
    expect(left.output).toContain(`km threads stop ${id}`);
    await work();
    expect((await km('threads', 'wait', id)).code).toBe(0);
  });

  test('an answer given anywhere wakes the thread on a worker', async () => {
    const policy = `${TRUSTING}guards: [{ on: "op:tool:fs/read_file", ask: "read it?" }]\n`;
    const files = { ...LOOK, '../home/policy.yaml': policy };
    const { km, work } = await openCliStage(server, files, SEEN);
    await km('store', 'migrate');
    await work();
    const asked = await km('run', 'look');
    expect(asked.code).toBe(7);
    expect(asked.output).toContain('a worker then resumes the thread');
    expect(asked.output).not.toContain('threads resume');
    const id = idIn(asked.output);
    const { output } = await km('approvals', 'ls', '--json');
    const [approval] = (JSON.parse(output) as { output: { id: string }[] }).output;
    const approved = await km('approvals', 'approve', approval?.id ?? '');
    expect(approved.code).toBe(0);
    expect(approved.output).not.toContain('threads resume');
    // It waited for a person: who waits for it now waits for the worker.
    let waited = await km('threads', 'wait', id);
    while (waited.code === 7) waited = await km('threads', 'wait', id);
    expect(waited).toMatchObject({ code: 0 });
  });

  test('what has ended goes on at a word, on a worker', async () => {
    const { km, work } = await openCliStage(server, LOOK, [...SEEN, { text: 'and again' }]);
    await km('store', 'migrate');
    await work();
    const ran = await km('run', 'look');
    const id = idIn(ran.output);
    const again = await km('threads', 'resume', id, '-m', 'once more', '--turns', '9');
    expect(again.output).toContain('and again');
    expect(again.code).toBe(0);
    expect((await km('audit')).output).toContain('resume');
  });

  test('options of a fleet are refused where the registry is a file', async () => {
    const { fixture, km } = await openCliStage(server, LOOK, SEEN);
    fixture.env.KERNMANTLE_STORE = '';
    for (const option of ['--detach', '--no-wait']) {
      const ran = await km('run', 'look', option);
      expect(ran.code).toBe(2);
      expect(ran.output).toContain(option);
    }
    expect((await km('store', 'check')).code).toBe(2);
  });

  test('limits for all machines are set, listed and taken away', async () => {
    const { km } = await openCliStage(server, LOOK, SEEN);
    await km('store', 'migrate');
    const set = ['store', 'limits', 'provider:anthropic', '--concurrent', '50'];
    expect((await km(...set, '--spend-per-day', '20.5')).code).toBe(0);
    const { output } = await km('store', 'limits', '--json');
    const shown = { scope: 'provider:anthropic', concurrent: 50, spend_per_day: '20.50' };
    expect(JSON.parse(output)).toEqual({ ok: true, output: [shown] });
    expect((await km('store', 'limits', 'provider:anthropic', '--none')).output).toContain(
      'no shared limits',
    );
    for (const wrong of [['x'], ['tenant:a'], ['tenant:a', '--concurrent', '0']]) {
      expect((await km('store', 'limits', ...wrong)).code).toBe(2);
    }
    expect((await km('audit')).output).toContain('store:limits');
  });
});
