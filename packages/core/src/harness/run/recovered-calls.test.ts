// The old folds of recovery, for one commit: the projection of calls agrees with them over all journals.
import { arbitraryJournal, recordedJournals } from '@kernmantle/test-support/journals';
import { runs } from '@kernmantle/test-support/soak';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Recorded, type RecordedOf, readCalls } from '../../journal/index.ts';
import { stepsIn } from '../script-thread/recorded-steps.ts';
import { lastSpoken, unfinishedCalls } from '../step/call-intent.ts';
import { resultIn } from '../thread/recorded-answers.ts';
import { eventsInForce } from '../thread/restore.ts';

type Intent = RecordedOf<'tool_call'>;

function oldUnfinished(history: readonly Recorded[]): Map<string, Intent[]> {
  const left = new Map<string, Intent[]>();
  for (const event of history.slice(lastSpoken(history) + 1)) {
    if (event.type === 'tool_call') {
      const id = event.data.call_id;
      left.set(id, [...(left.get(id) ?? []), event]);
    } else if (event.type === 'tool_result') left.delete(event.data.call_id);
  }
  return left;
}

function oldWaiting(history: readonly Recorded[]): ReadonlySet<string> {
  const waiting = new Set<string>();
  for (const { type, data } of history) {
    if (type !== 'approval' || data.kind !== 'call' || data.action !== 'ask') continue;
    if (data.state === 'pending') waiting.add(data.call_id);
    else if (data.state === 'used') waiting.delete(data.call_id);
  }
  return waiting;
}

function oldSteps(history: readonly Recorded[]): unknown[] {
  const steps = new Map<
    string,
    { call: string; intent: object; waits: boolean; result?: object }
  >();
  const waiting = oldWaiting(history);
  for (const { type, data } of history) {
    if (type !== 'tool_call' && type !== 'tool_result') continue;
    const call = data.call_id;
    if (!call.startsWith('step_')) continue;
    const step = steps.get(call);
    if (type === 'tool_call') steps.set(call, { call, intent: data, waits: waiting.has(call) });
    else if (step) step.result = resultIn(data);
  }
  return [...steps.values()];
}

const count = { open: 0, waiting: 0, steps: 0 };

async function agree(whole: readonly Recorded[], end: number): Promise<void> {
  const history = eventsInForce(whole.slice(0, end));
  const open = unfinishedCalls(history).map(({ call, intent, result }) => [
    call.id,
    call.intents.filter((seq) => seq > (result?.seq ?? 0)),
    intent.seq,
  ]);
  const old = [...oldUnfinished(history)].map(([id, intents]) => [
    id,
    intents.map(({ seq }) => seq),
    intents.at(-1)?.seq,
  ]);
  const byId = (a: unknown[], b: unknown[]) => (String(a[0]) < String(b[0]) ? -1 : 1);
  expect(open.toSorted(byId)).toEqual(old.toSorted(byId));
  const waits = [...readCalls(history).values()].flatMap(({ call }) =>
    call.approval?.waits ? [call.id] : [],
  );
  expect(new Set(waits)).toEqual(oldWaiting(history));
  const steps = [...(await stepsIn(history, (content) => content)).values()];
  expect(steps).toEqual(oldSteps(history));
  count.open += open.length;
  count.waiting += waits.length;
  count.steps += steps.length;
}

const renamed = (events: readonly Recorded[]): Recorded[] =>
  JSON.parse(JSON.stringify(events).replaceAll('"call_id":"c', '"call_id":"step_c')) as Recorded[];

test('open calls, calls that wait and steps of scripts are those of the old folds', async () => {
  for (const events of recordedJournals().values()) {
    for (let end = 1; end <= events.length; end++) await agree(events, end);
  }
  await fc.assert(
    fc.asyncProperty(arbitraryJournal, fc.nat(), async (events, at) => {
      await agree(events, events.length);
      await agree(renamed(events), at % (events.length + 1));
    }),
    { numRuns: runs(1000) },
  );
  for (const some of Object.values(count)) expect(some).toBeGreaterThan(100);
}, 120_000);
