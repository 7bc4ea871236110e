import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { calls } from './calls.ts';
import { project } from './projection.ts';
import type { Recorded } from './read-journal.ts';

function expectPrefixes(events: readonly Recorded[], at: number): void {
  const whole = project(calls, events);
  const split = project(calls, events.slice(at), project(calls, events.slice(0, at)));
  expect(split).toEqual(whole);
  // Events that were applied before change nothing.
  expect(project(calls, events.slice(0, at), whole)).toBe(whole);
}

test('a journal can be projected in two parts, and a part again', () => {
  for (const events of recordedJournals().values()) expectPrefixes(events, events.length >> 1);
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) =>
      expectPrefixes(events, at % (events.length + 1)),
    ),
    { numRuns: runs(300) },
  );
});

test('a state stays as it is when more events are applied', () => {
  fc.assert(
    fc.property(arbitraryJournal, (events) => {
      const half = project(calls, events.slice(0, events.length >> 1));
      const before = structuredClone(half);
      project(calls, events, half);
      expect(half).toEqual(before);
    }),
    { numRuns: runs(100) },
  );
});

test('a call has the numbers of its events', () => {
  const eventAt = (events: readonly Recorded[], at: number) => events.find(({ seq }) => seq === at);
  const count = { intents: 0, results: 0, denials: 0, approvals: 0 };
  const check = (events: readonly Recorded[]): void => {
    const state = project(calls, events);
    for (const call of state.list()) {
      expect(state.find(call.id)).toBe(call);
      for (const seq of call.intents) {
        const event = eventAt(events, seq);
        expect(event).toMatchObject({ type: 'tool_call', data: { call_id: call.id } });
      }
      const { result, denial, approval } = call;
      if (result)
        expect(eventAt(events, result.seq)).toMatchObject({
          type: 'tool_result',
          data: { call_id: call.id, is_error: result.isError },
        });
      if (denial) expect(eventAt(events, denial.seq)?.type).toBe('permission_denied');
      count.intents += call.intents.length;
      count.results += result ? 1 : 0;
      count.denials += denial ? 1 : 0;
      count.approvals += approval ? 1 : 0;
    }
  };
  for (const events of recordedJournals().values()) check(events);
  fc.assert(fc.property(arbitraryJournal, check), { numRuns: runs(300) });
  for (const some of Object.values(count)) expect(some).toBeGreaterThan(10);
});

test('two states that were made from one state do not see the calls of each other', () => {
  const intent = (seq: number, call_id: string): Recorded => {
    const call = { call_id, tool: 't', verb: 'execute', effect: 'read', arguments: {} } as const;
    return { type: 'tool_call', data: call, thread: 't', seq, ts: 1, turn: 1 };
  };
  const many = Array.from({ length: 64 }, (_, at) => intent(at + 1, `c${at}`));
  const base = project(calls, many.slice(0, 63));
  const one = project(calls, [intent(64, 'x'), intent(65, 'y')], base);
  const two = project(calls, [intent(64, 'y'), intent(65, 'x'), intent(66, 'x')], base);
  expect([one.find('x')?.intents, one.find('y')?.intents]).toEqual([[64], [65]]);
  expect([two.find('x')?.intents, two.find('y')?.intents]).toEqual([[65, 66], [64]]);
  expect([base.find('x'), base.find('y'), two.list().length]).toEqual([undefined, undefined, 65]);
});

test('more calls than a block holds stay in order', () => {
  const content = Array.from({ length: 200 }, (_, at) => ({
    type: 'tool_call' as const,
    id: `c${at}`,
    name: 'search',
    arguments: {},
  }));
  const event = { type: 'assistant_message', data: { content, injected: true } } as const;
  const state = project(calls, [{ ...event, thread: 't', seq: 1, ts: 1, turn: 1 }]);
  expect(state.list().map(({ id }) => id)).toEqual(content.map(({ id }) => id));
  expect(state.blocks.length).toBe(4);
});
