// What `km schedule` refuses, with the exit code, and what stays of it.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Ran, runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';
import { directiveText, READ } from '@kernmantle/test-support/thread-project';
import { afterAll, beforeAll, expect, test } from 'vitest';

let fixture: Fixture;
const km = (...words: string[]): Promise<Ran> =>
  runCommand(['schedule', ...words], fixture.root, fixture.env);

beforeAll(async () => {
  const inputs = '<input name="count" type="integer" required="true"/>';
  fixture = makeFixture({
    '.ai/directives/job.md': directiveText('job', { permissions: READ }),
    '.ai/directives/counts.md': directiveText('counts', { permissions: READ, inputs }),
    '.ai/directives/unsigned.md': directiveText('unsigned', { permissions: READ }),
  });
  const files = ['job', 'counts'].map((name) => `.ai/directives/${name}.md`);
  expect(await runCommand(['sign', ...files], fixture.root, fixture.env)).toMatchObject({
    code: 0,
  });
  expect(await km('add', 'there', 'job', '--cron', '@daily')).toMatchObject({ code: 0 });
});
afterAll(() => fixture.remove());

const daily = (name: string, ...more: string[]) => ['add', name, ...more, '--cron', '@daily'];

test.each([
  ['a minute of 61', ['add', 's', 'job', '--cron', '61 * * * *'], 2, 'from 0 to 59'],
  ['six fields', ['add', 's', 'job', '--cron', '0 * * * * *'], 2, 'five fields'],
  ['30 February', ['add', 's', 'job', '--cron', '0 0 30 2 *'], 2, 'no day matches'],
  ['no pattern', ['add', 's', 'job'], 2, '--cron'],
  ['a zone of Mars', daily('s', 'job', '--tz', 'Mars/One'), 2, 'did you mean `'],
  ['an unsigned directive', daily('s', 'unsigned'), 4, 'signed'],
  ['an input that does not fit', daily('s', 'counts', 'count=many'), 2, 'count'],
  ['an input that is missing', daily('s', 'counts'), 2, 'count'],
  ['a name in use', daily('there', 'job'), 1, 'exists'],
  ['a name with a space', daily('a b', 'job'), 2, '1 to 40 letters'],
  ['a name of 41 letters', daily('x'.repeat(41), 'job'), 2, '1 to 40 letters'],
  ['a grace of years', daily('s', 'job', '--grace', '500d'), 2, '366 days'],
  ['another overlap', daily('s', 'job', '--overlap', 'all'), 2, 'overlap'],
  ['a spend below zero', daily('s', 'job', '--spend-per-day', '-1'), 2, 'spend'],
  ['a name that is not there', ['pause', 'gone'], 1, 'not found'],
])('%s is refused', async (_name, words, code, message) => {
  const ran = await km(...words);
  expect([ran.code, ran.output]).toEqual([code, expect.stringContaining(message)]);
  const listed = JSON.parse((await km('ls', '--json')).output) as { output: { name: string }[] };
  expect(listed.output.map(({ name }) => name)).toEqual(['there']);
});

test('before the first schedule nothing is found, and nothing is created', async () => {
  const empty = makeFixture();
  const typed = (...words: string[]) => runCommand(['schedule', ...words], empty.root, empty.env);
  expect(await typed('ls')).toMatchObject({ code: 0, output: 'no schedules in this project\n' });
  expect(await typed('pause', 'x')).toMatchObject({ code: 1 });
  expect(existsSync(join(empty.root, '.ai/threads'))).toBe(false);
  empty.remove();
});
