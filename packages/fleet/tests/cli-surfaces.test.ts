// The library, the page and tools start threads over a server as commands do: queued, and run by workers.
import { getOwn, ok, plainText, systemClock } from '@kernmantle/core/base';
import { createRuntime } from '@kernmantle/kernmantle';
import { runCommand } from '@kernmantle/test-support/command-line';
import { makePng } from '@kernmantle/test-support/files';
import { directive, READ, read } from '@kernmantle/test-support/thread-project';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { createUploads } from '../../web/src/server/routes/uploads.ts';
import { createRuns } from '../../web/src/server/runs.ts';
import { startProxy } from './faults/proxy.ts';
import { got, openCliStage } from './support/cli-stage.ts';

const server = inject('postgres');
const LOOK = directive('look', { permissions: READ });
const SEEN = [read('notes/a.txt'), { text: 'seen' }];

describe.skipIf(server === '')('over a server (needs PostgreSQL)', () => {
  test('a program sees the events and the result of what a worker runs', async () => {
    const { fixture, address, km, work } = await openCliStage(server, LOOK, SEEN);
    await km('store', 'migrate');
    await work();
    const env = { ...fixture.env, KERNMANTLE_STORE: undefined };
    const runtime = got(await createRuntime({ project: fixture.root, env, store: address }));
    onTestFinished(() => runtime.close());
    const run = runtime.threads.start({ directive: 'look' });
    const types: string[] = [];
    for await (const { type } of run) types.push(type);
    expect(types).toEqual(expect.arrayContaining(['thread_start', 'tool_result', 'thread_end']));
    expect(got(await run.result)).toMatchObject({ status: 'completed', text: 'seen' });
    const id = got(await run.id);
    expect(got(await runtime.threads.list()).rows).toMatchObject([{ id, status: 'completed' }]);
    expect(got(await runtime.threads.wait(id)).status).toBe('completed');
  });

  test('the page and tools queue what they start, and nothing of it runs in their process', async () => {
    const { fixture, address, km, work } = await openCliStage(server, LOOK, [...SEEN, ...SEEN]);
    await km('store', 'migrate');
    const runtime = await fixture.open({ openStore: undefined as never, store: address });
    onTestFinished(() => runtime.close());
    const threads = got(await runtime.threads());
    const errors: Error[] = [];
    const uploads = createUploads(systemClock);
    const file = got(uploads.begin('ann', 'a.png', 1));
    file.data = makePng(3, 3);
    const runs = createRuns({
      uploads,
      runtime,
      store: async () => ok(threads.store),
      clock: systemClock,
      onError: (error) => errors.push(error),
      hub: { text: () => {} },
    });
    const asker = { who: 'ann', role: 'approve', id: 'a' } as Parameters<typeof runs.start>[1];
    const begun = got(
      await runs.start({ directive: 'look', inputs: {}, attach: [{ upload: file.id }] }, asker),
    );
    expect(begun).toMatchObject({ kind: 'start', status: 'spawning' });
    expect([runs.count(), threads.atWork()]).toEqual([0, []]);
    const parameters = { directive_name: 'look' };
    const request = { item_type: 'tool', item_id: 'threads/thread_directive', parameters };
    const spawned = got(await runtime.call('execute', request, { surface: 'cli' }));
    const id = plainText(getOwn(spawned, 'thread_id'));
    expect(got(await threads.store.thread(id)).status).toBe('spawning');
    expect(threads.atWork()).toEqual([]);
    await work();
    const ids = [begun.thread_id, id];
    expect((await km('threads', 'wait', ...ids)).code).toBe(0);
    expect(errors).toEqual([]);
    const events = got(await threads.store.read(begun.thread_id));
    const attached = events.find(({ data }) => data.file !== undefined);
    expect(attached?.data).toMatchObject({ attached: 'a.png', file: { mime: 'image/png' } });
    const sha256 = plainText(getOwn(attached?.data.file ?? {}, 'sha256'));
    expect(got(await threads.store.artifact(begun.thread_id, `sha256:${sha256}`))).toHaveLength(
      makePng(3, 3).length,
    );
    await runs.close();
  });

  test('a server that goes in the middle is said, and nothing is lost with it', async () => {
    const { fixture, address, km } = await openCliStage(server, LOOK, SEEN);
    await km('store', 'migrate');
    const [own, way] = [new URL(address), await startProxy(Number(new URL(server).port))];
    own.port = String(way.port);
    const env = { ...fixture.env, KERNMANTLE_STORE: own.href };
    const running = runCommand(['run', 'look'], fixture.root, env);
    const caught = process.stderr.write;
    const queued = Promise.withResolvers<void>();
    process.stderr.write = (text: string) => {
      if (text.includes('no worker')) queued.resolve();
      return caught.call(process.stderr, text);
    };
    await queued.promise;
    await way.close();
    const ran = await running;
    expect(ran.code).toBe(1);
    expect(ran.output).toContain('cannot be reached');
    expect(ran.output).toContain('km threads tail -f look_');
    expect(ran.output).not.toContain('secret-of-tests');
  });
});
