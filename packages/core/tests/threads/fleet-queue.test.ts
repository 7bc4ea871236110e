// A thread that one process asks for and another runs: the same thread as if it had run where it was asked for.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expectSame } from '@kernmantle/test-support/expect-same';
import {
  eventsOf,
  got,
  openFleetStage,
  openWorker,
  statesIn,
} from '@kernmantle/test-support/fleet-stage';
import { call, directive, hook, READ, read } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import type { ProgramTool } from '../../src/kernel/index.ts';
import type { StoredEvent } from '../../src/store/index.ts';

const LOOK = directive('look', {
  permissions: READ,
  inputs: '<input name="why" type="string" required="false"/>',
});
const PLAY = { look: [read('notes/a.txt'), { text: 'seen' }] } as const;

/** Without what differs between any two runs. */
const plain = (events: readonly StoredEvent[]) =>
  events
    .filter(({ type }) => type !== 'status')
    .map(({ type, turn, data }) => [
      type,
      turn,
      Object.keys(data).filter((name) => name !== 'process'),
    ]);

test('what is queued is begun by whoever takes it, as if it had run there', async () => {
  const made = await openFleetStage(LOOK, PLAY);
  const worker = await openWorker(made);
  const by = { who: 'ann', surface: 'cli' };
  const id = await made.queue('look', { inputs: { why: 'so' }, message: 'look well', by });
  expect(made.provider.requests).toHaveLength(0);
  expect(got(await made.threads.store.thread(id))).toMatchObject({ status: 'spawning', epoch: 0 });
  expect(made.threads.atWork()).toEqual([]);
  // Nothing of it is left where it was asked for, not even a file.
  expect(existsSync(join(made.fixture.root, '.ai', 'threads', id))).toBe(false);
  const result = await worker.work();
  expect(result).toMatchObject({ thread_id: id, status: 'completed', text: 'seen' });
  const here = got(
    await made.threads.run({ directive: 'look', inputs: { why: 'so' }, message: 'look well', by }),
  );
  const [there, fresh] = [await eventsOf(made, id), await eventsOf(made, here.thread_id)];
  expect(plain(there)).toEqual(plain(fresh));
  expect(statesIn(there)).toEqual(['spawning', 'running', 'completed']);
  expect(here.cost).toMatchObject({ turns: 2, tool_calls: 1 });
  expect(result.cost).toMatchObject({ turns: 2, tool_calls: 1 });
  // Whoever asked is in the audit, once for each.
  const audit = got(await made.threads.store.auditRows({ limit: 100 }));
  const asked = audit.filter(({ operation }) => operation === 'run').map(({ target }) => target);
  expect(asked.toSorted()).toEqual([id, here.thread_id].toSorted());
  expectSame(got(await worker.threads.replay(id)));
});

test('what cannot run is refused where it is asked for, and leaves nothing', async () => {
  const made = await openFleetStage(
    { ...LOOK, ...directive('bad', { limits: '<turns>x</turns>' }) },
    PLAY,
  );
  const worker = await openWorker(made);
  expect(await made.threads.enqueue({ directive: 'none' })).toMatchObject({ ok: false });
  expect(await made.threads.enqueue({ directive: 'bad' })).toMatchObject({ ok: false });
  const wrong = await made.threads.enqueue({ directive: 'look', inputs: { other: 1 } });
  expect(wrong).toMatchObject({ ok: false, error: { code: 'invalid_input' } });
  expect(await worker.takeNow()).toEqual([]);
});

test('what a taker cannot go on with is let go, and queued for later', async () => {
  const made = await openFleetStage(LOOK, PLAY);
  const env = { ...made.fixture.env, ANTHROPIC_API_KEY: undefined };
  const without = await openWorker(made, { env });
  const id = await made.queue('look');
  const { held, since } = await without.take();
  const refused = await without.threads.resumeLeased(held, since);
  expect(refused).toMatchObject({ ok: false, error: { code: 'model_unavailable' } });
  const row = got(await made.threads.store.thread(id));
  expect(row).toMatchObject({ status: 'spawning', epoch: 1 });
  expect(row.owner).toBeUndefined();
  expect(await without.takeNow()).toEqual([]);
  // Who has the key begins it; it was never begun before.
  expect(got(await made.threads.resumeAnywhere(id))).toMatchObject({ status: 'completed' });
  expect(statesIn(await eventsOf(made, id))).toEqual(['spawning', 'running', 'completed']);
});

