// Threads that rest: what wakes them, and what those see who look on from another process.
import { expectSame } from '@kernmantle/test-support/expect-same';
import {
  eventsOf,
  got,
  hasOwnClock,
  openFleetStage,
  openWorker,
  statesIn,
} from '@kernmantle/test-support/fleet-stage';
import {
  call,
  directive,
  hook,
  READ,
  read,
  rows,
  type Stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test, vi } from 'vitest';
import { plainText, systemClock } from '../../src/base/index.ts';
import { JournalWriter } from '../../src/harness/thread/journal-writer.ts';
import type { ProgramTool } from '../../src/kernel/index.ts';

const ASKS = directive('look', {
  permissions: '<execute resource="tool" id="probe/write"/>',
  guards: '<guard on="op:tool:probe/write"><ask>may it?</ask></guard>',
});
const PLAY = { look: [{ tool_calls: [call('probe/write', { at: 'a' })] }, { text: 'over' }] };

function writer() {
  const done: string[] = [];
  const tool: ProgramTool = {
    id: 'probe/write',
    description: 'Leaves a mark',
    effect: 'write',
    parameters: { at: 'string' },
    run: ({ at = '' }) => (done.push(plainText(at)), { done: at }),
  };
  return { tools: [tool], done };
}

async function listed<T>(all: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const one of all) seen.push(one);
  return seen;
}

const decide = async ({ threads }: Pick<Stage, 'threads'>, thread: string) => {
  const [open] = got(await threads.store.approvals({ thread, state: 'pending' }));
  const answer = { decision: 'approved', who: 'ann', channel: 'library', why: '' } as const;
  got(await threads.store.decide(open?.id ?? '', answer));
};

const say = async (
  { threads }: Pick<Stage, 'threads'>,
  thread: string,
  kind: string,
  key: string,
) => got(await threads.store.signal({ thread, kind, payload: { content: key }, key, by: 'ann' }));

test('who waits for a person goes on with whoever takes it, when somebody has answered', async () => {
  const { tools, done } = writer();
  const made = await openFleetStage(ASKS, PLAY);
  const [first, second] = [await openWorker(made, { tools }), await openWorker(made, { tools })];
  const id = await made.queue('look');
  expect(await first.work()).toMatchObject({ status: 'waiting' });
  // Nobody has said anything: it is in no queue that is due.
  expect(await second.takeNow()).toEqual([]);
  await decide(made, id);
  expect(await second.work()).toMatchObject({ thread_id: id, status: 'completed', text: 'over' });
  expect(done).toEqual(['a']);
});

test.skipIf(!hasOwnClock())(
  'a question that nobody answered wakes the thread when it expires',
  async () => {
    const { tools, done } = writer();
    const made = await openFleetStage(ASKS, PLAY);
    const first = await openWorker(made, { tools });
    const id = await made.queue('look');
    expect(await first.work()).toMatchObject({ status: 'waiting' });
    const days = (count: number) => ({
      ...systemClock,
      now: () => Date.now() + count * 86_400_000,
    });
    const before = await openWorker(made, { tools, clock: days(6.9) });
    expect(await before.takeNow()).toEqual([]);
    const after = await openWorker(made, { tools, clock: days(7.1) });
    const result = await after.work();
    expect(result).toMatchObject({ thread_id: id, status: 'completed', text: 'over' });
    expect(done).toEqual([]);
    const results = (await eventsOf(made, id)).filter(({ type }) => type === 'tool_result');
    expect(results.at(-1)?.data).toMatchObject({ is_error: true });
  },
);

test('a pause holds whatever is said, until somebody resumes the thread', async () => {
  let paused = async (): Promise<unknown> => null;
  const made = await openFleetStage(directive('look', { permissions: READ }), {
    look: [async () => (await paused(), read('notes/a.txt')), { text: 'heard' }],
  });
  const worker = await openWorker(made);
  const id = await made.queue('look');
  paused = () => say(made, id, 'pause', 'p');
  expect(await worker.work()).toMatchObject({ status: 'paused' });
  expect(await worker.takeNow()).toEqual([]);
  await say(made, id, 'message', 'look closer');
  // It is taken, hears what was said and rests again; nobody is asked.
  expect(await worker.work()).toMatchObject({ thread_id: id, status: 'paused' });
  expect(made.provider.requests).toHaveLength(1);
  expect(await worker.takeNow()).toEqual([]);
  await say(made, id, 'resume', 'go on');
  expect(await worker.work()).toMatchObject({ thread_id: id, status: 'completed', text: 'heard' });
  const asked = JSON.stringify(made.provider.requests.at(-1)?.body);
  expect(asked).toContain('look closer');
  expect(asked).toContain('go on');
  expectSame(got(await worker.threads.replay(id)));
});

