import { getOwn, isObject, type Json, type JsonObject } from '@kernmantle/core/base';
import type { Recorded, RecordedOf } from '@kernmantle/core/journal';
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { callsIn } from './made-calls.ts';

// The fold that `callsIn` replaces. It goes with this test.

/** One call as journals tell of it. */
interface Told {
  readonly id: string;
  readonly tool: string;
  readonly key: string;
  readonly given: JsonObject;
  about: JsonObject;
  asked: 'approved' | 'denied' | 'pending' | undefined;
  result: RecordedOf<'tool_result'>['data'] | undefined;
}

const givenIn = (data: Json): JsonObject => {
  const parameters = getOwn(data, 'parameters');
  return isObject(parameters) ? parameters : isObject(data) ? data : {};
};

/** The calls of one thread, in the order in which they were first made. */
function toldIn(events: readonly Recorded[]): Told[] {
  const calls = new Map<string, Told>();
  for (const { type, data } of events) {
    if (type === 'tool_call') {
      const { call_id: id, tool, key = '', arguments: given, about = {} } = data;
      const before = calls.get(id);
      calls.set(id, {
        asked: before?.asked,
        result: before?.result,
        id,
        tool,
        key,
        given: givenIn(given),
        about,
      });
    } else if (type === 'approval' && data.kind === 'call' && data.action === 'ask') {
      const call = calls.get(data.call_id);
      const state =
        data.state === 'used' ? 'approved' : data.state === 'pending' ? 'pending' : 'denied';
      if (call) call.asked = state;
    } else if (type === 'tool_result') {
      const call = calls.get(data.call_id);
      if (call) {
        call.result = data;
        call.about = { ...call.about, ...data.about };
      }
    }
  }
  return [...calls.values()];
}

test('the projection has the calls of the old fold', () => {
  for (const [file, events] of recordedJournals()) {
    expect(callsIn(events), file).toEqual(toldIn(events));
  }
  fc.assert(
    fc.property(arbitraryJournal, (events) => {
      expect(callsIn(events)).toEqual(toldIn(events));
    }),
    { numRuns: runs(300) },
  );
});
