import { limitsOf } from '@kernmantle/test-support/limits';
import { expect, test } from 'vitest';
import { type Failure, fail } from '../../base/index.ts';
import type { Bounds } from '../../journal/index.ts';
import { contextWarning, limitEvent } from '../limits/limit.ts';
import type { RaiseRoom } from '../limits/limit-ceiling.ts';
import { NO_BOUNDS, stepDone } from '../thread/restore.ts';
import { decide, decideFailure, type HookDecision, type Situation, withoutHook } from './action.ts';
import { afterStep, beforeStep, type CheckpointEvent, onError } from './checkpoint.ts';
import type { Action, HookVerdict } from './hook-answer.ts';

const ACTIONS = ['continue', 'retry', 'skip', 'fail', 'abort'] as const;

const write = { kind: 'tool', tool: 'fs/write_file', turn: 3 } as const;
const step = 'fs/write_file';
const limits = limitsOf({ turns: 10, context: 100, spend: '1' });
const room: RaiseRoom = { isRoot: true, initial: limits, factor: 2, policy: {}, window: 500n };
const raise = { limits, room, needed: 11n };

const events = {
  before_step: beforeStep(write),
  after_step: afterStep(write, 'done'),
  on_error: onError(fail('timeout', 'took too long').error),
  on_limit: limitEvent('turns', 10n, 10n),
} as const;
const warning = contextWarning(0, 90, 100n, 0.8) as CheckpointEvent;

const situation = (event: CheckpointEvent, more: Partial<Situation> = {}): Situation => ({
  event,
  step,
  bounds: NO_BOUNDS,
  raise,
  ...more,
});
const verdict = (action: Action, more: Partial<HookVerdict> = {}): HookVerdict => ({
  action,
  notes: {},
  ...more,
});

const TABLE: Record<Action, Record<keyof typeof events, HookDecision['do']>> = {
  continue: {
    before_step: 'proceed',
    after_step: 'proceed',
    on_error: 'tell_error',
    on_limit: 'stop',
  },
  retry: {
    before_step: 'proceed',
    after_step: 'repeat_step',
    on_error: 'repeat_step',
    on_limit: 'new_attempt',
  },
  skip: {
    before_step: 'skip_step',
    after_step: 'withhold_result',
    on_error: 'count_as_done',
    on_limit: 'stop',
  },
  fail: { before_step: 'fail', after_step: 'fail', on_error: 'fail', on_limit: 'fail' },
  abort: { before_step: 'abort', after_step: 'abort', on_error: 'abort', on_limit: 'abort' },
};

for (const action of ACTIONS) {
  for (const checkpoint of Object.keys(events) as (keyof typeof events)[]) {
    const expected = TABLE[action][checkpoint];
    test(`${action} at ${checkpoint} means ${expected}`, () => {
      expect(decide(verdict(action), situation(events[checkpoint])).instruction.do).toBe(expected);
    });
  }
}

test('at the start `continue` runs with what is granted, `retry` runs the directive again', () => {
  const start = situation(onError(fail('permission_denied', 'no').error), { isStart: true });
  expect(decide(verdict('continue'), start).instruction).toEqual({ do: 'run_with_granted' });
  expect(decide(verdict('retry'), start).instruction).toEqual({ do: 'restart' });
  expect(decide(verdict('skip'), start).instruction).toMatchObject({
    do: 'fail',
    fault: { code: 'permission_denied' },
  });
});

test('`continue` at a limit needs a new ceiling and gets at most what it may have', () => {
  const at = situation(events.on_limit);
  expect(decide(verdict('continue', { limits: { turns: 15 } }), at).instruction).toMatchObject({
    do: 'raise',
    raised: ['turns'],
    limits: { turns: { value: 15n } },
  });
  expect(decide(verdict('continue', { limits: { turns: 1e6 } }), at).instruction).toMatchObject({
    limits: { turns: { value: 20n } },
  });
  expect(decide(verdict('continue', { limits: { tokens: 1e6 } }), at).instruction).toMatchObject({
    do: 'stop',
    fault: { code: 'turns_exceeded' },
  });
  const { raise: _, ...blind } = at;
  expect(decide(verdict('continue', { limits: { turns: 15 } }), blind).instruction.do).toBe('stop');
});

