// The fold that the summary projection replaces. It goes with this test.
import { getOwn, type Json } from '@kernmantle/core/base';
import { project, type Recorded, summary } from '@kernmantle/core/journal';
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';

interface Known {
  denied: number;
  readonly calls: Map<string, string>;
  isReplying: boolean;
  reason: string | undefined;
  code: string | undefined;
}

const textIn = (value: Json | undefined, field: string): string | undefined => {
  const found = getOwn(value, field);
  return typeof found === 'string' && found !== '' ? found : undefined;
};

function follow(known: Known, { type, data }: { type: string; data: unknown }): void {
  const json = data as Json;
  const id = textIn(json, 'call_id') ?? '';
  switch (type) {
    case 'turn_start':
      known.isReplying = true;
      break;
    case 'assistant_message':
      if (getOwn(data, 'injected') !== true) known.isReplying = false;
      break;
    case 'turn_end':
    case 'error':
    case 'stream_error':
      known.isReplying = false;
      break;
    case 'tool_call':
      known.calls.set(id, textIn(json, 'tool') ?? '');
      break;
    case 'tool_result':
      known.calls.delete(id);
      break;
    case 'permission_denied':
      known.denied += 1;
      break;
    case 'thread_end':
      known.reason = textIn(json, 'reason');
      known.code = textIn(json, 'code');
      break;
    case 'status':
      if (getOwn(data, 'status') === 'running') known.reason = known.code = undefined;
      else known.reason = textIn(json, 'reason') ?? known.reason;
      break;
    case 'retry':
      if (getOwn(data, 'attempt') !== undefined) known.calls.clear();
      break;
    default:
  }
}

test('the summary has the fields of the old fold', () => {
  const seen = { calls: 0, denied: 0, replying: 0, reason: 0, code: 0 };
  const compare = (events: readonly Recorded[]): void => {
    const known: Known = {
      denied: 0,
      calls: new Map(),
      isReplying: false,
      reason: undefined,
      code: undefined,
    };
    for (const event of events) follow(known, event);
    const { openCalls, denied, isReplying, reason, code } = project(summary, events);
    const now = { calls: new Set(openCalls), denied, isReplying, reason, code };
    expect(now).toEqual({ ...known, calls: new Set(known.calls) });
    seen.calls += openCalls.size;
    seen.denied += denied;
    if (isReplying) seen.replying += 1;
    if (reason) seen.reason += 1;
    if (code) seen.code += 1;
  };
  for (const events of recordedJournals().values()) {
    for (let at = 1; at <= events.length; at++) compare(events.slice(0, at));
  }
  fc.assert(fc.property(arbitraryJournal, compare), { numRuns: runs(300) });
  for (const some of Object.values(seen)) expect(some).toBeGreaterThan(10);
});
