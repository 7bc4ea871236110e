// Threads that are queued in one process and run in others, which are killed or told to go at any moment.
import {
  endLives,
  kill,
  type Life,
  openRegistry,
  rowsOf,
  workOn,
} from '@kernmantle/test-support/crash-driver';
import {
  type CrashStage,
  crashStage,
  EXPECTED,
  linesOf,
} from '@kernmantle/test-support/crash-project';
import { eventsOf, got } from '@kernmantle/test-support/fleet-stage';
import { isLate } from '@kernmantle/test-support/late-store';
import { ofToday, timeoutMs } from '@kernmantle/test-support/soak';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import type { Threads } from '../../src/runtime/index.ts';

afterEach(endLives);
vi.setConfig({ testTimeout: timeoutMs(120_000) });

/** A project, and a lead that waits in its queue. */
async function queued() {
  const made = await crashStage();
  const runtime = await made.fixture.open();
  const threads = got(await runtime.threads());
  const { thread: id } = got(await threads.enqueue({ directive: 'lead', inputs: { tag: 'r0' } }));
  onTestFinished(async () => {
    await runtime.close();
    await made.provider.close();
    made.fixture.remove();
  });
  return { made, threads, id };
}

const places = (made: CrashStage, name: string): string[] =>
  linesOf(made, name)
    .map((line) => line.split(' ')[0] ?? '')
    .toSorted();

/** Until each has said its last word, whoever ran it. */
async function untilDone({ store }: Pick<Threads, 'store'>, ids: readonly string[]): Promise<void> {
  const over = new AbortController();
  const moved = store.changes({ threads: ids }, over.signal)[Symbol.asyncIterator]();
  for (;;) {
    const next = moved.next();
    const rows = await Promise.all(ids.map((id) => store.thread(id)));
    if (rows.every((row) => row.ok && row.output.status === 'completed')) break;
    await next;
  }
  over.abort();
}

/** Every thread has ended, and no journal has a gap. */
async function expectWhole(made: CrashStage, id: string): Promise<void> {
  const store = await openRegistry(made);
  try {
    const rows = await rowsOf(store);
    const threads = rows.filter(({ kind }) => kind === 'thread');
    expect(threads.map(({ status }) => status)).toEqual(threads.map(() => 'completed'));
    expect(threads).toHaveLength(1 + EXPECTED.children);
    for (const row of rows) {
      const events = await eventsOf({ threads: { store } }, row.id);
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1));
    }
    const lead = rows.find((row) => row.id === id);
    expect(lead?.cost).toMatchObject({ spawns: EXPECTED.children });
    const ends = (await eventsOf({ threads: { store } }, id)).filter(
      ({ type }) => type === 'child_end',
    );
    expect(new Set(ends.map(({ data }) => data.thread_id)).size).toBe(EXPECTED.children);
    expect(ends).toHaveLength(EXPECTED.children);
  } finally {
    await store.close();
  }
}

const MOMENTS = [
  'take',
  'lead status 1',
  'lead spawn 1',
  'part hook_start 1',
  'part tool_call 3',
  'lead child_end 1',
  'lead assistant_message 7',
] as const;

async function isLostAt(moment: string): Promise<void> {
  const { made, threads, id } = await queued();
  const first = workOn(made, moment);
  await first.over;
  expect(first.child.signalCode).toBe('SIGKILL');
  workOn(made);
  await untilDone(threads, [id]);
  const writes = places(made, 'write');
  expect(writes).toEqual([...new Set(writes)]);
  await expectWhole(made, id);
}

/** Tells it to go as soon as it has said this so often, and waits until it has. */
async function goAt(life: Life, start: string, count = 1): Promise<void> {
  await life.said(start, count);
  life.child.kill('SIGTERM');
  await life.over;
  expect(life.lines.at(-1)).toBe('gone');
}

async function areToldToGo(): Promise<void> {
  const { made, threads, id } = await queued();
  // In the middle of a write, and wherever it is after so many events.
  await goAt(workOn(made), 'tool write');
  for (const events of [3, 12, 25, 40]) await goAt(workOn(made), 'event', events);
  const last = workOn(made);
  await last.said(`done ${id}`);
  expect(last.lines).toContain(`done ${id} completed`);
  // Each tool was called once at every place, and each answer asked for once.
  for (const name of ['look', 'put', 'write']) {
    expect(places(made, name)).toEqual(EXPECTED.places('r0').toSorted());
  }
  const parts = EXPECTED.children * EXPECTED.part.turns;
  const judged = EXPECTED.children * 2;
  expect(made.provider.requests).toHaveLength(EXPECTED.lead.turns + parts + judged);
  expect(got(await threads.store.thread(id)).cost).toMatchObject(EXPECTED.lead);
  await expectWhole(made, id);
  await kill(last);
  for (const { id: thread } of await rowsOf(threads.store)) {
    const text = JSON.stringify(await eventsOf({ threads }, thread));
    expect(text).not.toContain('outcome_unknown');
  }
}

async function share(): Promise<void> {
  const { made, threads, id } = await queued();
  const all = [id];
  for (const tag of ['r1', 'r2']) {
    all.push(got(await threads.enqueue({ directive: 'lead', inputs: { tag } })).thread);
  }
  const lives = [workOn(made), workOn(made), workOn(made)];
  const busy = lives.map((life) => life.said('tool write').then(() => life));
  const first = await Promise.race(busy);
  await goAt(first, 'tool write');
  await kill(await Promise.race(busy.filter((_, at) => lives[at] !== first)));
  await untilDone(threads, all);
  const writes = places(made, 'write');
  expect(writes).toEqual([...new Set(writes)]);
}

const CASES: readonly (readonly [title: string, check: () => Promise<void>])[] = [
  ...MOMENTS.map(
    (moment) =>
      [`a process that is lost at \`${moment}\` repeats no write`, () => isLostAt(moment)] as const,
  ),
  ['processes that are told to go repeat nothing and lose nothing', areToldToGo],
  ['three processes share what is queued; one goes and one is lost', share],
];

for (const [title, check] of ofToday(CASES, 3)) test.skipIf(isLate)(title, check);
