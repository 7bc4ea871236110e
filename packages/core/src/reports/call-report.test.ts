import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Recorded, RecordedOf } from '../journal/index.ts';
import { indexOf } from './call-report.ts';

// The index that `indexOf` replaces. It goes with this test.

type Call = RecordedOf<'tool_call'>;
type CallResult = RecordedOf<'tool_result'>;
type Denial = RecordedOf<'permission_denied'>;

function oldIndexOf(events: readonly Recorded[]) {
  const calls = new Map<string, Call>();
  const results = new Map<string, CallResult>();
  const denials = new Map<string, Denial>();
  for (const event of events) {
    if (event.type === 'tool_call') calls.set(event.data.call_id, event);
    if (event.type === 'tool_result') results.set(event.data.call_id, event);
    if (event.type !== 'permission_denied') continue;
    const { call_id } = event.data;
    if (call_id !== undefined) denials.set(call_id, event);
  }
  const storyOf = (id: string) => {
    const [call, denial, result] = [calls.get(id), denials.get(id), results.get(id)];
    return { ...(call && { call }), ...(denial && { denial }), ...(result && { result }) };
  };
  return { storyOf };
}

test('the projection has the events of the old index', () => {
  let count = 0;
  const compare = (events: readonly Recorded[]): void => {
    const [now, before] = [indexOf(events), oldIndexOf(events)];
    const ids = new Set(events.map((event) => now.callOf(event) ?? ''));
    count += ids.size;
    for (const id of ids) expect(now.storyOf(id)).toEqual(before.storyOf(id));
  };
  for (const events of recordedJournals().values()) compare(events);
  fc.assert(fc.property(arbitraryJournal, compare), { numRuns: runs(300) });
  expect(count).toBeGreaterThan(1000);
});