test('a hook that somebody queued is left to the thread that it serves', async () => {
  const files = {
    ...directive('look', {
      permissions: READ,
      hooks: hook('event.name == "after_step" and event.tool == "fs/read_file"', 'judge'),
    }),
    ...directive('judge', {
      outputs: '<action type="string" required="true">continue</action><context type="object"/>',
    }),
  };
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: open, resolve: letThrough } = Promise.withResolvers<void>();
  let asked = 0;
  const made = await openFleetStage(files, {
    look: [read('notes/a.txt'), { text: 'judged' }],
    judge: [
      async () => {
        asked += 1;
        begin();
        if (asked === 1) await open;
        return { text: '{"action":"continue"}' };
      },
    ],
  });
  const [first, second] = [await openWorker(made), await openWorker(made)];
  const id = await made.queue('look');
  const left = first.work();
  await begun;
  // Their process is taken for lost, and both are queued.
  const owner = { owner: 'sweeper', ttlMs: 30_000 };
  const all = await rows(made);
  expect(all.map(({ kind }) => kind)).toEqual(['thread', 'hook']);
  for (const { id: one } of all.toReversed()) {
    const claimed = got(await made.threads.store.claim(one, owner, { force: true }));
    got(await made.threads.store.release(claimed, { again: true }));
  }
  const ends = [await second.work(), await second.work()];
  letThrough();
  expect(ends.find(({ thread_id }) => thread_id === id)).toMatchObject({ status: 'completed' });
  expect(ends.find(({ thread_id }) => thread_id !== id)).toMatchObject({ status: 'running' });
  expect(await second.takeNow()).toEqual([]);
  expect((await rows(made)).map(({ status }) => status)).toEqual(['completed', 'completed']);
  expect(await left).toMatchObject({ status: 'interrupted' });
});

test('an end that is asked for before anybody took the thread is obeyed by who takes it', async () => {
  const made = await openFleetStage(directive('look'), { look: [{ text: 'never' }] });
  const worker = await openWorker(made);
  const id = await made.queue('look');
  await say(made, id, 'terminate', 't');
  expect(await worker.work()).toMatchObject({ thread_id: id, status: 'terminated' });
  expect(made.provider.requests).toHaveLength(0);
});

test('whoever follows a thread sees every event once, and how it ended', async () => {
  const made = await openFleetStage(directive('look', { permissions: READ }), {
    look: [read('notes/a.txt'), { text: 'seen' }],
  });
  const worker = await openWorker(made);
  const id = await made.queue('look');
  const followed = made.threads.follow(id, new AbortController().signal);
  const looking = listed(followed);
  await worker.work();
  const result = got(await followed.result);
  expect(result).toMatchObject({ thread_id: id, status: 'completed', text: 'seen' });
  const seen = await looking;
  expect(seen).toEqual(await eventsOf(made, id));
  // What has ended is told at once, also to who comes late or wants the end of it alone.
  const late = made.threads.follow(id, new AbortController().signal, seen.length - 2);
  expect(await listed(late)).toEqual(seen.slice(-2));
  expect(got(await late.result)).toEqual(result);
  const after = made.threads.follow(id, new AbortController().signal, seen.length);
  expect(await listed(after)).toEqual([]);
});

test('whoever follows a thread hears where it rests, and from there on how it goes on', async () => {
  const { tools } = writer();
  const made = await openFleetStage(ASKS, PLAY);
  const worker = await openWorker(made, { tools });
  const id = await made.queue('look');
  const never = new AbortController().signal;
  const first = made.threads.follow(id, never);
  const looking = listed(first);
  await worker.work();
  expect(got(await first.result)).toMatchObject({ status: 'waiting', reason: 'Call probe/write?' });
  const events = await looking;
  expect(statesIn(events).at(-1)).toBe('waiting');
  const last = events.at(-1)?.seq ?? 0;
  // From there on it has not rested again.
  const second = made.threads.follow(id, never, last);
  const more = listed(second);
  await decide(made, id);
  await worker.work();
  expect(got(await second.result)).toMatchObject({ status: 'completed' });
  expect([...events, ...(await more)]).toEqual(await eventsOf(made, id));
});

test('who does not want to follow any more is told so', async () => {
  const made = await openFleetStage(directive('look'), { look: [{ text: 'never' }] });
  const id = await made.queue('look');
  const controller = new AbortController();
  const followed = made.threads.follow(id, controller.signal);
  const seen: string[] = [];
  const looking = (async () => {
    for await (const { type } of followed) seen.push(type);
  })();
  await expect.poll(() => seen).toContain('signal');
  controller.abort();
  expect(await followed.result).toMatchObject({ ok: false, error: { code: 'cancelled' } });
  await looking;
  const unknown = made.threads.follow('nobody', new AbortController().signal);
  expect(await unknown.result).toMatchObject({ ok: false, error: { code: 'not_found' } });
  expect(await listed(unknown)).toEqual([]);
});

test('a thread whose lease ran out here while the registry kept it is taken up again', async () => {
  let late = (): unknown => null;
  const made = await openFleetStage(directive('look', { permissions: READ }), {
    look: [() => (late(), read('notes/a.txt')), { text: 'over' }],
  });
  const [first, second] = [await openWorker(made), await openWorker(made)];
  const id = await made.queue('look');
  // The process counts its lease as over, as after a long stop; the registry has not noticed.
  const held = vi.spyOn(JournalWriter.prototype, 'hasLease');
  late = () => held.mockReturnValue(false);
  expect(await first.work()).toMatchObject({ thread_id: id, status: 'interrupted' });
  held.mockRestore();
  expect(await second.work()).toMatchObject({ thread_id: id, status: 'completed', text: 'over' });
});
