import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ListedRun } from './api.ts';
import {
  holdLines,
  nextAct,
  type ThreadGroup,
  type ThreadLine,
  threadLines,
} from './thread-lines.ts';

type LineWish = Parameters<typeof threadLines>[1];

const EVERYTHING: LineWish = { hooks: true, find: '', turned: new Set() };

const run = (id: string, more: Partial<ListedRun> = {}): ListedRun => ({
  id,
  root: id,
  depth: 0,
  kind: 'thread',
  directive: id,
  version: '1.0.0',
  runner: 'x',
  detached: false,
  status: 'running',
  seq: 1,
  attempt: 1,
  created: 1,
  updated: 1,
  cost: {},
  meters: [],
  denied: 0,
  failed: 0,
  due: 0,
  here: true,
  ...more,
});
const mapOf = (...rows: ListedRun[]) => new Map(rows.map((row) => [row.id, row]));
const words = (rows: ReadonlyMap<string, ListedRun>, wish: Partial<LineWish> = {}): string[] =>
  threadLines(rows, { ...EVERYTHING, ...wish }).map((line) =>
    line.kind === 'group' ? `${line.group} ${line.threads}` : `${'.'.repeat(line.depth)}${line.id}`,
  );

test('three groups in their order, children under parents, newest first', () => {
  const rows = mapOf(
    run('old', { status: 'completed', created: 1 }),
    run('new', { status: 'limit', created: 2 }),
    run('work', { created: 3 }),
    run('asks', { status: 'waiting', due: 1, created: 1 }),
    run('child', { parent: 'asks', created: 5 }),
    run('hook', { parent: 'asks', kind: 'hook', created: 4 }),
  );
  expect(words(rows, { hooks: false })).toEqual([
    'waits for you 2',
    'asks',
    '.child',
    'in progress 1',
    'work',
    'ended 2',
    'new',
    'old',
  ]);
  expect(words(rows)).toContain('.hook');
  expect(words(rows, { find: 'CHIL', hooks: false })).toEqual([
    'waits for you 2',
    'asks',
    '.child',
  ]);
});

test('a tree stands where its most urgent thread belongs', () => {
  const rows = mapOf(
    run('parent', { status: 'completed' }),
    run('child', { parent: 'parent', status: 'waiting', due: 1 }),
  );
  expect(words(rows)).toEqual(['waits for you 2', 'parent', '.child']);
});

test('trees that ended begin folded, the others open; a hand turns both', () => {
  const rows = mapOf(
    run('done', { status: 'completed' }),
    run('part', { parent: 'done', status: 'completed' }),
    run('work', {}),
    run('below', { parent: 'work' }),
  );
  expect(words(rows)).toEqual(['in progress 2', 'work', '.below', 'ended 2', 'done']);
  expect(words(rows, { turned: new Set(['done', 'work']) })).toEqual([
    'in progress 2',
    'work',
    'ended 2',
    'done',
    '.part',
  ]);
});

test('whoever is whose parent, every thread is listed once', () => {
  const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
  const row = fc.record({
    parent: fc.option(fc.constantFrom(...ids, 'gone'), { nil: undefined }),
    status: fc.constantFrom('running', 'completed', 'waiting'),
    due: fc.constantFrom(0, 1),
  });
  fc.assert(
    fc.property(fc.array(row, { minLength: 6, maxLength: 6 }), (given) => {
      const rows = mapOf(
        ...given.map(({ parent, ...rest }, at) =>
          run(ids[at] ?? '', { ...rest, ...(parent === undefined ? {} : { parent }) }),
        ),
      );
      const ended = new Set(
        given.flatMap(({ status }, at) => (status === 'completed' ? (ids[at] ?? []) : [])),
      );
      const all = [new Set<string>(), ended].map((turned) =>
        threadLines(rows, { ...EVERYTHING, turned }).flatMap((line) =>
          line.kind === 'thread' ? line.id : [],
        ),
      );
      for (const seen of all) expect(new Set(seen).size).toBe(seen.length);
      const open = threadLines(rows, { ...EVERYTHING, turned: openAll(rows) });
      expect(open.flatMap((line) => (line.kind === 'thread' ? line.id : [])).sort()).toEqual(ids);
    }),
  );
});

/** Opens all folded lines, one level after the other. */
function openAll(rows: ReadonlyMap<string, ListedRun>): Set<string> {
  const turned = new Set<string>();
  for (;;) {
    const folded = threadLines(rows, { ...EVERYTHING, turned }).find(
      (line) => line.kind === 'thread' && line.isFolded,
    );
    if (folded?.kind !== 'thread') return turned;
    turned.add(folded.id);
  }
}

test('what can be done with a thread that does not run', () => {
  expect(['limit', 'interrupted', 'completed', 'running'].map(nextAct)).toEqual([
    'Resume…',
    'Resume…',
    'Follow up…',
    undefined,
  ]);
});

const group = (name: ThreadGroup, threads: number): ThreadLine => ({
  kind: 'group',
  group: name,
  threads,
});
const lineOf = (id: string, name: ThreadGroup = 'in progress'): ThreadLine => ({
  kind: 'thread',
  id,
  group: name,
  depth: 0,
  below: 0,
  isFolded: false,
});
const namesOf = (lines: readonly ThreadLine[]) =>
  lines.map((one) => (one.kind === 'thread' ? one.id : `${one.group} ${one.threads}`));

test('new threads wait, those that went elsewhere stay, and both are counted', () => {
  const shown = [
    group('in progress', 2),
    lineOf('a'),
    lineOf('b'),
    group('ended', 1),
    lineOf('z', 'ended'),
  ];
  const fresh = [
    group('in progress', 2),
    lineOf('new'),
    lineOf('a'),
    group('ended', 2),
    lineOf('b', 'ended'),
    lineOf('z', 'ended'),
  ];
  const { lines, news } = holdLines(shown, fresh);
  expect(namesOf(lines)).toEqual(['in progress 2', 'a', 'b', 'ended 2', 'z']);
  expect(news).toBe(2);
});

test('older threads that were asked for go below', () => {
  const shown = [group('ended', 2), lineOf('a', 'ended'), lineOf('b', 'ended')];
  const fresh = [
    group('ended', 4),
    lineOf('new', 'ended'),
    lineOf('a', 'ended'),
    lineOf('b', 'ended'),
    lineOf('c', 'ended'),
  ];
  const { lines, news } = holdLines(shown, fresh);
  expect(namesOf(lines)).toEqual(['ended 4', 'a', 'b', 'c']);
  expect(news).toBe(1);
});

test('what did not change has no news', () => {
  const shown = [group('in progress', 1), lineOf('a')];
  expect(holdLines(shown, shown)).toEqual({ lines: shown, news: 0 });
});
