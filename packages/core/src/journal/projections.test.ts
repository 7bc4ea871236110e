import {
  arbitraryEvent,
  arbitraryJournal,
  recordedJournals,
} from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { calls } from './calls.ts';
import { cost } from './cost.ts';
import { type Projection, project } from './projection.ts';
import type { Recorded } from './read-journal.ts';
import { summary } from './summary.ts';

const PROJECTIONS = [calls, summary, cost] as const;

/** Runs a check with one projection, as if all of them had the same type of state. */
const each = test.each(PROJECTIONS.map((one) => [one.name, one as Projection<unknown>] as const));

function expectPrefixes(
  projection: Projection<unknown>,
  events: readonly Recorded[],
  at: number,
): void {
  const whole = project(projection, events);
  const first = project(projection, events.slice(0, at));
  expect(project(projection, events.slice(at), first)).toEqual(whole);
  // Events that were applied before change nothing.
  expect(project(projection, events.slice(0, at), whole)).toBe(whole);
}

each('%s: a journal can be projected in two parts, and a part again', (_, projection) => {
  for (const events of recordedJournals().values()) {
    expectPrefixes(projection, events, events.length >> 1);
  }
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) =>
      expectPrefixes(projection, events, at % (events.length + 1)),
    ),
    { numRuns: runs(300) },
  );
});

each('%s: a state stays as it is when more events are applied', (_, projection) => {
  fc.assert(
    fc.property(arbitraryJournal, (events) => {
      const half = project(projection, events.slice(0, events.length >> 1));
      const before = structuredClone(half);
      project(projection, events, half);
      expect(half).toEqual(before);
    }),
    { numRuns: runs(100) },
  );
});

each('%s: any events in any order give a state', (_, projection) => {
  fc.assert(
    fc.property(fc.array(arbitraryEvent), (events) => {
      const recorded = events.map((event, at) => ({
        ...event,
        thread: 't',
        seq: at + 1,
        ts: 1,
        turn: 1,
      }));
      expect(project(projection, recorded)).toBeDefined();
    }),
    { numRuns: runs(200) },
  );
});

/** Calls with an intent after their last result, if no attempt began since. */
function openIn(events: readonly Recorded[]): string[] {
  const attempt =
    events.findLast(({ type, data }) => type === 'retry' && 'attempt' in data)?.seq ?? 0;
  const open = project(calls, events)
    .list()
    .flatMap(({ id, intents, result }) => ({ id, at: intents.at(-1) ?? 0, end: result?.seq ?? 0 }))
    .filter(({ at, end }) => at > Math.max(end, attempt));
  return open.toSorted((a, b) => a.at - b.at).map(({ id }) => id);
}

test('projections agree about open calls and denials', () => {
  let count = 0;
  const check = (events: readonly Recorded[]): void => {
    const { openCalls, denied } = project(summary, events);
    expect([...openCalls.keys()]).toEqual(openIn(events));
    const denials = events.filter(({ type }) => type === 'permission_denied');
    expect([denied, project(cost, events).denied]).toEqual([denials.length, denials.length]);
    // A denial outside of a call has no call.
    const ids = denials.flatMap(({ data }) => ('call_id' in data ? (data.call_id ?? []) : []));
    const deniedCalls = project(calls, events)
      .list()
      .filter(({ denial }) => denial);
    expect(new Set(deniedCalls.map(({ id }) => id))).toEqual(new Set(ids));
    count += openCalls.size;
  };
  for (const events of recordedJournals().values()) {
    for (const at of [events.length, events.length >> 1]) check(events.slice(0, at));
  }
  fc.assert(fc.property(arbitraryJournal, check), { numRuns: runs(300) });
  expect(count).toBeGreaterThan(20);
});

test('a summary of the start and the last events has the limits that people set', () => {
  let count = 0;
  const check = (events: readonly Recorded[], at: number): void => {
    const whole = project(summary, events);
    const start = project(
      summary,
      events.filter(({ type }) => type === 'thread_start').slice(0, 1),
    );
    const tail = project(summary, events.slice(at), summary.withLimitsSet(start, whole.limitsSet));
    expect(tail.limitsSet).toEqual(whole.limitsSet);
    const isRaised = events.slice(0, at).some(({ type }) => type === 'hook');
    if (!isRaised) expect(tail.limits).toEqual(whole.limits);
    if (Object.keys(tail.raisedFrom).length > 0) count += 1;
  };
  for (const events of recordedJournals().values()) check(events, events.length >> 1);
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) => check(events, at % events.length)),
    { numRuns: runs(200) },
  );
  expect(count).toBeGreaterThan(10);
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