test('a full window is fatal unless the new ceiling is within it', () => {
  const at = situation(limitEvent('context', 120n, 100n), { raise: { ...raise, needed: 120n } });
  expect(decide(verdict('continue', { limits: { context: 600 } }), at).instruction.do).toBe('stop');
  expect(decide(verdict('continue', { limits: { context: 150 } }), at).instruction.do).toBe(
    'raise',
  );
});

test('the spend limit of a root stops, whatever the hook says', () => {
  const at = situation(limitEvent('spend', 10n ** 9n, 10n ** 9n), {
    raise: { ...raise, needed: 10n ** 9n + 1n },
  });
  expect(decide(verdict('continue', { limits: { spend: '5.00' } }), at).instruction.do).toBe(
    'stop',
  );
});

test('a warning ends nothing: going on and skipping both go on', () => {
  const at = situation(warning);
  expect(decide(verdict('continue'), at).instruction).toEqual({ do: 'proceed' });
  expect(decide(verdict('skip'), at).instruction).toEqual({ do: 'proceed' });
  expect(decide(verdict('continue', { limits: { turns: 15 } }), at).instruction.do).toBe('raise');
  expect(decide(verdict('continue', { limits: { turn: 15 } }), at).instruction).toEqual({
    do: 'tell_warning',
  });
  expect(decide(verdict('fail'), at).instruction.do).toBe('fail');
});

test('the hook’s words become the reason, the code stays', () => {
  const decision = decide(verdict('fail', { error: 'denied by user' }), situation(events.on_error));
  expect(decision.instruction).toEqual({
    do: 'fail',
    fault: { code: 'timeout', detail: { message: 'denied by user', cause: 'took too long' } },
  });
  expect(decide(verdict('abort'), situation(events.before_step)).instruction).toEqual({
    do: 'abort',
    fault: {
      code: 'ended_by_hook',
      detail: { step, message: 'a hook ended the run before `fs/write_file`' },
    },
  });
});

test('a model is taken from `continue` and `retry` only, notes from all', () => {
  const more = { model: 'fallback', notes: { why: 'slow' } };
  for (const action of ACTIONS) {
    const decision = decide(verdict(action, more), situation(events.on_error));
    const takes = action === 'continue' || action === 'retry';
    expect(decision.model).toBe(takes ? 'fallback' : undefined);
    expect(decision.notes).toEqual({ why: 'slow' });
  }
});

test('a run is retried three times, wherever the retries were asked for', () => {
  let bounds: Bounds = NO_BOUNDS;
  const seen: string[] = [];
  for (const event of [events.after_step, events.on_limit, events.on_error, events.on_error]) {
    const decision = decide(verdict('retry'), situation(event, { bounds }));
    bounds = decision.bounds;
    seen.push(decision.instruction.do);
  }
  expect(seen).toEqual(['repeat_step', 'new_attempt', 'repeat_step', 'fail']);
  const end = decide(verdict('retry'), situation(events.on_error, { bounds })).instruction;
  expect(end).toMatchObject({ fault: { code: 'timeout', detail: { cause: 'took too long' } } });
  expect(decide(verdict('retry'), situation(events.on_limit, { bounds })).instruction.do).toBe(
    'stop',
  );
  // Before a step `retry` means `continue`, so it is not counted.
  expect(decide(verdict('retry'), situation(events.before_step, { bounds })).instruction.do).toBe(
    'proceed',
  );
});

