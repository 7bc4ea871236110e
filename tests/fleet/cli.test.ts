// Commands over a store on a server say and do what they do over a file; threads run on workers.
import { describe, expect, inject, test } from 'vitest';
import { directive, READ, read } from '../support/thread-project.ts';
import { openCliStage } from './support/cli-stage.ts';

const server = inject('postgres');
const LOOK = directive('look', { permissions: READ });
const SEEN = [read('notes/a.txt'), { text: 'seen' }];
const idIn = (output: string): string => /look-[\w-]+/.exec(output)?.[0] ?? '';

describe.skipIf(server === '')('over a server (needs PostgreSQL)', () => {
  test('tables are made by a command of their own, which every other one names', async () => {
    const { km } = await openCliStage(server, LOOK, SEEN);
    const before = await km('threads', 'ls');
    expect(before.code).toBe(1);
    expect(before.output).toContain('km store migrate');
    expect((await km('store', 'migrate')).output).toContain('made the tables');
    expect((await km('store', 'migrate')).output).toContain('up to date');
    expect(await km('threads', 'ls', '--json')).toMatchObject({ code: 0 });
    const check = await km('store', 'check');
    expect(check).toMatchObject({ code: 0 });
    expect(check.output).toContain('no worker');
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
});
