import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { freezeJson, type Json, type JsonObject } from '../base/index.ts';
import { expandEnv, fillBody, fillConfig } from './tool-config.ts';

const NONE: ReadonlySet<string> = new Set();

test('filling leaves body and parameters as they were', () => {
  const body = { a: ['{x}', '{gone}'], b: 'n={x}' };
  const parameters = { x: { y: [1] } };
  const before = JSON.stringify([body, parameters]);
  expect(fillBody(body, parameters, NONE)).toEqual({
    ok: true,
    output: { a: [{ y: [1] }], b: 'n={"y":[1]}' },
  });
  expect(JSON.stringify([body, parameters])).toBe(before);
});

test('a parameter is never read as a template, whatever it holds', () => {
  const poison = fc.oneof(
    fc.constantFrom('{b}', '{', 'b}', '${SECRET}', '{a}', '{{b}}', '$'),
    fc.string(),
  );
  fc.assert(
    fc.property(poison, poison, (a, b) => {
      const filled = fillBody({ text: '<{a}{b}>', only: '{a}' }, { a, b }, NONE);
      expect(filled).toEqual({ ok: true, output: { text: `<${a}${b}>`, only: a } });
    }),
  );
});

test('every type survives a body that is exactly the placeholder', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom('{v}', ' {v}', '{v}\n'), (value, text) => {
      const filled = fillBody([text], { v: value as Json }, NONE);
      expect(filled).toEqual({ ok: true, output: [value] });
    }),
  );
});

test('text without a bare name comes back unchanged', () => {
  const garbage = fc
    .array(fc.constantFrom('{', '}', '$', ' ', '.', '1', '-', '"', '{ a }', '{a.b}', '${a}'), {
      maxLength: 30,
    })
    .map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(garbage, (text) => {
      expect(fillBody(text, { a: 'never' }, NONE)).toEqual({ ok: true, output: text });
    }),
  );
});

test('a body that would grow beyond bounds is refused', () => {
  const big = 'x'.repeat(9 * 1024 * 1024);
  const filled = fillBody(['-{big}', '-{big}'], { big }, NONE);
  expect(filled).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
});

test('bodies and parameters nested too deeply are refused', () => {
  let deep: Json = 1;
  for (let level = 0; level < 100_000; level++) deep = [deep];
  expect(fillBody(deep, {}, NONE)).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  expect(fillBody('x{deep}', { deep }, NONE)).toMatchObject({ ok: false });
});

test('long hostile texts are scanned once', () => {
  for (const unit of ['{', '{a', '{a}', '{}', '${a}']) {
    expect(fillBody(unit.repeat(200_000), { a: 'a' }, NONE).ok).toBe(true);
  }
});

const SOURCES = {
  env: { KEY: 'p{id}w${URL}', URL: 'http://x' },
  declared: new Set(['KEY', 'URL', 'GONE']),
  parameters: { id: 7, to: '${KEY}', list: ['{id}'] },
  required: new Set(['must']),
};

test('variables and parameters are filled side by side, neither read by the other', () => {
  const config = {
    url: '${URL}/notes/{id}?to={to}',
    key: '${KEY}',
    list: ' {list} ',
    mixed: '{to}${KEY}{to}',
    kept: '${GONE:-{id}}',
    dropped: '${URL}/{optional}',
  };
  expect(fillConfig(config, SOURCES)).toEqual({
    ok: true,
    output: {
      value: {
        url: 'http://x/notes/7?to=${KEY}',
        key: 'p{id}w${URL}',
        list: ['{id}'],
        mixed: '${KEY}p{id}w${URL}${KEY}',
        kept: '{id}',
      },
      secrets: ['http://x', 'p{id}w${URL}'],
    },
  });
});

test('what is wrong with the config comes before what is wrong with the call', () => {
  expect(fillConfig(['{must}', '${GONE}'], SOURCES)).toMatchObject({
    ok: false,
    error: { code: 'config_invalid', detail: { variables: ['GONE'] } },
  });
  expect(fillConfig(['{must}', '${URL}'], SOURCES)).toMatchObject({
    ok: false,
    error: { code: 'invalid_input', detail: { missing: ['must'] } },
  });
});

test('no value of either kind is read again, whatever it holds', () => {
  const poison = fc.oneof(
    fc.constantFrom('{a}', '${A}', '$', '{', 'a}', 'A}', '${', '${A:-x}', '{{a}}'),
    fc.string({ minLength: 1 }),
  );
  fc.assert(
    fc.property(poison, poison, (a, A) => {
      const filled = fillConfig('${A}{a}-{a}${A}', {
        env: { A },
        declared: new Set(['A']),
        parameters: { a },
        required: new Set(['a']),
      });
      expect(filled).toMatchObject({ ok: true, output: { value: `${A}${a}-${a}${A}` } });
    }),
  );
});

test('an environment cannot make a config grow beyond bounds', () => {
  const text = '${BIG}'.repeat(40);
  const filled = expandEnv(text, { BIG: 'x'.repeat(1 << 19) }, new Set(['BIG']));
  expect(filled).toMatchObject({ ok: false, error: { code: 'config_invalid' } });
});

test('a config that is frozen is filled as any other, with what is given each time', () => {
  const piece = fc.constantFrom('{a}', '{b}', '${KEY}', '${GONE:-d}', 'x', ' ', '{', '$');
  const text = fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join(''));
  const tree = fc.letrec<{ tree: Json }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 3 },
      text,
      fc.integer(),
      fc.array(tie('tree'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('k', '__proto__', '{a}'), tie('tree')),
    ),
  })).tree;
  const given = fc.dictionary(fc.constantFrom('a', 'b'), fc.jsonValue({ maxDepth: 1 }));
  const declared = new Set(['KEY', 'GONE']);
  fc.assert(
    fc.property(tree, fc.array(given, { minLength: 2, maxLength: 3 }), (config, all) => {
      const frozen = freezeJson(structuredClone({ config }));
      for (const parameters of all as JsonObject[]) {
        const sources = { env: { KEY: 'k' }, declared, parameters, required: new Set(['b']) };
        expect(fillConfig(frozen, sources)).toEqual(fillConfig({ config }, sources));
      }
    }),
  );
});

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
