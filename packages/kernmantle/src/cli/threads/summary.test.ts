// The folds that the summary projection replaces. They go with this test.
import { getOwn, isObject, type JsonObject, plainText } from '@kernmantle/core/base';
import { eventFlags, project, type Recorded, summary } from '@kernmantle/core/journal';
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';

/** Of `threads show`. A limit that a person set after a hook raised it stayed as the hook had raised it. */
function limitsNow(limits: JsonObject, events: readonly Recorded[]): JsonObject {
  const now = { ...limits };
  for (const { type, data } of events) {
    if (type === 'signal')
      for (const name of Object.keys(data.limits ?? {})) now[name] = limits[name] ?? null;
    if (type !== 'hook') continue;
    for (const [name, limit] of Object.entries(data.limits ?? {})) {
      const value = getOwn(limit, 'value');
      // The reserve of hooks is not in their event, so other limits seemed to be raised too.
      if (getOwn(limit, 'from') !== 'hook') continue;
      if (value === undefined || value === getOwn(now[name], 'value')) continue;
      now[name] = { value, from: `raised by ${plainText(data.directive)}` };
    }
  }
  return now;
}

/** Of `reopen.ts`. */
function limitsSet(events: readonly Recorded[]): JsonObject {
  let packed = events.find((event) => event.type === 'thread_start')?.data.limits ?? {};
  for (const { type, data } of events) {
    if (type === 'signal' && data.limits) packed = { ...packed, ...data.limits };
  }
  return packed;
}

/** Of the live view. A repeated request did not begin with turn 0. */
function turnNow(events: readonly Recorded[]): number {
  let now = 0;
  for (const { type, turn, data } of events) {
    if (type === 'turn_start') now = turn;
    if (type === 'retry' && data.attempt !== undefined) now = 0;
  }
  return now;
}

/** Of exit codes. */
const isUnanswered = (events: readonly Recorded[]): boolean =>
  events.findLast(({ type }) =>
    ['begins', 'replies', 'calls'].includes(eventFlags(type).turn ?? ''),
  )?.type === 'turn_start';

const valuesIn = (limits: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(limits).map(([name, limit]) => [
      name,
      isObject(limit) ? { value: limit.value ?? null, from: limit.from ?? null } : limit,
    ]),
  );

test('the summary has the fields of the old folds', () => {
  const seen = { raised: 0, set: 0, unanswered: 0 };
  const compare = (events: readonly Recorded[]): void => {
    const now = project(summary, events);
    const set = limitsSet(events);
    expect(now.limitsSet).toEqual(set);
    expect(now.turn).toBe(turnNow(events));
    expect(now.isUnanswered).toBe(isUnanswered(events));
    const isRaisedAgain =
      events.filter(({ type, data }) => type === 'signal' && data.limits).length > 1;
    if (!isRaisedAgain) expect(valuesIn(now.limits)).toEqual(valuesIn(limitsNow(set, events)));
    if (JSON.stringify(now.limits).includes('raised by')) seen.raised += 1;
    if (events.some(({ type, data }) => type === 'signal' && data.limits)) seen.set += 1;
    if (now.isUnanswered) seen.unanswered += 1;
  };
  for (const events of recordedJournals().values()) {
    for (let at = 1; at <= events.length; at++) compare(events.slice(0, at));
  }
  fc.assert(fc.property(arbitraryJournal, compare), { numRuns: runs(300) });
  for (const some of Object.values(seen)) expect(some).toBeGreaterThan(10);
});
