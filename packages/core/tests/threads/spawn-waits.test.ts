// Children that wait for a person or are paused: their run goes on when the answer comes from elsewhere, and
// none of them outlives its parent. What they used is part of the cost of their parent.
import { expectSame } from '@kernmantle/test-support/expect-same';
import { isLate } from '@kernmantle/test-support/late-store';
import {
  call,
  directive,
  openStage,
  type Parts,
  type Play,
  rows,
  run,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { fail, getOwn, ok } from '../../src/base/index.ts';
import type { RuntimeOptions } from '../../src/runtime/index.ts';
import { endThread } from '../../src/runtime/thread-signals.ts';
import { isEnded, openSqliteStore, type Store } from '../../src/store/index.ts';

const ASK = '<guard on="op:tool:fs/write_file"><ask>may it?</ask></guard>';
const WRITES: Parts = {
  permissions:
    '<write resource="filesystem" path="out/**"/><execute resource="tool" id="fs/write_file"/><orchestration enabled="true"/>',
};
const WRITE = { tool_calls: [call('fs/write_file', { path: 'out/a.txt', content: 'a' })] };
const DONE = { text: 'done' };
const START = { tool_calls: [spawn('kid')] };

const open = (lead: Parts, play: Play, options: Partial<RuntimeOptions> = {}): Promise<Stage> =>
  openStage(
    {
      ...directive('lead', { ...WRITES, ...lead }),
      ...directive('middle', WRITES),
      ...directive('kid', { ...WRITES, guards: ASK }),
    },
    play,
    options,
  );

/** The registry as another process has it. */
async function elsewhere({ fixture }: Stage): Promise<{ store: Store; close(): Promise<void> }> {
  const runtime = await fixture.open();
  const threads = await runtime.threads();
  if (!threads.ok) throw new Error(threads.error.detail.message);
  return { store: threads.output.store, close: () => runtime.close() };
}

const rowOf = async (made: Stage, name: string) =>
  (await rows(made)).find(({ directive: one }) => one === name);

async function answer(made: Stage, decision: 'approved' | 'denied'): Promise<void> {
  await expect.poll(async () => (await rowOf(made, 'kid'))?.status).toBe('waiting');
  const other = await elsewhere(made);
  const open = await other.store.approvals({ state: 'pending' });
  for (const { id } of open.ok ? open.output : []) {
    await other.store.decide(id, { decision, who: 'ann', channel: 'cli', why: 'so' });
  }
  await other.close();
}

const tokensOf = async (made: Stage, id: string): Promise<number> => {
  const row = await made.threads.store.thread(id);
  return row.ok ? Number(row.output.cost.tokens) : 0;
};
/** What a thread has paid for itself: replies, and requests that were called off. */
async function ownTokens(made: Stage, id: string): Promise<number> {
  const events = await made.threads.store.read(id);
  return (events.ok ? events.output : []).reduce(
    (sum, { data }) => sum + Number(getOwn(data.usage ?? data.charged, 'tokens') ?? 0),
    0,
  );
}

async function expectWhole(made: Stage, lead: string): Promise<void> {
  const all = await rows(made);
  expect(all.filter(({ status }) => !isEnded(status))).toEqual([]);
  const sums = await Promise.all(all.map(({ id }) => ownTokens(made, id)));
  expect(await tokensOf(made, lead)).toBe(sums.reduce((a, b) => a + b, 0));
  for (const { id, parent } of all) {
    if (parent === undefined) continue;
    const events = await made.threads.store.read(parent);
    const ends = (events.ok ? events.output : []).filter(
      ({ type, data }) => type === 'child_end' && data.thread_id === id,
    );
    expect(ends).toHaveLength(1);
  }
  for (const { id } of all) expectSame(await made.threads.replay(id));
}

// Another process needs the registry's file.
const other = test.skipIf(isLate);

const ANSWERED: readonly (readonly [string, Play[string], 'approved' | 'denied'])[] = [
  ['waits for it', [START, DONE], 'approved'],
  ['works on', [START, { ...WRITE, delay_ms: 50 }, { ...DONE, delay_ms: 300 }], 'approved'],
  ['waits for it', [START, DONE], 'denied'],
  ['waits for a child of it', [{ tool_calls: [spawn('middle')] }, DONE], 'approved'],
];
other.each(ANSWERED)(
  'a parent that %s goes on when its child is answered elsewhere',
  async (_, lead, decision) => {
    const made = await open({}, { lead, middle: [START, DONE], kid: [WRITE, DONE] });
    const done = run(made, 'lead');
    await answer(made, decision);
    const { status, thread_id } = await done;
    expect([status, (await rowOf(made, 'kid'))?.status]).toEqual(['completed', 'completed']);
    await expectWhole(made, thread_id);
  },
);

const FAILS = { fault: { status: 400, error: { message: 'no' } } };
const ENDS: readonly (readonly [string, string, Parts, Play[string]])[] = [
  ['limit', 'kid', { limits: '<turns>2</turns>' }, [START, WRITE, DONE]],
  ['failed', 'kid', {}, [START, FAILS]],
  ['failed', 'middle', {}, [START, FAILS]],
  ['terminated', 'kid', {}, [START, DONE]],
  ['killed', 'kid', {}, [START, DONE]],
  ['terminated', 'middle', {}, [START, DONE]],
];

other.each(ENDS)(
  'no child waits when its parent has ended: %s, %s',
  async (end, below, parts, says) => {
    const first = { tool_calls: [spawn(below)] };
    /** The parent says no more before its child waits. */
    const later = says.slice(1).map((say) => async () => {
      await expect.poll(async () => (await rowOf(made, 'kid'))?.status).toBe('waiting');
      return say as typeof DONE;
    });
    const made: Stage = await open(parts, {
      lead: [first, ...later],
      middle: [START, DONE],
      kid: [WRITE, DONE],
    });
    const done = run(made, 'lead');
    if (end === 'terminated' || end === 'killed') {
      await expect.poll(async () => (await rowOf(made, 'kid'))?.status).toBe('waiting');
      const there = await elsewhere(made);
      const thread = (await rowOf(made, 'lead'))?.id ?? '';
      const kind = end === 'killed' ? 'kill' : 'terminate';
      await there.store.signal({ thread, kind, payload: {}, key: 'k', by: 'ann' });
      await done;
      await there.close();
    }
    const { status, thread_id } = await done;
    expect(status).toBe(end);
    await expectWhole(made, thread_id);
  },
);

other.each(['kid', 'middle'])(
  'a tree that rests is ended elsewhere with its whole cost: %s',
  async (below) => {
    const made = await open(
      { guards: ASK },
      {
        lead: [{ tool_calls: [spawn(below)] }, WRITE, DONE],
        middle: [START, DONE],
        kid: [WRITE, DONE],
      },
    );
    const { status, thread_id } = await run(made, 'lead');
    expect(status).toBe('waiting');
    await expect.poll(async () => (await rowOf(made, 'kid'))?.status).toBe('waiting');
    const middle = await rowOf(made, 'middle');
    if (middle) {
      const word = { kind: 'pause', payload: {}, key: 'p', by: 'ann' };
      await made.threads.store.signal({ thread: middle.id, ...word });
      await expect.poll(async () => (await rowOf(made, 'middle'))?.status).toBe('paused');
    }
    const there = await elsewhere(made);
    const told = await endThread(there.store, thread_id, 'terminate', {
      who: 'ann',
      channel: 'cli',
    });
    expect(told).toMatchObject({ ok: true });
    await there.close();
    await expectWhole(made, thread_id);
  },
);

test('a parent whose children cannot be read is interrupted, and goes on when they can be', async () => {
  let isBroken = true;
  const openStore: RuntimeOptions['openStore'] = async (options) => {
    const opened = await openSqliteStore(options);
    if (!opened.ok) return opened;
    const query: Store['query'] = async (filter = {}) =>
      isBroken && filter.parent !== undefined
        ? fail('store_failed', 'the disk is gone')
        : await opened.output.query(filter);
    return ok({ ...opened.output, query });
  };
  const made = await open({}, { lead: [START, DONE], kid: [DONE] }, { openStore });
  const left = await run(made, 'lead');
  expect(left).toMatchObject({
    status: 'interrupted',
    reason: 'its children cannot be read: the disk is gone',
  });
  isBroken = false;
  const done = await made.threads.resume(left.thread_id);
  expect(done).toMatchObject({ output: { status: 'completed', cost: { spawns: 1 } } });
  expect((await rowOf(made, 'kid'))?.status).toBe('completed');
  const kid = await ownTokens(made, (await rowOf(made, 'kid'))?.id ?? '');
  expect(kid).toBeGreaterThan(0);
  expect(await tokensOf(made, left.thread_id)).toBe(kid + (await ownTokens(made, left.thread_id)));
});

test('a parent that is stopped hears of it before its children end', async () => {
  const made = await open({}, { lead: [START, DONE], kid: [WRITE, DONE] });
  const running = run(made, 'lead');
  await expect.poll(async () => (await rowOf(made, 'kid'))?.status).toBe('waiting');
  const lead = (await rowOf(made, 'lead'))?.id ?? '';
  const { store, close } = await elsewhere(made);
  const isOver = async (name: string) => isEnded((await rowOf(made, name))?.status ?? 'running');
  const signal: Store['signal'] = async (...given) => {
    // A parent that learns of its child's end first goes on without it.
    if (given[0].thread === lead && (await isOver('kid')))
      await expect.poll(() => isOver('lead')).toBe(true);
    return await store.signal(...given);
  };
  await endThread({ ...store, signal }, lead, 'terminate', { who: 'ann', channel: 'cli' });
  expect((await running).status).toBe('terminated');
  expect((await rowOf(made, 'kid'))?.status).toBe('terminated');
  await close();
});
