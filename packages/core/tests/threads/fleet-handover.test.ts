// A process that goes hands its threads over: each ends its step and somebody else goes on where it stood.
// Nothing is done twice, nothing counts as failed, and what was said meanwhile is heard.
import { expectSame } from '@kernmantle/test-support/expect-same';
import {
  eventsOf,
  type FleetStage,
  got,
  isOnServer,
  openFleetStage,
  openWorker,
  statesIn,
} from '@kernmantle/test-support/fleet-stage';
import { timeoutMs } from '@kernmantle/test-support/soak';
import {
  call,
  directive,
  hook,
  READ,
  read,
  rows,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { plainText } from '../../src/base/index.ts';
import type { ProgramTool } from '../../src/kernel/index.ts';

/** Something that is under way until it is let through. */
function gate() {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: open, resolve: letThrough } = Promise.withResolvers<void>();
  let entered = 0;
  return {
    begun,
    letThrough,
    entered: () => entered,
    async pass<T>(value: T): Promise<T> {
      entered += 1;
      begin();
      await open;
      return value;
    },
  };
}

/** A tool that writes, and how often it did. */
function writer(work: (at: string) => Promise<unknown> = async () => {}) {
  const done: string[] = [];
  const tool: ProgramTool = {
    id: 'probe/write',
    description: 'Leaves a mark',
    effect: 'write',
    parameters: { at: 'string' },
    async run({ at = '' }) {
      done.push(plainText(at));
      await work(plainText(at));
      return { done: at };
    },
  };
  return { tool, done };
}
const WRITE = '<execute resource="tool" id="probe/write"/>';
const write = (at: string) => ({ tool_calls: [call('probe/write', { at })] });

const countOf = async (made: FleetStage, id: string, type: string): Promise<number> =>
  (await eventsOf(made, id)).filter((event) => event.type === type).length;

test('a model request under way is finished, kept, and not sent again', async () => {
  const under = gate();
  const made = await openFleetStage(directive('look', { permissions: READ }), {
    look: [() => under.pass(read('notes/a.txt')), { text: 'seen' }],
  });
  const [first, second] = [await openWorker(made), await openWorker(made)];
  const id = await made.queue('look');
  const left = first.work();
  await under.begun;
  const gone = first.threads.requeueAll();
  under.letThrough();
  expect(await left).toMatchObject({ status: 'interrupted' });
  await gone;
  expect(first.threads.atWork()).toEqual([]);
  const row = got(await made.threads.store.thread(id));
  expect(row).toMatchObject({ status: 'interrupted' });
  expect(row.owner).toBeUndefined();
  expect(await second.work()).toMatchObject({
    thread_id: id,
    status: 'completed',
    text: 'seen',
    cost: { turns: 2, tool_calls: 1 },
  });
  expect(made.provider.requests).toHaveLength(2);
  expect(await countOf(made, id, 'error')).toBe(0);
  expect(statesIn(await eventsOf(made, id))).toEqual([
    'spawning',
    'running',
    'interrupted',
    'running',
    'completed',
  ]);
  expectSame(got(await second.threads.replay(id)));
});

test('the last word of a model is its last word, also in a process that goes', async () => {
  const under = gate();
  const made = await openFleetStage(directive('look'), {
    look: [() => under.pass({ text: 'all there is' })],
  });
  const worker = await openWorker(made);
  await made.queue('look');
  const left = worker.work();
  await under.begun;
  const gone = worker.threads.requeueAll();
  under.letThrough();
  expect(await left).toMatchObject({ status: 'completed', text: 'all there is' });
  await gone;
  expect(await worker.takeNow()).toEqual([]);
});

test('a call that writes is finished and its result is kept', async () => {
  const under = gate();
  const { tool, done } = writer(() => under.pass(null));
  const made = await openFleetStage(directive('look', { permissions: WRITE }), {
    look: [
      { tool_calls: [call('probe/write', { at: 'a' }), call('probe/write', { at: 'b' })] },
      { text: 'written' },
    ],
  });
  const options = { tools: [tool] };
  const [first, second] = [await openWorker(made, options), await openWorker(made, options)];
  const id = await made.queue('look');
  const left = first.work();
  await under.begun;
  const gone = first.threads.requeueAll();
  under.letThrough();
  expect(await left).toMatchObject({ status: 'interrupted' });
  await gone;
  // The second call of the same reply had not begun: whoever goes on makes it.
  expect(done).toEqual(['a']);
  expect(await second.work()).toMatchObject({ status: 'completed', cost: { tool_calls: 2 } });
  expect(done).toEqual(['a', 'b']);
  const results = (await eventsOf(made, id)).filter(({ type }) => type === 'tool_result');
  expect(results.every(({ data }) => data.is_error === false)).toBe(true);
});

