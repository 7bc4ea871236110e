import { expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import { makeThreadId, withFreshId } from './opening.ts';

const clock = { now: () => Date.UTC(2030, 0, 31, 23, 59, 59) };
const bytes = (...list: number[]) => Uint8Array.from(list);

test('an id says what runs and since when, and fits a folder name', () => {
  const ports = { clock, random: () => bytes(33, 7, 20, 2) };
  expect(makeThreadId('deploy', ports)).toBe('deploy_20300131_235959_x7k2');
  expect(makeThreadId('d'.repeat(200), ports)).toMatch(/^d{59}_20300131_235959_x7k2$/);
});

test('a taken id is made up again', async () => {
  let made = 0;
  const random = () => bytes(0, 0, 0, made++ < 3 ? 0 : 1);
  const tried: string[] = [];
  const started = await withFreshId('deploy', { clock, random }, (id) => {
    tried.push(id);
    return id.endsWith('0000') ? fail('thread_exists', 'taken') : ok(id);
  });
  expect(started).toEqual(ok('deploy_20300131_235959_0001'));
  expect(tried).toHaveLength(4);
});

test('any other refusal stands, and a random source that repeats itself is given up', async () => {
  let tries = 0;
  const start = (code: string) => () => {
    tries++;
    return fail(code, 'no');
  };
  const random = () => bytes(0, 0, 0, 0);
  const denied = await withFreshId('deploy', { clock, random }, start('permission_denied'));
  expect([denied, tries]).toMatchObject([{ error: { code: 'permission_denied' } }, 1]);
  const taken = await withFreshId('deploy', { clock, random }, start('thread_exists'));
  expect([taken, tries]).toMatchObject([{ error: { code: 'thread_exists' } }, 11]);
});
