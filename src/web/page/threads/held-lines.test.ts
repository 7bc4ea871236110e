import { expect, test } from 'vitest';
import type { ThreadGroup, ThreadLine } from '../../model/thread-lines.ts';
import { holdLines } from './held-lines.ts';

const group = (name: ThreadGroup, threads: number): ThreadLine => ({
  kind: 'group',
  group: name,
  threads,
});
const line = (id: string, name: ThreadGroup = 'at work'): ThreadLine => ({
  kind: 'thread',
  id,
  group: name,
  depth: 0,
  below: 0,
  isFolded: false,
});
const names = (lines: readonly ThreadLine[]) =>
  lines.map((one) => (one.kind === 'thread' ? one.id : `${one.group} ${one.threads}`));

test('new threads wait, those that went elsewhere stay, and both are counted', () => {
  const shown = [group('at work', 2), line('a'), line('b'), group('ended', 1), line('z', 'ended')];
  const fresh = [
    group('at work', 2),
    line('new'),
    line('a'),
    group('ended', 2),
    line('b', 'ended'),
    line('z', 'ended'),
  ];
  const { lines, news } = holdLines(shown, fresh);
  expect(names(lines)).toEqual(['at work 2', 'a', 'b', 'ended 2', 'z']);
  expect(news).toBe(2);
});

test('older threads that were asked for go below', () => {
  const shown = [group('ended', 2), line('a', 'ended'), line('b', 'ended')];
  const fresh = [
    group('ended', 4),
    line('new', 'ended'),
    line('a', 'ended'),
    line('b', 'ended'),
    line('c', 'ended'),
  ];
  const { lines, news } = holdLines(shown, fresh);
  expect(names(lines)).toEqual(['ended 4', 'a', 'b', 'c']);
  expect(news).toBe(1);
});

test('what did not change has no news', () => {
  const shown = [group('at work', 1), line('a')];
  expect(holdLines(shown, shown)).toEqual({ lines: shown, news: 0 });
});
