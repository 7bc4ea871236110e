import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Directive, parseDirective } from '../../items/index.ts';
import { finalOutputs, missingOutputs, resultText } from './final-outputs.ts';

function directiveWith(outputs: string): Directive {
  const text = `<directive name="d" version="1.0.0"><metadata><description>d</description><category>c</category><author>a</author></metadata><process><step name="s">go</step></process>${outputs}</directive>`;
  const { directive, diagnostics } = parseDirective(text, 'd.md');
  if (!directive) throw new Error(JSON.stringify(diagnostics));
  return directive;
}

const directive = directiveWith(
  '<outputs><action type="string" required="true">retry|fail</action><count type="number"/></outputs>',
);

test('a message that is the outputs gives them', () => {
  expect(finalOutputs(directive, ' {"action": "retry", "count": 2}\n')).toEqual({
    ok: true,
    output: { action: 'retry', count: 2 },
  });
});

test('so does a message with one fence that holds them', () => {
  const fenced = (info: string) => `Done.\n\n\`\`\`${info}\n{"action": "fail"}\n\`\`\`\nBye.`;
  for (const info of ['json', '', 'JSON ']) {
    expect(finalOutputs(directive, fenced(info))).toMatchObject({ output: { action: 'fail' } });
  }
  const among = `\`\`\`bash\nls\n\`\`\`\n${fenced('json')}`;
  expect(finalOutputs(directive, among)).toMatchObject({ output: { action: 'fail' } });
  expect(finalOutputs(directive, '~~~\r\n{"action": "fail"}\r\n~~~')).toMatchObject({ ok: true });
});

test('two candidates leave a choice, so neither counts', () => {
  const both = '```json\n{"action": "retry"}\n```\n```json\n{"action": "fail"}\n```';
  expect(finalOutputs(directive, both)).toBeUndefined();
});

test('prose, other JSON and outputs nobody declared are no outputs', () => {
  for (const text of [
    'all done',
    '[1]',
    '"x"',
    '{"action": ',
    '{"other": 1}',
    '',
    '```\nls\n```',
  ]) {
    expect(finalOutputs(directive, text)).toBeUndefined();
  }
  expect(finalOutputs(directiveWith(''), '{"a": 1}')).toBeUndefined();
});

test('outputs that do not fit are a failure that says what is wrong', () => {
  expect(finalOutputs(directive, '{"action": "dance"}')).toMatchObject({
    error: { code: 'invalid_input', detail: { message: expect.stringContaining('`action`') } },
  });
  expect(finalOutputs(directive, '{"count": 2}')).toMatchObject({ ok: false });
});

test('fields nobody declared are kept apart', () => {
  expect(finalOutputs(directive, '{"action": "fail", "error": "no"}')).toEqual({
    ok: true,
    output: { action: 'fail', extra: { error: 'no' } },
  });
});

test('no message makes it throw, and none takes long', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom('`', '\n', '{', '}', '"', 'a', ' ') }),
      (text) => {
        const found = finalOutputs(directive, text);
        expect(found === undefined || typeof found.ok === 'boolean').toBe(true);
      },
    ),
  );
  expect(finalOutputs(directive, '```\n{'.repeat(200_000))).toBeUndefined();
  expect(finalOutputs(directive, '{'.repeat(900_000))).toBeUndefined();
});

test('what is missing is named', () => {
  expect(missingOutputs(directive)).toEqual(['action']);
  expect(missingOutputs(directiveWith('<outputs><count type="number"/></outputs>'))).toEqual([]);
});

test('the directive’s own words stand in for a run that gave none', () => {
  const words = { success: 'all good', failure: 'sorry' };
  expect(resultText(words, true, 'hello')).toBe('hello');
  expect(resultText(words, true, ' ')).toBe('all good');
  expect(resultText(words, false, undefined)).toBe('sorry');
  expect(resultText({}, false, undefined)).toBe('');
});
