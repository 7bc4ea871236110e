import { expect, test } from 'vitest';
import type { Library } from '../../items/index.ts';
import {
  createKnownSecrets,
  environmentSecrets,
  eventSecrets,
  inputSecrets,
} from './known-secrets.ts';

const library = {
  all: () => [
    { kind: 'tool', body: 'env: []', tool: { env: ['MAIL_ACCOUNT', 'PATH', 'ACME_BASE_URL'] } },
  ],
  config: () => ({ value: { providers: { acme: { key: 'ACME' } } } }),
} as unknown as Pick<Library, 'all' | 'config'>;

test('keys, what tools declare and what providers need are secret; common names are not', () => {
  const env = {
    PATH: '/usr/bin',
    ACME_BASE_URL: 'http://localhost',
    MAIL_ACCOUNT: 'declared',
    ACME: 'provider key',
    GH_TOKEN: 'named',
    DB_PASSWORD: 'named too',
    EDITOR: 'vi',
    MONKEY: 'no key',
    EMPTY_SECRET: '',
  };
  expect(environmentSecrets(env, library)).toEqual([
    'declared',
    'named',
    'named too',
    'provider key',
  ]);
});

test('inputs are secret by their name, at any depth, unless they are words', () => {
  const inputs = {
    query: 'not this one',
    api_key: 'this one is',
    nested: [{ password: 'and this', note: 'not that one' }],
    token: 'short',
    credentials: { user: 'somebody', path: 'inside it' },
  };
  expect(inputSecrets(inputs)).toEqual(['this one is', 'and this', 'somebody']);
});

test('a result that is labelled secret is, but not where it came from', () => {
  const content = { chain: ['fs/read_file'], path: 'private/key.txt', content: 'the content' };
  const marks = { labels: ['secret'] };
  expect(eventSecrets('tool_result', { content, marks })).toEqual(['the content']);
  expect(eventSecrets('tool_result', { content, marks: { labels: [] } })).toEqual([]);
  expect(eventSecrets('tool_result', { content, marks, is_error: true })).toEqual([]);
});

test('what one thread learned is no secret to another', () => {
  const known = createKnownSecrets(() => ['everybody-knows']);
  known.learn('a', ['only-a-knows']);
  const text = 'everybody-knows only-a-knows';
  expect(known.redactor('a').text(text)).toBe('[secret] [secret]');
  expect(known.redactor('b').text(text)).toBe('[secret] only-a-knows');
  expect(known.redactor('c')).toBe(known.redactor('b'));
  known.inherit('d', 'a');
  expect(known.redactor('d').text(text)).toBe('[secret] [secret]');
});
