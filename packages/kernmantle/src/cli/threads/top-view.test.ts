import type { ListedRun } from '@kernmantle/web';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { commandFor, topGroups, topHead, topLines } from './top-view.ts';

const AT = { now: 0 };
const plain = (_: string, text: string): string => text;
const meter = (name: string, used: number, max: number) => ({ name, used, reserved: 0, max });
const run = (id: string, more: Partial<ListedRun> = {}): ListedRun => ({
  id,
  root: more.parent ?? id,
  depth: more.parent === undefined ? 0 : 1,
  kind: 'thread',
  directive: id,
  version: '1.0.0',
  runner: 'harness',
  detached: false,
  status: 'running',
  seq: 1,
  attempt: 1,
  created: 0,
  updated: 0,
  cost: { turns: 5, spend: '0.25' },
  meters: [meter('turns', 5, 12), meter('spend', 0.25, 0.5)],
  denied: 0,
  failed: 0,
  due: 0,
  here: false,
  ...more,
});

const idsOf = (runs: readonly ListedRun[]): [string, string[]][] =>
  topGroups(runs).map(({ title, rows }) => [title, rows.map(({ run: { id } }) => id)]);

test('what waits for a person comes first, then what is at work, then what ended', () => {
  const runs = [
    run('done', { status: 'completed', ended: 3 }),
    run('old', { created: 1 }),
    run('new', { created: 2 }),
    run('asks', { status: 'waiting', due: 1 }),
  ];
  expect(idsOf(runs)).toEqual([
    ['waits for you', ['asks']],
    ['at work', ['new', 'old']],
    ['ended lately', ['done']],
  ]);
});

test('a tree stays together, where its most urgent thread stands; hooks are left out', () => {
  const runs = [
    run('child', { parent: 'top', due: 1, status: 'waiting' }),
    run('top'),
    run('hook', { kind: 'hook', parent: 'top' }),
    run('orphan', { parent: 'gone', status: 'completed' }),
  ];
  expect(idsOf(runs)).toEqual([
    ['waits for you', ['top', 'child']],
    ['ended lately', ['orphan']],
  ]);
  const lines = topLines(topGroups(runs), { width: 120, height: 20 }, AT, plain);
  expect(lines.some((line) => line.includes('└ child'))).toBe(true);
});

test('turns and spend stand beside their limits, refusals and what is done now too', () => {
  const groups = topGroups([run('look_1', { denied: 2, now: 'fs/grep' })]);
  const [, line = ''] = topLines(groups, { width: 120, height: 5 }, { now: 5000 }, plain, 'look_1');
  expect(line).toMatch(
    /^› ● look_1 +running +turn 5\/12 +█+.* 0\.2500\/0\.5 +█{4}·+ 2 denied +5 s fs\/grep$/,
  );
  expect(topHead(groups, 80, plain)).toBe('1 running, 0 waiting, 0 for you, 0.2500 spent by them');
});

test('the command for a thread has its whole id, and is for answers where one waits', () => {
  const id = `nightly_report_of_incidents_${'x'.repeat(40)}`;
  const [, line = ''] = topLines(topGroups([run(id)]), { width: 80, height: 5 }, AT, plain);
  expect(line).not.toContain(id);
  expect(commandFor(run(id))).toBe(`km threads show ${id}`);
  const asks = `answer it with km approvals ls --thread ${id}`;
  expect(commandFor(run(id, { status: 'waiting', due: 1 }))).toBe(asks);
  expect(commandFor(run(id, { status: 'needs_input' }))).toBe(asks);
  expect(commandFor(run('x\u001b[2J'))).not.toContain('\u001b');
});

test('control characters of a reason do not reach the terminal', () => {
  const groups = topGroups([run('bad', { status: 'failed', reason: 'x\u001b[2Jy' })]);
  expect(topLines(groups, { width: 140, height: 5 }, AT, plain).join('\n')).not.toContain('\u001b');
});

test('no line is wider than the screen, no picture higher, and the chosen one is in sight', () => {
  const many = Array.from({ length: 40 }, (_, at) => run(`thread_number_${at}`, { created: at }));
  fc.assert(
    fc.property(
      fc.integer({ min: 24, max: 200 }),
      fc.integer({ min: 1, max: 50 }),
      fc.nat(39),
      (width, height, at) => {
        const chosen = `thread_number_${at}`;
        const lines = topLines(topGroups(many), { width, height }, AT, plain, chosen);
        expect(lines.length).toBeLessThanOrEqual(height);
        expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(width);
        expect(lines.filter((line) => line.startsWith('›'))).toHaveLength(1);
      },
    ),
  );
});

test('the worker that holds a thread stands beside what it does, and who has none says so', () => {
  const groups = topGroups([
    run('held_1', { now: 'fs/grep', worker: 'host-a:4711@00ff.1.2' }),
    run('left_1', { status: 'spawning', queue: ' prj_1 sha256:ab' }),
  ]);
  const time = { now: 0, unserved: new Set([' prj_1 sha256:ab']) };
  const text = topLines(groups, { width: 150, height: 9 }, time, plain).join('\n');
  expect(text).toMatch(/held_1 .* fs\/grep on host-a:4711$/m);
  expect(text).toMatch(/left_1 .* no worker serves it$/m);
});