test('hooks have their reserve from the moment on when the thread is queued', async () => {
  const files = {
    ...directive('look', {
      permissions: READ,
      limits: '<turns>5</turns><tokens>100000</tokens>',
      hooks: hook('event.name == "after_step" and event.tool == "fs/read_file"', 'judge'),
    }),
    ...directive('judge', {
      outputs: '<action type="string" required="true">continue</action><context type="object"/>',
    }),
  };
  const judge = { text: '{"action":"continue"}' };
  const made = await openFleetStage(files, { ...PLAY, judge: [judge] });
  const worker = await openWorker(made);
  const id = await made.queue('look');
  const [before] = got(await made.threads.store.budgets([id]));
  expect(before?.reserved.tokens).toBeGreaterThan(0n);
  expect(await worker.work()).toMatchObject({ status: 'completed', cost: { hooks: { turns: 1 } } });
  const [after] = got(await made.threads.store.budgets([id]));
  expect(after?.reserved.tokens).toBe(0n);
});

test('what is secret in its inputs is in no table, and there where it runs', async () => {
  const files = directive('look', {
    permissions: READ,
    inputs: '<input name="password" type="string" required="true"/>',
  });
  const made = await openFleetStage(files, PLAY);
  const worker = await openWorker(made);
  const id = await made.queue('look', { inputs: { password: 'correct-horse-battery' } });
  expect(JSON.stringify(await eventsOf(made, id))).not.toContain('correct-horse');
  expect(JSON.stringify(got(await made.threads.store.thread(id)))).not.toContain('correct-horse');
  expect(await worker.work()).toMatchObject({ status: 'completed' });
  expect(JSON.stringify(made.provider.requests[0]?.body)).toContain('correct-horse-battery');
  const file = join(made.fixture.root, '.ai', 'threads', id, 'transcript.jsonl');
  expect(readFileSync(file, 'utf8')).not.toContain('correct-horse');
});

test('the transcript is whole where a thread goes on, whatever was there', async () => {
  for (const before of ['', 'older', 'newer', 'torn'] as const) {
    const controller = new AbortController();
    const leave: ProgramTool = {
      id: 'probe/leave',
      description: 'Ends the process in its own way',
      effect: 'read',
      run: () => (controller.abort(), 'left'),
    };
    const permissions = `${READ}<execute resource="tool" id="probe/leave"/>`;
    const made = await openFleetStage(directive('look', { permissions }), {
      look: [read('notes/a.txt'), { tool_calls: [call('probe/leave')] }, { text: 'seen' }],
    });
    const worker = await openWorker(made, { tools: [leave] });
    const id = await made.queue('look');
    const { held, since } = await worker.take();
    const left = got(await worker.threads.resumeLeased(held, since, controller.signal));
    expect(left.status).toBe('interrupted');
    const file = join(made.fixture.root, '.ai', 'threads', id, 'transcript.jsonl');
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    const past = { ...JSON.parse(lines.at(-1) ?? '{}'), seq: 999 };
    if (before === '') rmSync(file);
    if (before === 'older') writeFileSync(file, `${lines.slice(0, 4).join('\n')}\n`);
    if (before === 'newer') writeFileSync(file, `${[...lines, JSON.stringify(past)].join('\n')}\n`);
    if (before === 'torn') writeFileSync(file, lines.join('\n').slice(0, -5));
    const second = await openWorker(made, { tools: [leave] });
    const again = got(await second.threads.resumeAnywhere(id));
    expect(again.status).toBe('completed');
    const written = readFileSync(file, 'utf8').trimEnd().split('\n');
    const seqs = written.map((line) => (JSON.parse(line) as { seq: number }).seq);
    const all = await eventsOf(made, id);
    expect(seqs).toEqual(all.filter(({ type }) => type !== 'hook_state').map(({ seq }) => seq));
  }
});

test('a lease of our own that ran out is lost, and what was taken anew goes on after it', async () => {
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let requests = 0;
  const made = await openFleetStage(LOOK, {
    look: [
      read('notes/a.txt'),
      async () => {
        requests += 1;
        ask();
        if (requests === 1) await gate;
        return { text: 'seen' };
      },
    ],
  });
  const worker = await openWorker(made);
  const id = await made.queue('look');
  const first = worker.work();
  await asked;
  // Somebody took it for gone, and queued it.
  const { store } = made.threads;
  const claimed = got(await store.claim(id, { owner: 'other', ttlMs: 30_000 }, { force: true }));
  got(await store.release(claimed, { again: true }));
  const second = await worker.take();
  const gone = worker.threads.resumeLeased(second.held, second.since);
  expect(await first).toMatchObject({ status: 'interrupted' });
  open();
  expect(got(await gone)).toMatchObject({ status: 'completed', text: 'seen' });
});