test('a hook that is asked is handed over with the thread that it serves', async () => {
  const under = gate();
  const { tool, done } = writer();
  const files = {
    ...directive('look', {
      permissions: WRITE,
      hooks: hook('event.name == "after_step" and event.tool == "probe/write"', 'judge'),
    }),
    ...directive('judge', {
      permissions: WRITE,
      outputs: '<action type="string" required="true">continue</action><context type="object"/>',
    }),
  };
  const made = await openFleetStage(files, {
    look: [write('a'), { text: 'judged' }],
    judge: [() => under.pass(write('hook')), { text: '{"action":"continue"}' }],
  });
  const options = { tools: [tool] };
  const [first, second] = [await openWorker(made, options), await openWorker(made, options)];
  const id = await made.queue('look');
  const left = first.work();
  await under.begun;
  const gone = first.threads.requeueAll();
  under.letThrough();
  expect(await left).toMatchObject({ status: 'interrupted' });
  await gone;
  expect((await rows(made)).map(({ kind, status }) => [kind, status])).toEqual([
    ['thread', 'interrupted'],
    ['hook', 'interrupted'],
  ]);
  // The hook itself is in no queue: it goes on with its thread.
  expect(await second.work()).toMatchObject({
    thread_id: id,
    status: 'completed',
    text: 'judged',
    cost: { turns: 2, hooks: { turns: 2 } },
  });
  expect(await second.takeNow()).toEqual([]);
  expect(done).toEqual(['a', 'hook']);
  expect(made.provider.requests).toHaveLength(4);
  expect(await countOf(made, id, 'hook_start')).toBe(1);
});

for (const how of ['a wait', 'a spawn that waits', 'the end'] as const) {
  test(`children go along: their parent is at ${how}`, async () => {
    const under = gate();
    const { tool, done } = writer((at) => under.pass(at));
    const lead = {
      'a wait': [
        { tool_calls: [spawn('part')] },
        ({ body }: { body: unknown }) => ({
          tool_calls: [
            call('threads/wait_thread', {
              thread_id: /thread_id[\\"]+:[\\"]+([\w-]+)/.exec(JSON.stringify(body))?.[1] ?? '',
              timeout_ms: 60_000,
            }),
          ],
        }),
      ],
      'a spawn that waits': [{ tool_calls: [spawn('part', { wait_ms: 60_000 })] }],
      'the end': [{ tool_calls: [spawn('part')] }],
    }[how];
    const files = {
      ...directive('lead', { permissions: `${WRITE}<orchestration enabled="true"/>` }),
      ...directive('part', { permissions: WRITE }),
    };
    const made = await openFleetStage(files, {
      lead: [...lead, { text: 'led' }],
      part: [write('a'), write('b'), { text: 'part done' }],
    });
    const options = { tools: [tool] };
    const [first, second] = [await openWorker(made, options), await openWorker(made, options)];
    const id = await made.queue('lead');
    const left = first.work();
    await under.begun;
    // Where it waits for its child's end it has said its last word.
    const turns = how === 'a spawn that waits' ? 1 : 2;
    const spoken = () => countOf(made, id, 'assistant_message');
    await expect.poll(spoken).toBe(turns + 1);
    const gone = first.threads.requeueAll();
    under.letThrough();
    expect(await left).toMatchObject({ thread_id: id, status: 'interrupted' });
    await gone;
    expect(first.threads.atWork()).toEqual([]);
    const states = (await rows(made)).map(({ status }) => status);
    expect(states).toEqual(['interrupted', 'interrupted']);
    expect(done).toEqual(['a']);
    // The one who takes the parent takes the child up with it; a child that is taken first runs as well.
    const taken = await second.work();
    const ended = taken.thread_id === id ? taken : await second.work();
    expect(ended).toMatchObject({ thread_id: id, status: 'completed', text: 'led' });
    expect(done).toEqual(['a', 'b']);
    const ends = (await eventsOf(made, id)).filter(({ type }) => type === 'child_end');
    expect(ends.map(({ data }) => data.status)).toEqual(['completed']);
    const said = (await eventsOf(made, id)).filter(({ type }) => type === 'tool_result');
    expect(JSON.stringify(said)).not.toContain('"status":"interrupted"');
    expect(JSON.stringify(said)).not.toContain('handed_over');
    const audit = got(await made.threads.store.auditRows({ limit: 200 }));
    expect(audit.filter(({ decision }) => decision === 'failed')).toEqual([]);
  });
}

