// The old folds of recovery, for one commit: the projection of open work agrees with them over all journals.
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { plainText } from '../../base/index.ts';
import {
  eventFlags,
  madeCalls,
  openWork,
  PASSED_HOOK,
  project,
  type Recorded,
} from '../../journal/index.ts';
import { lastSpoken } from '../step/call-intent.ts';
import { eventsInForce } from '../thread/restore.ts';

const unfinishedCalls = (history: readonly Recorded[]) =>
  madeCalls(history.slice(lastSpoken(history) + 1)).filter(
    ({ intent, result }) => !result || result.seq < intent.seq,
  );

function oldRestored(history: readonly Recorded[]) {
  const pending = new Map<string, unknown>();
  const escalated = new Map<string, unknown>();
  const kept = new Set(eventsInForce(history));
  for (const event of history) {
    const { type, data } = event;
    if (!kept.has(event) && !eventFlags(type).survivesRewind) continue;
    if (type === 'hook_start' && data.step !== undefined) pending.set(data.thread_id, data);
    if (type === 'hook' && data.thread_id !== undefined) pending.delete(data.thread_id);
    if (type === 'error' && PASSED_HOOK.has(data.code)) {
      pending.delete(plainText(data.detail.thread ?? ''));
    }
    if (type === 'tool_result') {
      for (const [id, start] of pending)
        if ((start as { call_id?: string }).call_id === data.call_id) pending.delete(id);
      escalated.delete(data.call_id);
    }
    if (type === 'approval' && data.kind === 'question' && data.held !== undefined) {
      const { approval, held, marks, call_id } = data;
      if (call_id !== undefined)
        escalated.set(call_id, { approval, held, ...(marks && { marks }) });
    }
  }
  return { pending, escalated };
}

const isBrokenOff = ({ type, data }: Recorded): boolean =>
  type === 'error' ||
  (type === 'stream_error' && data.code !== undefined) ||
  (type === 'turn_end' && 'failed' in data);

/** The number of the turn that recovery gives back. */
function oldUnanswered(history: readonly Recorded[]): number | undefined {
  const at = history.findLastIndex(({ type }) => type === 'turn_start');
  const asked = history[at];
  if (asked?.type !== 'turn_start') return undefined;
  const since = history
    .slice(at + 1)
    .filter(({ type }) => !['calls', undefined].includes(eventFlags(type).turn));
  return since.every(isBrokenOff) ? asked.turn : undefined;
}

const count = { calls: 0, waiting: 0, hooks: 0, escalated: 0, unanswered: 0, children: 0 };

function agree(whole: readonly Recorded[], end: number): void {
  const history = whole.slice(0, end);
  const inForce = eventsInForce(history);
  const work = project(openWork, history);
  const open = [...work.calls.values()].map(({ id, intent, since }) => [id, intent, since]);
  const unfinished = unfinishedCalls(inForce);
  const old = unfinished.map(({ call, intent, result }) => [
    call.id,
    intent,
    call.intents.find((seq) => seq > (result?.seq ?? 0)),
  ]);
  const byId = (a: unknown[], b: unknown[]) => (String(a[0]) < String(b[0]) ? -1 : 1);
  expect(open.toSorted(byId)).toEqual(old.toSorted(byId));
  const waiting = unfinished.filter(({ call }) => call.approval?.waits).map(({ call }) => call.id);
  expect([...work.calls.keys()].filter((id) => work.asked.has(id)).toSorted()).toEqual(
    waiting.toSorted(),
  );
  const { pending, escalated } = oldRestored(history);
  expect([...work.hooks]).toEqual([...pending]);
  expect([...work.approvals]).toEqual([...escalated]);
  const { lastRequest } = work;
  expect(lastRequest?.isAnswered === false ? lastRequest.turn : undefined).toBe(
    oldUnanswered(history),
  );
  const turns = history.flatMap(({ type, turn }) => (type === 'turn_start' ? [turn] : []));
  const { turn = 0 } = history.at(-1) ?? {};
  expect(lastRequest?.turn === turn).toBe(turns.includes(turn));
  const idsIn = (wanted: string) =>
    history.flatMap(({ type, data }) =>
      (type === 'spawn' || type === 'child_end') && type === wanted ? [data.thread_id] : [],
    );
  const ended = new Set(idsIn('child_end'));
  expect(work.children).toEqual(new Set(idsIn('spawn').filter((id) => !ended.has(id))));
  count.calls += open.length;
  count.waiting += waiting.length;
  count.hooks += pending.size;
  count.escalated += escalated.size;
  count.unanswered += lastRequest?.isAnswered === false ? 1 : 0;
  count.children += work.children.size;
}

/** Replies that hooks can withhold, hooks of calls, and calls that failed too often. */
function harder(events: readonly Recorded[]): Recorded[] {
  let call = '';
  return events.map((event): Recorded => {
    const { type, data } = event;
    if (type === 'tool_call') call = data.call_id;
    if (type === 'assistant_message' && !data.injected && event.seq % 2 === 0) {
      return { ...event, type, data: { ...data, open: true } };
    }
    if (type === 'turn_end' && event.seq % 5 === 0) {
      return { ...event, type, data: { withheld: true } };
    }
    if (type === 'hook_start') return { ...event, type, data: { ...data, call_id: call } };
    if (type !== 'permission_denied' || event.seq % 3 === 0) return event;
    const question = { kind: 'question', state: 'pending', approval: 'a', action: 'x' } as const;
    return { ...event, type: 'approval', data: { ...question, call_id: call, held: call } };
  });
}

test('open work is that of the old folds', () => {
  for (const events of recordedJournals().values()) {
    for (let end = 1; end <= events.length; end += 1 + (events.length >> 6)) agree(events, end);
  }
  fc.assert(
    fc.property(arbitraryJournal, fc.nat(), (events, at) => {
      agree(events, events.length);
      agree(harder(events), events.length);
      agree(harder(events), at % (events.length + 1));
    }),
    { numRuns: runs(1000) },
  );
  for (const [name, some] of Object.entries(count)) expect(some, name).toBeGreaterThan(20);
}, 240_000);
