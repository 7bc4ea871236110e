// Replay of threads that did not run alone or in one piece: with children, as a child, paused, steered,
// left behind and resumed, gone back to a snapshot, ended from outside.
import { defineTool } from '@kernmantle/test-support/define-tool';
import { expectSame } from '@kernmantle/test-support/expect-same';
import { runs, timeoutMs } from '@kernmantle/test-support/soak';
import {
  answer,
  call,
  directive,
  openStage,
  type Play,
  rows,
  run,
  type Stage,
  spawn,
  types,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { plainText } from '../../src/base/index.ts';
import type { ScriptedReply } from '../../src/llm/index.ts';

const PROBES = ['look', 'write', 'leave']
  .map((name) => `<execute resource="tool" id="probe/${name}"/>`)
  .join('');
const ran: string[] = [];
let leaving: AbortController;
/** What happens while the next tool is at work. */
let heard: (() => Promise<void>) | undefined;
const probe = (name: string, effect: 'read' | 'write') =>
  defineTool({
    id: `probe/${name}`,
    description: 'A test',
    effect,
    parameters: { n: 'integer' },
    async run({ n }) {
      ran.push(name);
      await heard?.();
      if (name === 'leave') leaving.abort();
      return { n };
    },
  });
const TOOLS = [probe('look', 'read'), probe('write', 'write'), probe('leave', 'read')];
const tool = (name: string, n = 0): ScriptedReply => ({
  tool_calls: [call(`probe/${name}`, { n })],
});

const FILES = {
  ...directive('lead', { permissions: `${PROBES}<orchestration enabled="true"/>` }),
  ...directive('part', { permissions: PROBES }),
};

async function open(play: Play): Promise<Stage> {
  ran.length = 0;
  leaving = new AbortController();
  return await openStage(FILES, play, { tools: TOOLS });
}

/** Replays, and finds that it is the same without a model, without tools and without new threads. */
async function same(made: Stage, id: string, status = 'completed') {
  const [asked, threads, tools] = [made.provider.count(), (await rows(made)).length, ran.length];
  const done = await made.threads.replay(id);
  if (!done.ok) throw new Error(`${done.error.code}: ${done.error.detail.message}`);
  expectSame(done.output, { status });
  expect(done.output.same).toBe(done.output.recorded);
  expect([made.provider.count(), (await rows(made)).length, ran.length]).toEqual([
    asked,
    threads,
    tools,
  ]);
}

const usage = { input_tokens: 100, output_tokens: 10 };
const PART: Play[string] = [
  { ...tool('look', 1), usage },
  { ...tool('write', 2), usage },
  { text: 'part done', usage },
];

test('a thread with children, and each of its children', async () => {
  const made = await open({
    lead: [
      { tool_calls: [spawn('part', { wait_ms: 20_000 })], usage },
      { tool_calls: [spawn('part'), call('probe/look', { n: 3 })], usage },
      { text: 'all done', usage },
    ],
    part: PART,
  });
  const { thread_id } = await run(made, 'lead');
  await same(made, thread_id);
  const children = (await rows(made)).filter(({ parent }) => parent === thread_id);
  expect(children).toHaveLength(2);
  for (const { id } of children) await same(made, id);
});

test('a thread that was left in the middle of a call and resumed', async () => {
  const made = await open({
    lead: [tool('look', 1), tool('leave', 2), tool('write', 3), { text: 'all done' }],
  });
  const left = await made.threads.run({ directive: 'lead' }, leaving.signal);
  const id = left.ok ? left.output.thread_id : '';
  expect(left).toMatchObject({ output: { status: 'interrupted' } });
  expect(await made.threads.resume(id)).toMatchObject({ output: { status: 'completed' } });
  await same(made, id);
});

test('a thread that was paused, spoken to and resumed, twice', async () => {
  const made = await open({
    // Slow enough that it is still at work when somebody has found it.
    lead: [
      ...[1, 2, 3, 4, 5, 6].map((n) => ({ ...tool('look', n), delay_ms: 60 })),
      { text: 'all done' },
    ],
  });
  const { store } = made.threads;
  /** Pauses it after one more call; it may be a call further by then, or at its end. */
  const pauseSoon = async (id: string, running: Promise<unknown>, key: string): Promise<void> => {
    const seq = (await rows(made))[0]?.seq ?? 0;
    for await (const one of store.watch(
      { thread: id, seq },
      AbortSignal.timeout(timeoutMs(20_000)),
    )) {
      if (one.type === 'tool_call') break;
    }
    await store.signal({
      thread: id,
      kind: 'pause',
      payload: { reason: 'lunch' },
      key: key,
      by: 'me',
    });
    await running;
  };
  const running = made.threads.run({ directive: 'lead' });
  await expect.poll(async () => (await rows(made)).length).toBe(1);
  const id = (await rows(made))[0]?.id ?? '';
  await pauseSoon(id, running, 'first');
  expect((await rows(made))[0]?.status).toBe('paused');
  await store.signal({
    thread: id,
    kind: 'message',
    payload: { role: 'user', content: 'mind the gap' },
    key: 'words',
    by: 'me',
  });
  await pauseSoon(id, made.threads.resume(id), 'second');
  if ((await rows(made))[0]?.status === 'paused') await made.threads.resume(id);
  expect((await rows(made))[0]?.status).toBe('completed');
  await same(made, id);
});

test('a thread that went back to a snapshot', async () => {
  const made = await open({
    lead: [
      { tool_calls: [{ name: 'help', arguments: { action: 'checkpoint', reason: 'here' } }] },
      tool('look', 1),
      { text: 'all done' },
    ],
  });
  const { thread_id } = await run(made, 'lead');
  const words = { text: 'another way', by: 'me' };
  const done = await made.threads.resume(thread_id, undefined, { from: 'last', words });
  expect(done).toMatchObject({ output: { status: 'completed' } });
  await same(made, thread_id);
});

test('a thread that was ended while nobody was at work on it', async () => {
  const made = await open({ lead: [tool('leave', 1), { text: 'never' }] });
  const left = await made.threads.run({ directive: 'lead' }, leaving.signal);
  const id = left.ok ? left.output.thread_id : '';
  const { endUnattended } = await import('../../src/harness/index.ts');
  expect(await endUnattended(made.threads.store, id, 'killed', 'me')).toMatchObject({ ok: true });
  await same(made, id, 'killed');
});

/** Asked, and never answered. */
const forever = () => new Promise<never>(() => {});

test('a thread that was stopped, and the children that it stopped with it', async () => {
  const made = await open({
    lead: [
      { tool_calls: [spawn('part')], usage },
      { text: 'done', usage },
    ],
    part: [{ ...tool('look', 1), usage }, forever],
  });
  const running = run(made, 'lead');
  await expect.poll(() => made.provider.count(), { timeout: timeoutMs(20_000) }).toBe(4);
  const [lead, part] = await rows(made);
  const signal = { thread: lead?.id ?? '', kind: 'terminate', payload: {}, key: 'k', by: 'me' };
  await made.threads.store.signal(signal);
  expect(await running).toMatchObject({ status: 'terminated' });
  await same(made, lead?.id ?? '', 'terminated');
  await same(made, part?.id ?? '', 'terminated');
});

/** The second is refused, and the third is at work until `stop` has been obeyed. */
const THREE = {
  tool_calls: [
    call('probe/look', { n: 1 }),
    call('fs/read_file', { path: 'secret.txt' }),
    call('probe/look', { n: 3 }),
  ],
  usage,
};
function stopAfterRefusal(made: Stage, name: string, stop: (id: string) => Promise<unknown>): void {
  heard = async () => {
    heard = async () => {
      heard = undefined;
      const mine = (await rows(made)).find((row) => row.directive === name)?.id ?? '';
      await expect.poll(() => types(made, mine)).toContain('permission_denied');
      await stop(mine);
    };
  };
}

test('a thread that its parent stopped after one of the calls that it made at once was refused', async () => {
  const made = await open({
    lead: [{ tool_calls: [spawn('part')], usage }, forever],
    part: [THREE],
  });
  stopAfterRefusal(made, 'part', async (part) => {
    const [lead] = await rows(made);
    const signal = { thread: lead?.id ?? '', kind: 'terminate', payload: {}, key: 'k', by: 'me' };
    await made.threads.store.signal(signal);
    await expect.poll(() => types(made, part)).toContain('signal');
  });
  expect(await run(made, 'lead')).toMatchObject({ status: 'terminated' });
  const [lead, part] = await rows(made);
  const seen = await types(made, part?.id ?? '');
  expect(seen.filter((type) => type === 'tool_result')).toHaveLength(2);
  await same(made, lead?.id ?? '', 'terminated');
  await same(made, part?.id ?? '', 'terminated');
});

test('a thread that was left after one of the calls that it made at once was refused', async () => {
  const made = await open({ lead: [THREE, { text: 'done', usage }] });
  stopAfterRefusal(made, 'lead', async () => leaving.abort());
  const left = await made.threads.run({ directive: 'lead' }, leaving.signal);
  const id = left.ok ? left.output.thread_id : '';
  expect(left).toMatchObject({ output: { status: 'interrupted' } });
  expect(await made.threads.resume(id)).toMatchObject({ output: { status: 'completed' } });
  await same(made, id);
});

test('a thread that its parent stops when its end is recorded already', async () => {
  const made = await open({ lead: [{ tool_calls: [spawn('part')], usage }, forever], part: PART });
  const { store } = made.threads;
  const { commit } = store;
  store.commit = async (thread, change) => {
    const done = await commit(thread, change);
    if (change.status !== 'completed') return done;
    const [lead] = await rows(made);
    const [above, payload] = [lead?.id ?? '', { content: 'enough' }];
    await store.signal({ thread: above, kind: 'terminate', payload, key: 'k', by: 'me' });
    await expect.poll(() => types(made, above)).toContain('injected_message');
    return done;
  };
  expect(await run(made, 'lead')).toMatchObject({ status: 'terminated' });
  for (const { id, status } of await rows(made)) {
    expect((await types(made, id)).at(-1)).toBe('thread_end');
    await same(made, id, status);
  }
});

test('a thread that an end was written for, and that went on all the same', async () => {
  const made = await open({ lead: [tool('leave', 1), { text: 'done' }] });
  const left = await made.threads.run({ directive: 'lead' }, leaving.signal);
  const id = left.ok ? left.output.thread_id : '';
  const { endUnattended } = await import('../../src/harness/index.ts');
  await endUnattended(made.threads.store, id, 'terminated', 'me');
  const done = await made.threads.resume(id);
  expect(done).toMatchObject({ output: { status: 'completed', text: 'done' } });
  await same(made, id);
});

test('an interrupt with words while calls wait, and calls of tools that nobody knows', async () => {
  const made: Stage = await open({
    lead: [
      { tool_calls: [call('probe/look', { n: 1 }), call('probe/write', { n: 1 })], usage },
      { tool_calls: [call('no/such'), call('probe/look', { n: 2 })], usage },
      { text: 'as you like', usage },
    ],
  });
  const { store } = made.threads;
  heard = async () => {
    heard = undefined;
    const [row] = await rows(made);
    const payload = { message: 'rather not' };
    await store.signal({ thread: row?.id ?? '', kind: 'interrupt', payload, key: 'i', by: 'me' });
  };
  const { thread_id } = await run(made, 'lead');
  expect(ran).toEqual(['look', 'look']);
  await same(made, thread_id);
});

const SLOW = directive('slow', { outputs: '<action type="string">continue|fail</action>' });
const hookOn = (event: string, name: string) =>
  `<hook><when>event.name == "${event}"</when><directive>${name}</directive></hook>`;

test('a thread that was stopped while its hook ran, and that hook', async () => {
  const hooked = directive('part', {
    permissions: PROBES,
    hooks: hookOn('before_step', 'slow'),
  });
  let asked = (): void => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  const slow = () => {
    asked();
    return forever();
  };
  const play = {
    lead: [
      { tool_calls: [spawn('part')], usage },
      { text: 'done', usage },
    ],
    part: PART,
    slow: [slow],
  };
  const made = await openStage({ ...FILES, ...hooked, ...SLOW }, play, { tools: TOOLS });
  const running = run(made, 'lead');
  await isAsked;
  const [lead] = await rows(made);
  const signal = { thread: lead?.id ?? '', kind: 'terminate', payload: {}, key: 'k', by: 'me' };
  await made.threads.store.signal(signal);
  await running;
  const ended = await rows(made);
  expect(ended).toHaveLength(3);
  for (const { id } of ended) await same(made, id, 'terminated');
});

test('a thread that reached a limit, or was aborted from below, with the children it stopped', async () => {
  const made = await openStage(
    {
      ...FILES,
      ...directive('lead', {
        permissions: `${PROBES}<orchestration enabled="true"/>`,
        limits: '<turns>1</turns>',
      }),
    },
    { lead: [{ tool_calls: [spawn('part')], usage }], part: [forever] },
    { tools: TOOLS },
  );
  const { thread_id: limited } = await run(made, 'lead');
  await same(made, limited, 'limit');
  const aborting = await openStage(
    {
      ...FILES,
      ...directive('other', { permissions: PROBES, hooks: hookOn('error', 'stop') }),
      '.ai/directives/stop.md': answer('stop', { action: 'abort' }),
    },
    {
      lead: [
        { tool_calls: [spawn('part'), spawn('other')], usage },
        { text: 'done', usage },
      ],
      part: [{ ...tool('look', 1), usage }, forever],
      other: [{ tool_calls: [call('no/such')], usage }],
    },
    { tools: TOOLS },
  );
  const { thread_id: lead } = await run(aborting, 'lead');
  await same(aborting, lead, 'aborted');
  for (const { id, status } of await rows(aborting)) await same(aborting, id, status);
});

// A storm: many hands steer many threads at once, and whatever came of it happens again.
const WORDS = /word \d+/g;
const brief = (said: ScriptedReply): ScriptedReply => ({ ...said, piece: 8, pace_ms: 2, usage });
const STORM: Play = {
  lead: [
    brief({ ...tool('look', 1), text: 'x'.repeat(80) }),
    brief({ tool_calls: [call('probe/look', { n: 2 }), call('probe/write', { n: 2 })] }),
    brief({ tool_calls: [spawn('part', { wait_ms: 20_000 })], text: 'y'.repeat(80) }),
    brief({ ...tool('write', 3), text: 'z'.repeat(80) }),
    brief({ text: 'done '.repeat(20) }),
  ],
  part: [
    brief({ ...tool('look', 4), text: 'p'.repeat(80) }),
    brief({ ...tool('write', 5) }),
    brief({ text: 'part done' }),
  ],
};
const pick = <T>(list: readonly T[]): T | undefined =>
  list[Math.floor(Math.random() * list.length)];
const RESTING: readonly string[] = ['paused', 'waiting', 'interrupted', 'needs_input'];

test(
  'every thread of a steering storm',
  async () => {
    const made = await open(STORM);
    const { store, resume } = made.threads;
    const going: Promise<unknown>[] = Array.from({ length: runs(3, 10) }, () => run(made, 'lead'));
    const stillOpen = async () => (await rows(made)).filter(({ ended }) => ended === undefined);
    const accepted: string[] = [];
    for (let count = 0; count < runs(25, 400); count++) {
      const row = pick(await stillOpen());
      const kind = pick(['message', 'pause', 'interrupt', 'resume', 'resume'] as const);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 30));
      if (!row || !kind) continue;
      if (kind === 'resume') {
        if (RESTING.includes(row.status)) going.push(resume(row.id));
        continue;
      }
      const content = `word ${count}`;
      const payload = kind === 'pause' ? {} : { content };
      const key = `storm ${count}`;
      const sent = await store.signal({ thread: row.id, kind, payload, key, by: 'ann' });
      if (sent.ok && kind !== 'pause') accepted.push(content);
    }
    // Whoever still rests is let go on.
    for (let left = await stillOpen(); left.length > 0; left = await stillOpen()) {
      for (const { id, status } of left) if (RESTING.includes(status)) going.push(resume(id));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await Promise.all(going);
    const told: string[] = [];
    for (const { id, status } of await rows(made)) {
      expect(status, id).toBe('completed');
      const events = await store.read(id);
      for (const { type, data } of events.ok ? events.output : []) {
        if (type === 'injected_message')
          told.push(...(plainText(data.text ?? '').match(WORDS) ?? []));
      }
    }
    expect(new Set(told).size).toBe(told.length);
    // What is said to a thread that ends in that moment is not heard any more.
    for (const word of told) expect(accepted).toContain(word);
    for (const { id } of await rows(made)) await same(made, id);
  },
  timeoutMs(120_000),
);
