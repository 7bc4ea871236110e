import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../base/index.ts';
import { expandEnv } from './index.ts';

test('what came from the environment is reported as secret, once; defaults and empties are not', () => {
  const config = { a: '${KEY} ${KEY}', b: ['${URL:-http://x}', '${EMPTY}', '${SET:-no}'] };
  const env = { KEY: 's3cret', EMPTY: '', SET: 'yes', OTHER: 'unused' };
  const declared = new Set(['KEY', 'URL', 'EMPTY', 'SET', 'OTHER']);
  expect(expandEnv(config, env, declared)).toEqual({
    ok: true,
    output: {
      value: { a: 's3cret s3cret', b: ['http://x', '', 'yes'] },
      secrets: ['s3cret', 'yes'],
    },
  });
});

test('a fault names variables, never their values', () => {
  const outcome = expandEnv(['${KEY}', '${GONE}'], { KEY: 's3cret' }, new Set(['KEY', 'GONE']));
  expect(outcome).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
  expect(JSON.stringify(outcome)).toContain('GONE');
  expect(JSON.stringify(outcome)).not.toContain('s3cret');
});

test('an undeclared name is never read, even when it has a default', () => {
  const env = new Proxy(
    {},
    {
      get: () => {
        throw new Error('read');
      },
      getOwnPropertyDescriptor: () => {
        throw new Error('read');
      },
    },
  );
  for (const text of ['${HOME}', '${HOME:-x}', '${A:-${HOME}}']) {
    expect(expandEnv(text, env, new Set())).toMatchObject({ ok: false });
  }
});

test('no value of the environment is expanded again', () => {
  const value = fc.oneof(
    fc.constantFrom('${B}', '$', '{B}', '${', 'B}', ':-', '${A:-x}'),
    fc.string({ minLength: 1 }),
  );
  fc.assert(
    fc.property(value, value, (A, B) => {
      const outcome = expandEnv('${A}${B}-${A:-d}', { A, B }, new Set(['A', 'B']));
      expect(outcome).toMatchObject({ ok: true, output: { value: `${A}${B}-${A}` } });
    }),
  );
});

test('configs nested too deeply are refused', () => {
  let deep: Json = '${A}';
  for (let level = 0; level < 100_000; level++) deep = [deep];
  expect(expandEnv(deep, {}, new Set())).toMatchObject({
    ok: false,
    error: { code: 'config_invalid' },
  });
});

test('long hostile texts are scanned once', () => {
  for (const unit of ['${', '${A', '${A:-', '${A:-x', '${A:-}', '$']) {
    const outcome = expandEnv(unit.repeat(200_000), { A: 'a' }, new Set(['A']));
    expect(typeof outcome.ok).toBe('boolean');
  }
});
