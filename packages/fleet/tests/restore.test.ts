// A backup that is taken while threads work, restored on another server: they go on there, what nobody
// knows the outcome of is said to be unknown and is not done again, and who still holds one is refused.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ScriptedReply, ScriptedRequest } from '@kernmantle/core/llm';
import type { StoredEvent } from '@kernmantle/core/store';
import { runCommand } from '@kernmantle/test-support/command-line';
import { must } from '@kernmantle/test-support/registry';
import { isSoak, timeoutMs } from '@kernmantle/test-support/soak';
import { call, directive } from '@kernmantle/test-support/thread-project';
import { expect, inject, onTestFinished, test } from 'vitest';
import { JOURNAL_FORMATS } from '../src/postgres/schema.ts';
import { backUp, startPostgres } from './support/postgres-server.ts';
import { noServer } from './support/server-stores.ts';
import { openWorkerStage } from './support/worker-stage.ts';

const onServer = test.skipIf(inject('postgres') === '');
const patient = { timeout: timeoutMs(120_000), interval: 100 };
const STEPS = isSoak ? 5 : 3;
const TAGS = [...Array.from({ length: isSoak ? 10 : 2 }, (_, at) => `t${at}`), 'held'];
const WORKERS = isSoak ? 2 : 1;
/** What is lost with a server is the subject here. */
const DURABLE = ['-c', 'fsync=on'];

const WRITER = directive('writer', {
  inputs: '<input name="tag" type="string" required="true"/>',
  permissions: '<execute resource="tool" id="probe/write"/>',
});

/** Writes once a turn, whatever it is told. */
function reply({ body, assistant_messages }: ScriptedRequest): ScriptedReply {
  const tag = /"parameters":\{"tag":"([\w-]+)"/.exec(JSON.stringify(body))?.[1] ?? '';
  return assistant_messages <= STEPS
    ? { tool_calls: [call('probe/write', { at: `${tag}-${assistant_messages}` })] }
    : { text: 'done' };
}

/** Of a call that its model wanted. */
const isResult = ({ type, data }: StoredEvent): boolean =>
  type === 'tool_result' && data['call_id'] !== 'call_directive';

const count = (lines: readonly string[], line: string): number =>
  lines.filter((one) => one === line).length;

onServer(
  `a backup under load is restored, and the threads go on${noServer(inject('postgres'))}`,
  { timeout: timeoutMs(400_000) },
  async () => {
    const first = await startPostgres([...DURABLE, '-c', 'wal_keep_size=1GB']);
    if (!first) throw new Error('no server');
    onTestFinished(() => first.stop());
    const stage = await openWorkerStage(first.url, reply, WRITER);
    const { fixture, threads } = stage;
    const effects = (): string[] => {
      try {
        return readFileSync(join(fixture.root, 'effects.log'), 'utf8').split('\n').slice(0, -1);
      } catch {
        return [];
      }
    };
    const workers = Array.from({ length: WORKERS }, () => stage.workAs(JOURNAL_FORMATS));
    const ids = new Map<string, string>();
    for (const tag of TAGS.toReversed()) {
      const queued = must(await threads.enqueue({ directive: 'writer', inputs: { tag } }));
      ids.set(tag, queued.thread);
    }
    await expect
      .poll(() => effects().includes('held-1') && effects().length > STEPS, patient)
      .toBe(true);
    const folder = await backUp(first.url);
    // The world goes on: everything is done, on the server of which only the backup will be left.
    fixture.write('go', '');
    const statusIn = (store: typeof threads.store) => async () =>
      Promise.all([...ids.values()].map(async (id) => must(await store.thread(id)).status));
    await expect.poll(statusIn(threads.store), patient).toEqual(TAGS.map(() => 'completed'));
    expect(effects()).toHaveLength(TAGS.length * STEPS);
    for (const worker of workers) worker.child.kill('SIGTERM');
    for (const worker of workers) await worker.ended;

    const second = await startPostgres(DURABLE, folder);
    if (!second) throw new Error('no server');
    onTestFinished(() => second.stop());
    const address = `${second.url}${new URL(stage.store).search}`;
    const restored = async () => {
      const words = ['store', 'restored', '--store', address, '--json'];
      return await runCommand(words, fixture.root, fixture.env);
    };
    // Workers that were heard of just before the backup may be there, as far as anybody knows.
    await expect.poll(async () => (await restored()).code, patient).toBe(0);
    const again = JSON.parse((await restored()).output) as { output: Record<string, number> };
    expect(again.output).toMatchObject({ threads: TAGS.length, interrupted: 0 });

    const runtime = await fixture.open({ store: address });
    onTestFinished(() => runtime.close());
    const { store } = must(await runtime.threads());
    const known = new Set<string>();
    const unknown = new Set<string>();
    for (const [tag, id] of ids) {
      const events = must(await store.read(id));
      const calls = events.filter(({ type }) => type === 'tool_call');
      const results = events.filter(isResult);
      for (const at of calls.keys()) known.add(`${tag}-${at + 1}`);
      for (const at of calls.keys()) if (at >= results.length) unknown.add(`${tag}-${at + 1}`);
      const row = must(await store.thread(id));
      expect(row.epoch).toBeGreaterThan(1_000_000);
      // Whoever still holds it from before writes nothing.
      const late = await store.commit(id, {
        expect: { seq: row.seq, epoch: row.epoch % 1_000_000 },
        events: [{ type: 'logged', data: {} }],
      });
      expect(late).toMatchObject({ error: { code: 'stale_epoch' } });
    }
    expect(unknown).toContain('held-1');
    expect(known.size).toBeLessThan(TAGS.length * STEPS);

    const worker = stage.workAs(JOURNAL_FORMATS, 0, address);
    await expect.poll(statusIn(store), patient).toEqual(TAGS.map(() => 'completed'));
    worker.child.kill('SIGTERM');
    await worker.ended;
    for (const [tag, id] of ids) {
      const events = must(await store.read(id));
      expect(events.map(({ seq }) => seq)).toEqual(events.map((_, at) => at + 1));
      const results = events.filter(isResult);
      expect(results).toHaveLength(STEPS);
      for (const [at, { data }] of results.entries()) {
        const step = `${tag}-${at + 1}`;
        const isUnknown = JSON.stringify(data).includes('outcome_unknown');
        expect([step, isUnknown]).toEqual([step, unknown.has(step)]);
        // What the backup knew of was done once; what came later, the thread has done again.
        expect([step, count(effects(), step)]).toEqual([step, known.has(step) ? 1 : 2]);
      }
    }
  },
);
