import { ok } from '@kernmantle/core/base';
import type { Store } from '@kernmantle/core/store';
import { arbitraryEvent } from '@kernmantle/test-support/journals';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Terminal } from '../terminal/terminal.ts';
import { exitCodeOfThread, printNextStep, showResult } from './result-text.ts';

/** A registry whose threads have events of these types. */
function having(...types: string[]): Store {
  const events = types.map((type, at) => {
    const [event] = fc.sample(
      arbitraryEvent.filter((one) => one.type === type),
      { numRuns: 1, seed: at },
    );
    return { ...event, thread: 't', seq: at + 1, ts: 1, turn: 1 };
  });
  return { read: async () => ok(events) } as unknown as Store;
}

test.each([
  ['completed', undefined, 0],
  ['failed', undefined, 1],
  ['failed', 'loop_detected', 1],
  ['failed', 'provider_error', 6],
  ['failed', 'rate_limit', 6],
  ['failed', 'permission_denied', 1],
  ['limit', 'turns_exceeded', 5],
  ['denied', 'permission_denied', 4],
  ['needs_input', 'stuck', 7],
  ['paused', undefined, 7],
  ['interrupted', undefined, 130],
  ['aborted', undefined, 1],
  ['terminated', undefined, 1],
  ['killed', undefined, 1],
] as const)('a thread that ended %s (%s) exits with %i', async (status, code, exit) => {
  const ended = { thread_id: 't', status, ...(code === undefined ? {} : { code }) };
  expect(await exitCodeOfThread(ended, having('turn_start'))).toBe(exit);
});

test.each([
  ['network_error', 6, ['turn_start']],
  ['timeout', 6, ['tool_result', 'turn_start', 'retry', 'error']],
  ['network_error', 1, ['turn_start', 'assistant_message', 'tool_call', 'tool_result', 'hook']],
  ['timeout', 1, []],
] as const)('%s exits with %i after %j', async (code, exit, types) => {
  const ended = { thread_id: 't', status: 'failed', code } as const;
  expect(await exitCodeOfThread(ended, having(...types))).toBe(exit);
});

test.each([
  ['turns', 'caller', 'pass a larger `--turns` to the next run, or raise it in a hook'],
  ['turns', 'directive', "raise <turns> in the directive's <limits>, or raise it in a hook"],
  ['tool_calls', 'default (bundle)', 'add <tool_calls> to the <limits> of the directive'],
  ['spend', 'directive', "raise <spend> in the directive's <limits>"],
  ['tokens', 'policy', '`limits.tokens` of the policy applies to every run'],
  ['duration', 'parent', 'the limit is the rest of its parent thread'],
  ['context', 'model', 'a model with a larger one: `km threads resume t --model MODEL`'],
  ['context', 'directive', "raise <context> in the directive's <limits>"],
])('what helps at the limit %s of the %s is said', (limit, from, hint) => {
  const notes: string[] = [];
  const terminal = {
    paint: (_colour: string, text: string) => text,
    note: (text: string) => void notes.push(text),
  } as unknown as Terminal;
  const ended = { thread_id: 't', outputs: {}, text: '', reason: '', cost: {} };
  const result = { ...ended, status: 'limit', code: `${limit}_exceeded` } as const;
  printNextStep(
    result,
    { limits: { [limit]: { value: 1, from } }, denied: 0, failed: 0 },
    terminal,
  );
  expect(notes.join()).toContain(hint);
  if (limit === 'spend') expect(notes.join()).not.toContain('hook');
});

test('a person who stopped a run is told how to resume it', () => {
  const notes: string[] = [];
  const terminal = {
    paint: (_colour: string, text: string) => text,
    note: (text: string) => void notes.push(text),
  } as unknown as Terminal;
  const ended = { thread_id: 't', outputs: {}, text: '', reason: '', cost: {} };
  printNextStep({ ...ended, status: 'terminated' }, { limits: {}, denied: 0, failed: 0 }, terminal);
  expect(notes.join()).toContain('`km threads resume t`');
});

test.each([
  ['words alone', {}, ' All of it.\n', [' All of it.'], []],
  ['outputs alone', { n: 1 }, '', ['{\n  "n": 1\n}'], []],
  ['a reply that is the outputs', { n: 1 }, '{"n": 1}\n', ['{\n  "n": 1\n}'], []],
  ['words around outputs', { n: 1 }, 'So: {"n": 1}', ['{\n  "n": 1\n}'], ['So: {"n": 1}']],
  ['nothing', {}, ' \n', [], []],
])('the result of a run is data, and shown once: %s', (_, outputs, text, data, notes) => {
  const [out, note]: [string[], string[]] = [[], []];
  showResult(
    { outputs, text },
    { out: (line) => void out.push(line), note: (line) => void note.push(line) },
  );
  expect([out, note]).toEqual([data, notes]);
});