test('three skips of one step in a row fail; doing it in between starts over', () => {
  const skip = (bounds: Bounds, event: CheckpointEvent, name = step) =>
    decide(verdict('skip'), situation(event, { bounds, step: name }));
  const first = skip(NO_BOUNDS, events.before_step);
  const other = skip(first.bounds, events.before_step, 'turn 4');
  const second = skip(other.bounds, events.after_step);
  expect([first, other, second].map(({ instruction }) => instruction.do)).toEqual([
    'skip_step',
    'skip_step',
    'withhold_result',
  ]);
  expect(skip(second.bounds, events.on_error).instruction).toMatchObject({
    do: 'fail',
    fault: { detail: { message: '`fs/write_file` was skipped 3 times in a row' } },
  });
  expect(skip(stepDone(second.bounds, step), events.before_step).instruction.do).toBe('skip_step');
  const done = withoutHook(situation(events.after_step, { bounds: second.bounds }));
  expect(skip(done.bounds, events.before_step).instruction.do).toBe('skip_step');
  const went = decide(
    verdict('continue'),
    situation(events.before_step, { bounds: second.bounds }),
  );
  expect(went.bounds.skips).toEqual({ 'turn 4': 1 });
});

test('a step whose effect is unknown is not repeated', () => {
  const at = situation(onError(fail('outcome_unknown', 'the process ended').error));
  expect(decide(verdict('retry'), at)).toMatchObject({
    instruction: { do: 'tell_error' },
    bounds: { retries: 0 },
  });
});

test('a hook that fails ends the run with both faults', () => {
  const failure: Failure = fail('turns_exceeded', 'limit `turns` reached');
  const decision = decideFailure('handle_timeout', failure, situation(events.on_error));
  expect(decision.instruction).toEqual({
    do: 'fail',
    fault: {
      code: 'hook_failed',
      detail: {
        hook: 'handle_timeout',
        message: 'hook `handle_timeout` failed: limit `turns` reached',
        cause: { code: 'turns_exceeded', message: 'limit `turns` reached' },
        event: { code: 'timeout', message: 'took too long' },
      },
    },
  });
});

test('without a hook steps go on, errors go to the model, limits stop, warnings are told', () => {
  const instruction = (event: CheckpointEvent, more: Partial<Situation> = {}) =>
    withoutHook(situation(event, more)).instruction;
  expect(instruction(events.before_step)).toEqual({ do: 'proceed' });
  expect(instruction(events.after_step)).toEqual({ do: 'proceed' });
  expect(instruction(events.on_error)).toEqual({ do: 'tell_error' });
  expect(instruction(warning)).toEqual({ do: 'tell_warning' });
  expect(instruction(events.on_limit)).toEqual({
    do: 'stop',
    fault: {
      code: 'turns_exceeded',
      detail: {
        limit: 'turns',
        current: 10,
        max: 10,
        message: 'limit `turns` reached: 10 of 10 used',
      },
    },
  });
});

test('without a hook a denial at the start and a fatal provider error fail', () => {
  const denied = onError(fail('permission_denied', 'no').error);
  expect(withoutHook(situation(denied, { isStart: true })).instruction.do).toBe('fail');
  expect(withoutHook(situation(denied)).instruction.do).toBe('tell_error');
  const down = onError(fail('provider_error', 'down').error);
  expect(withoutHook(situation(down, { isFatal: true })).instruction).toMatchObject({
    do: 'fail',
    fault: { code: 'provider_error' },
  });
});

test('without a hook a loop is told once and ends the thread the second time', () => {
  const loop = onError(fail('loop_detected', 'again').error);
  expect(withoutHook(situation(loop, { loops: 1, isOwn: true })).instruction.do).toBe('tell_error');
  expect(withoutHook(situation(loop, { loops: 2, isOwn: true })).instruction.do).toBe('fail');
  expect(withoutHook(situation(loop, { loops: 2 })).instruction.do).toBe('tell_error');
});

test('without a hook a stuck thread asks a person', () => {
  const stuck = onError(fail('stuck', 'no idea', { reason: 'no idea' }).error);
  expect(withoutHook(situation(stuck, { isOwn: true })).instruction).toMatchObject({
    do: 'ask_person',
    fault: { detail: { reason: 'no idea' } },
  });
  expect(withoutHook(situation(stuck)).instruction.do).toBe('tell_error');
});
