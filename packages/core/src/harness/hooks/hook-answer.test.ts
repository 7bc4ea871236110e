import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Json } from '../../base/index.ts';
import { parseVerdict } from './hook-answer.ts';

const ACTIONS = ['continue', 'retry', 'skip', 'fail', 'abort'] as const;

test.each(ACTIONS)('`%s` is an action', (action) => {
  expect(parseVerdict({ action })).toEqual({ ok: true, output: { action, notes: {} } });
});

test('context names a model and limits; the rest of it are notes', () => {
  const context = { model: 'fallback', limits: { turns: 20 }, elevated: true, why: 'asked' };
  expect(parseVerdict({ action: 'continue', context })).toEqual({
    ok: true,
    output: {
      action: 'continue',
      model: 'fallback',
      limits: { turns: 20 },
      notes: { elevated: true, why: 'asked' },
    },
  });
});

test('what the hook’s directive did not declare is found all the same', () => {
  const outputs = { action: 'fail', extra: { error: 'denied by user', context: { a: 1 } } };
  expect(parseVerdict(outputs)).toMatchObject({
    output: { action: 'fail', error: 'denied by user', notes: { a: 1 } },
  });
});

test('`retry_with_fallback` is a retry with the fallback model', () => {
  expect(parseVerdict({ action: 'retry_with_fallback' })).toMatchObject({
    output: { action: 'retry', model: 'fallback' },
  });
  expect(parseVerdict({ action: 'retry_with_fallback', context: { model: 'fast' } })).toMatchObject(
    {
      output: { model: 'fast' },
    },
  );
});

test('context in words is a note', () => {
  expect(parseVerdict({ action: 'continue', context: 'be brief' })).toMatchObject({
    output: { notes: { context: 'be brief' } },
  });
});

test('a missing or unknown action is a failed hook, with the right word', () => {
  for (const outputs of [{}, null, [], 'retry', { action: null }, { action: '' }]) {
    expect(parseVerdict(outputs)).toMatchObject({
      error: { code: 'hook_failed', detail: { message: 'the hook returned no `action`' } },
    });
  }
  expect(parseVerdict({ action: 'retyr' })).toMatchObject({
    error: { code: 'hook_failed', detail: { hint: 'did you mean `retry`' } },
  });
  for (const action of ['constructor', 'RETRY', 7, { a: 1 }]) {
    expect(parseVerdict({ action })).toMatchObject({ error: { code: 'hook_failed' } });
  }
});

test('a model or limits of the wrong kind are a failed hook', () => {
  for (const context of [{ model: 5 }, { model: '' }, { limits: 20 }, { limits: [] }]) {
    expect(parseVerdict({ action: 'continue', context })).toMatchObject({
      error: { code: 'hook_failed' },
    });
  }
});

test('no output makes the reader throw', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (outputs) => {
      const verdict = parseVerdict(outputs as Json);
      expect(verdict.ok || verdict.error.code === 'hook_failed').toBe(true);
    }),
  );
});
