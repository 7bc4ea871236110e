import { expect, test } from 'vitest';
import type { ItemInput, LimitMeter } from '../../model/api.ts';
import { faultsOf, readWish, runCommand } from './run-request.ts';

const input = (name: string, type: string, rest: Partial<ItemInput> = {}): ItemInput => ({
  name,
  type,
  required: false,
  ...rest,
});
const limit = (name: string, max: number): LimitMeter => ({ name, used: 0, reserved: 0, max });
const fields = (
  inputs: Record<string, string>,
  limits: Record<string, string> = {},
  rest: { model?: string; message?: string } = {},
) => ({ inputs, limits, model: '', message: '', ...rest });

test('each text is read by the type of its input', () => {
  const inputs = [
    input('text', 'string'),
    input('count', 'integer'),
    input('is_dry', 'boolean'),
    input('level', 'string', { enum: [1, 'two', true] }),
    input('extra', 'object'),
    input('free', 'any'),
    input('unset', 'string', { default: 'x' }),
  ];
  const read = readWish(
    'hello',
    { inputs, limits: [] },
    fields({ text: '12', count: '12', is_dry: 'false', level: '1', extra: '{"a":1}', free: 'no' }),
  );
  expect(read).toEqual({
    wish: {
      directive: 'hello',
      inputs: { text: '12', count: 12, is_dry: false, level: 1, extra: { a: 1 }, free: 'no' },
    },
  });
});

test('what is wrong stands at its field', () => {
  const inputs = [
    input('since', 'string', { required: true }),
    input('count', 'integer'),
    input('extra', 'array'),
  ];
  const limits = [limit('turns', 12), limit('spend', 0.5)];
  const wrong = fields({ count: '1.5', extra: '[' }, { turns: '13', spend: '-1' });
  expect(readWish('hello', { inputs, limits }, wrong)).toEqual({
    faults: {
      'inputs.since': 'is required',
      'inputs.count': 'must be a whole number',
      'inputs.extra': 'must be JSON (array)',
      'limits.turns': 'must be at most 12; a run can only lower it',
      'limits.spend': 'must be a number',
    },
  });
});

test('a lower limit is sent, an empty one is not', () => {
  const about = { inputs: [], limits: [limit('turns', 12), limit('spend', 0.5)] };
  expect(readWish('hello', about, fields({}, { turns: '', spend: '0.25' }))).toEqual({
    wish: { directive: 'hello', inputs: {}, limits: { spend: 0.25 } },
  });
});

test('faults of the server stand at the field they name', () => {
  const detail = {
    message: 'inputs do not fit',
    errors: [{ field: 'since', error: 'required' }, { field: 'a.b', error: 'odd' }, 'noise'],
    limit: 'turns',
  };
  expect(faultsOf({ code: 'invalid_input', detail }, [input('since', 'string')])).toEqual({
    'inputs.since': 'required',
    'a.b': 'odd',
    'limits.turns': 'inputs do not fit',
  });
});

test('the command says the same', () => {
  const wish = {
    directive: 'hello',
    inputs: { file: 'a b.md', count: 3 },
    limits: { duration_seconds: 60, tool_calls: 2 },
    message: "it's",
  };
  expect(runCommand(wish)).toBe(
    "km run hello 'file=a b.md' count=3 --duration 60 --tool-calls 2 --message 'it'\\''s'",
  );
});
