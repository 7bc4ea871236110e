import { getOwn, isObject, type Json } from '@kernmantle/core/base';
import {
  type Call,
  calls,
  deniedAt,
  listCalls,
  project,
  type Recorded,
} from '@kernmantle/core/journal';
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';

// The fold that the calls projection replaces. It goes with this test.

/** Everything that belongs to one call; numbers are those of events. */
interface CallEntry {
  readonly id: string;
  readonly turn: number;
  /** The reply that asked for it. */
  readonly reply?: number;
  tool: string;
  action?: string;
  target?: string;
  call?: number;
  denied?: number;
  result?: number;
  isError?: boolean;
  stage?: string;
  /** A person was asked about it: the approval, and how that stands. */
  approval?: string;
  asked?: 'pending' | 'used' | 'denied' | 'expired';
}

const toolIn = (name: string, given: Json): string => {
  const id = getOwn(given, 'item_id');
  return name === 'execute' && typeof id === 'string' ? id : name;
};

const actionIn = (given: Json): { action?: string } => {
  const inner = getOwn(given, 'parameters');
  const action = getOwn(isObject(inner) ? inner : given, 'action');
  return typeof action === 'string' ? { action } : {};
};

function noteCalls(calls: Map<string, CallEntry>, event: Recorded): void {
  const { seq, turn } = event;
  const entryOf = (id: string, tool = ''): CallEntry => {
    const entry = calls.get(id) ?? { id, turn, tool };
    calls.set(id, entry);
    return entry;
  };
  switch (event.type) {
    case 'assistant_message':
      for (const block of event.data.content) {
        if (block.type !== 'tool_call' || calls.has(block.id)) continue;
        const { id, name, arguments: given } = block;
        calls.set(id, { id, turn, reply: seq, tool: toolIn(name, given), ...actionIn(given) });
      }
      break;
    case 'tool_call': {
      const { call_id, tool, target, arguments: given } = event.data;
      const entry = entryOf(call_id, tool);
      Object.assign(entry, { tool, call: seq, ...actionIn(given) });
      if (target !== undefined) entry.target = target;
      // Made again, after a person was asked.
      delete entry.denied;
      break;
    }
    case 'permission_denied': {
      const { call_id, stage } = event.data;
      if (call_id === undefined) break;
      const entry = entryOf(call_id);
      entry.denied = seq;
      if (stage !== undefined) entry.stage = stage;
      break;
    }
    case 'tool_result': {
      const { call_id, is_error, tool } = event.data;
      const entry = entryOf(call_id, tool);
      [entry.result, entry.isError] = [seq, is_error];
      if (tool !== undefined) entry.tool = tool;
      break;
    }
    case 'approval': {
      const { data } = event;
      if (data.kind !== 'call' || data.action !== 'ask') break;
      const entry = entryOf(data.call_id);
      [entry.approval, entry.asked] = [data.approval, data.state];
      break;
    }
    default:
  }
}

/** A call in the form of the old fold. Fields that are absent are `undefined` here. */
const entryFrom = (call: Call): Partial<Record<keyof CallEntry, unknown>> => ({
  id: call.id,
  turn: call.turn,
  reply: call.reply,
  tool: call.tool,
  action: call.action,
  target: call.target,
  call: call.intents.at(-1),
  denied: deniedAt(call),
  result: call.result?.seq,
  isError: call.result?.isError,
  stage: call.denial?.stage,
  approval: call.approval?.id,
  asked: call.approval?.state,
});

test('the projection has the calls of the old fold', () => {
  let count = 0;
  const compare = (events: readonly Recorded[]): void => {
    const before = new Map<string, CallEntry>();
    for (const event of events) noteCalls(before, event);
    expect(listCalls(project(calls, events)).map(entryFrom)).toEqual([...before.values()]);
    count += before.size;
  };
  for (const events of recordedJournals().values()) compare(events);
  fc.assert(fc.property(arbitraryJournal, compare), { numRuns: runs(300) });
  expect(count).toBeGreaterThan(1000);
});
