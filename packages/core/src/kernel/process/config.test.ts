import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JsonObject } from '../../base/index.ts';
import { readProcessConfig } from './config.ts';

const problemOf = (config: JsonObject) => {
  const read = readProcessConfig(config, {});
  return read.ok
    ? undefined
    : `${read.error.code} ${(read.error.detail.config_path as string | undefined) ?? ''}`;
};

test('the fields of a program have defaults', () => {
  expect(readProcessConfig({ command: 'ls' }, {})).toMatchObject({
    ok: true,
    output: {
      program: { kind: 'command', command: 'ls', args: [] },
      cwd: '.',
      env: {},
      maxOutput: 1_048_576,
      output: 'text',
    },
  });
});

test('every wrong field is named', () => {
  expect(problemOf({})).toBe('config_invalid config.command');
  expect(problemOf({ command: 'ls', args: 'all' })).toBe('config_invalid config.args');
  expect(problemOf({ command: 'ls', args_from: [1] })).toBe('config_invalid config.args_from');
  expect(problemOf({ shell: 'fish', script: '' })).toBe('config_invalid config.shell');
  expect(problemOf({ shell: 'bash' })).toBe('config_invalid config.script');
  expect(problemOf({ runtime: 'ruby', module: 'x' })).toBe('config_invalid config.runtime');
  expect(problemOf({ runtime: 'node' })).toBe('config_invalid config.module');
  expect(problemOf({ runtime: 'node', module: 'x', function: 'a-b' })).toBe(
    'config_invalid config.function',
  );
  expect(problemOf({ command: 'ls', env: { 'A B': '1' } })).toBe('config_invalid config.env');
  expect(problemOf({ command: 'ls', env: { A: 'x\0y' } })).toBe('config_invalid config.env');
  expect(problemOf({ command: 'ls', max_output: -1 })).toBe('config_invalid config.max_output');
  expect(problemOf({ command: 'ls', cwd: 1 })).toBe('config_invalid config.cwd');
  expect(problemOf({ command: 'ls', output: 'xml' })).toBe('config_invalid config.output');
});

test('an argument with a NUL character is refused, not cut', () => {
  expect(problemOf({ command: 'ls', args: ['a\0b'] })).toBe('invalid_input ');
});

test('no value of a parameter becomes an option of its own', () => {
  const value = fc.oneof(
    fc.string(),
    fc.constantFrom('-x', '--yes', '-'),
    fc.integer(),
    fc.boolean(),
  );
  fc.assert(
    fc.property(fc.oneof(value, fc.array(value), fc.constant(null)), (given) => {
      const read = readProcessConfig({ command: 'x', args_from: ['key'] }, { key: given });
      const program = read.ok ? read.output.program : undefined;
      const made = program?.kind === 'command' ? program.args : [];
      for (const [index, text] of made.entries()) {
        const isValue = index > 0 && made[index - 1] === '--key';
        if (text.startsWith('-')) expect(text === '--key' || text.startsWith('--key=')).toBe(true);
        else expect(isValue).toBe(true);
      }
    }),
  );
});

test('no config makes reading it throw', () => {
  const keys = [
    'command',
    'args',
    'args_from',
    'shell',
    'script',
    'runtime',
    'module',
    'env',
    'stdin',
    'cwd',
    'ok_exit_codes',
  ];
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom(...keys), fc.jsonValue()), (config) => {
      expect(typeof readProcessConfig(config as JsonObject, {}).ok).toBe('boolean');
    }),
  );
});
