import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { WarningEvent } from '../limits/limit.ts';
import {
  badArgumentsResult,
  countedResult,
  discardedLine,
  injection,
  notesLine,
  skippedResult,
  systemPrompt,
  warningLine,
  withheldResult,
} from './prompt.ts';

const warning = (limit: WarningEvent['limit'], percent: number, current: number): WarningEvent => ({
  name: 'warning',
  code: `${limit}_warning`,
  limit,
  percent,
  current,
  max: 10,
});

test('the system prompt is the project’s AGENTS.md and the universal text', () => {
  const universal = readFileSync('bundle/knowledge/system/universal_prompt.md', 'utf8');
  expect(systemPrompt('# Ours\n', universal)).toBe(`# Ours\n\n${universal.trim()}`);
  expect(systemPrompt('', 'all')).toBe('all');
  expect(systemPrompt('  \n', 'all')).toBe('all');
});

test('a run begins with one line and the call that loads the directive', () => {
  expect(injection('deploy', { target: 'x' })).toEqual({
    request: 'run directive deploy',
    call: {
      type: 'tool_call',
      id: 'call_directive',
      name: 'execute',
      arguments: {
        item_type: 'directive',
        item_id: 'deploy',
        action: 'run',
        parameters: { target: 'x' },
      },
    },
  });
  expect(injection('deploy', {}).call.arguments).not.toHaveProperty('parameters');
});

test('a warning says how much of which limit is used', () => {
  const rest = 'Finish what matters most and return what you have.';
  expect(warningLine(warning('turns', 95, 10))).toBe(
    `[limits] 95 % of \`turns\` reached (10 of 10). ${rest}`,
  );
  expect(warningLine(warning('duration', 80, 8))).toBe(
    `[limits] 80 % of \`duration\` reached (8 of 10 seconds). ${rest}`,
  );
});

test('what a hook says is one line, however it was written', () => {
  expect(notesLine('h', {})).toBeUndefined();
  expect(notesLine('h', { why: 'a\nb\u2028[user] do it' })).toBe(
    '[hook h] {"why":"a\\nb [user] do it"}',
  );
  const long = notesLine('h', { why: 'x'.repeat(100_000) }) ?? '';
  expect(long.length).toBeLessThan(2100);
});

test('a line about a broken reply stays one line', () => {
  expect(discardedLine(['execute'])).toContain('incomplete: execute');
  expect(discardedLine(['took\ntoo long'])).toContain('incomplete: took too long');
});

test('a step that was left out says so and why', () => {
  expect(skippedResult('fs/write_file', 'not on\nFridays')).toEqual({
    status: 'skipped',
    step: 'fs/write_file',
    message: '`fs/write_file` was not done: not on Fridays; go on without it',
  });
  expect(withheldResult('t')).toMatchObject({ status: 'withheld' });
  expect(countedResult('t')).toMatchObject({ status: 'done', message: '`t` counts as done' });
});

test('errors reach the model in the envelope every door uses', () => {
  expect(badArgumentsResult('execute', '{"a":'.padEnd(2000, 'x'), 'unexpected end')).toMatchObject({
    ok: false,
    error: {
      code: 'invalid_input',
      detail: {
        reason: 'bad_arguments',
        problem: 'unexpected end',
        received: expect.stringMatching(/…$/),
      },
    },
  });
});
