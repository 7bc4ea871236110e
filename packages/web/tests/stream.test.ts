// `GET /api/stream` over the real server: frames, breaks, slow readers, sessions that end.
import type { NewEvent } from '@kernmantle/core/store';
import { must } from '@kernmantle/test-support/registry';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { aThread, owner, writerOf } from '@kernmantle/test-support/store-suite/stage';
import { directiveText, READ, read, run } from '@kernmantle/test-support/thread-project';
import { describe, expect, test } from 'vitest';
import { message } from './support/live.ts';
import { login, openServed, type ServedStage, serveStage, spawnWeb } from './support/serve.ts';
import { openStream } from './support/stream-client.ts';

const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

async function openThread({ threads }: ServedStage, id: string) {
  const start = { lease: { ...owner(), ttlMs: 600_000 } };
  return writerOf(threads.store, must(await threads.store.createThread(aThread(id, { start }))));
}

const many = (count: number, text = 'x'): { events: [NewEvent, ...NewEvent[]] } => {
  const rest = Array.from({ length: count - 1 }, () => message(text));
  return { events: [message(text), ...rest] };
};

test('a run is told as it happens: rows, events and how it ended', async () => {
  const files = { '.ai/directives/read.md': directiveText('read', { permissions: READ }) };
  const served = await openServed(files, { read: [read('notes/a.txt'), { text: 'done' }] });
  const { heard } = await openStream(served.url, served.headers, ['threads', 'approvals']);
  const { thread_id: id } = await run(served, 'read');
  await expect.poll(() => heard.rows.get(id)?.status).toBe('completed');
  expect(heard.rows.get(id)).toMatchObject({
    directive: 'read',
    kind: 'thread',
    denied: 0,
    due: 0,
  });
  expect(heard.rows.get(id)?.meters.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['spend', 'turns', 'tokens', 'duration_seconds']),
  );
  expect(heard.totals).toMatchObject({ ended: 1, at_work: 0 });
  const journal = must(await served.threads.store.read(id));
  const page = await openStream(served.url, served.headers, [`thread:${id}`], {
    after: `x.x,${id}.0`,
  });
  await expect.poll(() => page.heard.seqs).toEqual(upTo(journal.length));
});

describe('breaks', () => {
  test('10,000 events, cut off at random: every number once, in order', async () => {
    const served = await openServed();
    const thread = await openThread(served, 'long');
    const topics = ['threads', 'approvals', 'thread:long'];
    let client = await openStream(served.url, served.headers, topics, { after: 'x.x,long.0' });
    const { heard } = client;
    let cuts = 0;
    while (thread.seq < 10_000) {
      await thread.must(many(Math.min(10_000 - thread.seq, 1 + Math.floor(Math.random() * 300))));
      if (Math.random() < 0.5)
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      // Whoever is 2,000 behind would be told to read the journal itself.
      if (thread.seq - heard.seqs.length > 1200) {
        await expect.poll(() => thread.seq - heard.seqs.length).toBeLessThan(400);
      }
      if (Math.random() > 0.4) continue;
      client.cut();
      cuts += 1;
      client = await openStream(served.url, served.headers, topics, {
        heard,
        after: heard.position ?? 'x.x,long.0',
      });
    }
    await expect.poll(() => heard.seqs.length).toBe(10_000);
    expect(heard.resets.filter(({ topic }) => topic === 'thread:long')).toEqual([]);
    expect(heard.seqs).toEqual(upTo(10_000));
    expect(cuts).toBeGreaterThan(5);
    await expect.poll(() => heard.rows.get('long')?.seq).toBe(10_000);
  });

  test('a server that was started again says what to read anew, and events go on', async () => {
    const served = await openServed();
    const thread = await openThread(served, 'one');
    const topics = ['threads', 'approvals', 'thread:one'];
    const first = await openStream(served.url, served.headers, topics, { after: 'x.x,one.0' });
    await expect.poll(() => first.heard.position).toMatch(/,one\.1$/);
    await served.close();
    await expect.poll(first.isOver).toBe(true);
    await thread.must(many(5));
    const again = await serveStage(served);
    const { heard } = first;
    const before = heard.resets.length;
    await openStream(again.url, again.headers, topics, { heard });
    await expect.poll(() => heard.seqs).toEqual(upTo(6));
    expect(heard.resets.slice(before)).toEqual([{ topic: 'threads' }, { topic: 'approvals' }]);
    await thread.must(many(1));
    await expect.poll(() => heard.seqs).toEqual(upTo(7));
  });
});