// Where a file is shared, a child that another process has is left to it, and its parent is told nothing.
test.skipIf(!isOnServer())('a parent and its child go on in two processes', async () => {
  const under = gate();
  const { tool, done } = writer((at) => (at === 'a' ? under.pass(at) : Promise.resolve()));
  const files = {
    ...directive('lead', { permissions: `${WRITE}<orchestration enabled="true"/>` }),
    ...directive('part', { permissions: WRITE }),
  };
  const later = gate();
  const made = await openFleetStage(files, {
    lead: [{ tool_calls: [spawn('part')] }, { text: 'led' }],
    part: [write('a'), () => later.pass(write('b')), { text: 'part done' }],
  });
  const options = { tools: [tool] };
  const first = await openWorker(made, options);
  const others = [await openWorker(made, options), await openWorker(made, options)];
  const id = await made.queue('lead');
  const left = first.work();
  await under.begun;
  const gone = first.threads.requeueAll();
  under.letThrough();
  await Promise.all([left, gone]);
  // The child was handed over first, and so it is taken first.
  const part = others[0]?.work();
  await later.begun;
  const lead = others[1]?.work();
  const heard = made.threads.store.changes(
    { threads: [id] },
    AbortSignal.timeout(timeoutMs(20_000)),
  );
  for await (const { status } of heard) if (status === 'running') break;
  later.letThrough();
  expect(await part).toMatchObject({ status: 'completed', text: 'part done' });
  expect(await lead).toMatchObject({ thread_id: id, status: 'completed', text: 'led' });
  expect(done).toEqual(['a', 'b']);
  const ends = (await eventsOf(made, id)).filter(({ type }) => type === 'child_end');
  expect(ends.map(({ data }) => data.status)).toEqual(['completed']);
  // What both used is what the parent says, and what is charged to it.
  const { tokens } = got(await made.threads.store.thread(id)).cost;
  const [budget] = got(await made.threads.store.budgets([id]));
  expect(budget?.used.tokens).toBe(BigInt(Number(tokens)));
});

test('a script goes on with what it has done', async () => {
  const under = gate();
  const { tool, done } = writer((at) => (at === 'b' ? under.pass(at) : Promise.resolve()));
  const script = `
<directive name="look" version="1.0.0">
  <metadata><description>x</description><category>test</category><limits/>
    <permissions>${WRITE}</permissions></metadata>
  <outputs><all type="array"/></outputs>
  <process><script>
/var @a = @tool("probe/write", { "at": "a" })
/var @b = @tool("probe/write", { "at": "b" })
/var @c = @tool("probe/write", { "at": "c" })
/return { "all": [@a.done, @b.done, @c.done] }
</script></process>
</directive>
`;
  const made = await openFleetStage({ '.ai/directives/look.md': script }, {});
  const options = { tools: [tool] };
  const [first, second] = [await openWorker(made, options), await openWorker(made, options)];
  await made.queue('look');
  const left = first.work();
  await under.begun;
  const gone = first.threads.requeueAll();
  under.letThrough();
  expect(await left).toMatchObject({ status: 'interrupted' });
  await gone;
  expect(done).toEqual(['a', 'b']);
  expect(await second.work()).toMatchObject({
    status: 'completed',
    outputs: { all: ['a', 'b', 'c'] },
  });
  expect(done).toEqual(['a', 'b', 'c']);
});

test('what was said while it was handed over is heard by whoever goes on', async () => {
  const under = gate();
  const made = await openFleetStage(directive('look', { permissions: READ }), {
    look: [() => under.pass(read('notes/a.txt')), { text: 'heard' }],
  });
  const [first, second] = [await openWorker(made), await openWorker(made)];
  const id = await made.queue('look');
  const left = first.work();
  await under.begun;
  const gone = first.threads.requeueAll();
  const said = {
    thread: id,
    kind: 'message',
    payload: { content: 'look closer' },
    key: 'm',
    by: 'ann',
  };
  got(await made.threads.store.signal(said));
  under.letThrough();
  await left;
  await gone;
  expect(await countOf(made, id, 'injected_message')).toBe(0);
  expect(await second.work()).toMatchObject({ status: 'completed' });
  expect(await countOf(made, id, 'injected_message')).toBe(1);
  expect(JSON.stringify(made.provider.requests.at(-1)?.body)).toContain('look closer');
});

test('what only waits does not hold anybody up, and nothing begins in a process that goes', async () => {
  const busy = { fault: { status: 429, error: { type: 'rate_limit_error', message: 'busy' } } };
  let tries = 0;
  const { promise: tried, resolve: tell } = Promise.withResolvers<void>();
  const made = await openFleetStage(directive('look'), {
    look: [
      () => {
        tries += 1;
        tell();
        return tries === 1 ? busy : { text: 'at last' };
      },
    ],
  });
  const [first, second] = [await openWorker(made), await openWorker(made)];
  const id = await made.queue('look');
  const left = first.work();
  await tried;
  await expect.poll(() => countOf(made, id, 'error')).toBeGreaterThan(0);
  await first.threads.requeueAll();
  expect(await left).toMatchObject({ status: 'interrupted' });
  // It has gone: what it is given by mistake it leaves at once.
  const { held, since } = await first.take();
  expect(got(await first.threads.resumeLeased(held, since))).toMatchObject({
    status: 'interrupted',
  });
  expect(tries).toBe(1);
  expect(await second.work()).toMatchObject({
    thread_id: id,
    status: 'completed',
    text: 'at last',
  });
});