describe('bounds', () => {
  test(
    'a slow reader is told to read anew while others run on, and memory stays',
    async () => {
      const served = await openServed();
      const thread = await openThread(served, 'one');
      const topics = ['thread:one'];
      const [slow, quick] = await Promise.all(
        [0, 1].map(() => openStream(served.url, served.headers, topics, { after: 'x.x,one.0' })),
      );
      if (!slow || !quick) throw new Error('two streams are open');
      await expect.poll(() => [slow.heard.seqs, quick.heard.seqs]).toEqual([[1], [1]]);
      slow.pause();
      global.gc?.();
      const before = process.memoryUsage().rss;
      // More than the buffers of both ends hold.
      for (let round = 0; round < 100; round++) await thread.must(many(400, 'y'.repeat(400)));
      await expect.poll(() => quick.heard.seqs.length).toBe(thread.seq);
      expect(quick.heard.resets).toEqual([]);
      expect(process.memoryUsage().rss - before).toBeLessThan(400 * 1024 * 1024);
      slow.resume();
      await expect.poll(() => slow.heard.resets.length).toBeGreaterThan(0);
      const [reset] = slow.heard.resets;
      // Up to there every event came, once.
      expect(reset).toEqual({ topic: 'thread:one', after: expect.any(Number) });
      const after = reset?.after ?? 0;
      expect(slow.heard.seqs.slice(0, after)).toEqual(upTo(after));
      await thread.must(many(1));
      await expect.poll(() => slow.heard.seqs.at(-1)).toBe(thread.seq);
    },
    timeoutMs(90_000),
  );

  test('200 streams are open at most', async () => {
    const served = await openServed();
    const streams = await Promise.all(
      Array.from({ length: 200 }, () => openStream(served.url, served.headers, ['threads'])),
    );
    expect(streams.every(({ status }) => status === 200)).toBe(true);
    const { status, answer } = await served.get('stream?topics=threads');
    expect(status).toBe(503);
    expect(answer.error?.code).toBe('unavailable');
    streams[0]?.cut();
    await expect
      .poll(async () => (await openStream(served.url, served.headers, ['threads'])).status)
      .toBe(200);
  });

  test('topics that nobody knows are refused', async () => {
    const served = await openServed();
    for (const topics of ['', 'thread:', 'all', `thread:${'x'.repeat(81)}`, 'thread:../a']) {
      const { status } = await served.get(`stream?topics=${encodeURIComponent(topics)}`);
      expect(status).toBe(400);
    }
    const lots = Array.from({ length: 31 }, (_, index) => `thread:t${index}`).join();
    expect((await served.get(`stream?topics=${lots}`)).status).toBe(400);
    const odd = await openStream(served.url, served.headers, ['threads'], {
      after: '%00,,,💥.1,x.99999999999999999999 a.b',
    });
    expect(odd.status).toBe(200);
  });
});

test('without a session there is no stream, and one that ends ends its streams', async () => {
  const served = await openServed();
  expect((await served.get('stream?topics=threads', {})).status).toBe(401);
  const headers = await login(served.url, served.link());
  const stream = await openStream(served.url, headers, ['threads']);
  const other = await openStream(served.url, served.headers, ['threads']);
  expect(stream.status).toBe(200);
  await fetch(`${served.url}/api/session`, { method: 'DELETE', headers });
  await expect.poll(stream.isOver).toBe(true);
  expect(other.isOver()).toBe(false);
});

test('threads of another process are seen live, and its own server tells the same', async () => {
  const files = { '.ai/directives/read.md': directiveText('read', { permissions: READ }) };
  const served = await openServed(files, { read: [read('notes/a.txt'), { text: 'done' }] });
  const web = await spawnWeb(served.fixture, '--port', '0');
  const headers = await login(web.url, web.link);
  const { heard } = await openStream(web.url, headers, ['threads', 'approvals']);
  const { thread_id: id } = await run(served, 'read');
  await expect.poll(() => heard.rows.get(id)?.status).toBe('completed');
  const page = await openStream(web.url, headers, [`thread:${id}`], { after: `x.x,${id}.0` });
  const journal = must(await served.threads.store.read(id));
  await expect.poll(() => page.heard.seqs).toEqual(upTo(journal.length));
});
