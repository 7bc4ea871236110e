// What the hub tells its clients, over a real registry and with real processes that write into it.
import { systemClock } from '@kernmantle/core/base';
import { must } from '@kernmantle/test-support/registry';
import { describe, expect, test } from 'vitest';
import { denied, joinHub, message, openLive, openThread, spawnWriter } from './support/live.ts';

const upTo = (last: number, first = 1): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

describe('rows, events and totals', () => {
  test('whoever listens is told what moves, and nobody else anything', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const list = joinHub(live.hub, ['threads']);
    const page = joinHub(live.hub, ['thread:one'], 'x.x,one.0');
    const other = joinHub(live.hub, ['thread:two']);
    await expect.poll(() => page.heard.seqs).toEqual([1]);
    await thread.must({ events: [message('hello'), denied('no')] });
    await expect
      .poll(() => list.heard.rows.get('one'))
      .toMatchObject({
        directive: 'deploy',
        status: 'running',
        seq: 3,
        denied: 1,
        due: 0,
        here: false,
      });
    await expect.poll(() => page.heard.seqs).toEqual([1, 2, 3]);
    expect(page.heard.rows.size).toBe(0);
    expect(list.heard.seqs).toEqual([]);
    expect(other.heard.frames.every((frame) => Object.keys(frame).length === 1)).toBe(true);
    await thread.must({ events: [message('bye')], status: 'completed' });
    await expect.poll(() => list.heard.totals).toEqual({ waits: 0, at_work: 0, ended: 1, due: 0 });
  });

  test('the hub drops positions of threads that a client does not listen to', async () => {
    let isThere = false;
    const live = await openLive(() => isThere);
    const thread = await openThread(live, 'one');
    await thread.must({ events: [message('x'), message('y')] });
    const client = joinHub(live.hub, []);
    client.change(['thread:two'], 'x.x,one.1,two.1');
    client.change(['threads', 'thread:one']);
    isThere = true;
    await expect.poll(() => client.heard.resets).toContainEqual({ topic: 'threads' });
    await thread.must({ events: [message('z')] });
    // With the position `one.1` it would get the events 2 and 3, too.
    await expect.poll(() => client.heard.seqs).toContain(4);
    expect(client.heard.seqs).toEqual([4]);
  });

  test('a row says what its thread does now and what it used of its limits', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const { heard } = joinHub(live.hub, ['threads']);
    const call = {
      call_id: 'c1',
      tool: 'fs/read_file',
      verb: 'execute',
      effect: 'read',
      arguments: {},
    };
    const turn = { max_tokens: 9, model: 'm', provider: 'p', key: 'k' };
    await thread.must({ events: [{ type: 'turn_start', data: turn }] });
    await expect.poll(() => heard.rows.get('one')?.now).toBe('reply');
    await thread.must({
      events: [
        { type: 'turn_end', data: { done: true } },
        { type: 'tool_call', data: call },
      ],
      charge: { tokens: 40n, spend: 2_500_000n },
      reserve: [{ key: 'k', amounts: { spend: 1_000_000n } }],
      cost: { turns: 1, tokens: 40, spend: '0.0025', duration_seconds: 3 },
      limits: {
        spend: { value: '0.50', from: 'policy', declared: true },
        turns: { value: 12, from: 'directive', declared: true },
      },
    });
    await expect.poll(() => heard.rows.get('one')?.now).toBe('fs/read_file');
    expect(heard.rows.get('one')?.meters).toContainEqual(
      expect.objectContaining({ name: 'spend', used: 0.0025, reserved: 0.001 }),
    );
    const marks = { labels: [], taint: [], sources: [] };
    const result = { call_id: 'c1', content: 'text', is_error: false, marks };
    await thread.must({ events: [{ type: 'tool_result', data: result }] });
    await expect.poll(() => heard.rows.get('one')?.seq).toBe(thread.seq);
    expect(heard.rows.get('one')?.now).toBeUndefined();
  });

  test('snapshot and stream have no gap between them', async () => {
    const live = await openLive();
    const threads = await Promise.all(['a', 'b', 'c'].map((id) => openThread(live, id)));
    joinHub(live.hub, ['approvals']);
    await expect.poll(() => live.hub.position()).not.toContain('.x');
    const position = live.hub.position();
    // Between the snapshot and the stream.
    await threads[1]?.must({ events: [message('x')] });
    const { heard } = joinHub(live.hub, ['threads'], position);
    await expect.poll(() => [...heard.rows.keys()]).toEqual(['b']);
    expect(heard.resets).toEqual([]);
  });

  test('a registry that is made later is read when it is there', async () => {
    let isThere = false;
    const live = await openLive(() => isThere);
    const { heard } = joinHub(live.hub, ['threads', 'thread:one']);
    expect(must(await live.hub.totals())).toEqual({ waits: 0, at_work: 0, ended: 0, due: 0 });
    const thread = await openThread(live, 'one');
    isThere = true;
    await expect.poll(() => heard.resets).toContainEqual({ topic: 'threads' });
    await thread.must({ events: [message('x')] });
    await expect.poll(() => heard.rows.get('one')?.seq).toBe(2);
    await expect.poll(() => heard.seqs).toContain(2);
  });
});

describe('nothing is lost', () => {
  test('10,000 events, cut off at random: every number once', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const steady = joinHub(live.hub, ['thread:one'], 'x.x,one.0');
    const seqs: number[] = [];
    let client = joinHub(live.hub, ['thread:one', 'threads'], 'x.x,one.0');
    let cuts = 0;
    const cut = (): void => {
      client.end();
      seqs.push(...client.heard.seqs);
      const { position } = client.heard;
      client = joinHub(
        live.hub,
        ['thread:one', 'threads'],
        position ?? `x.x,one.${seqs.at(-1) ?? 0}`,
      );
      cuts += 1;
    };
    while (thread.seq < 10_000) {
      const count = Math.min(10_000 - thread.seq, 1 + Math.floor(Math.random() * 200));
      const [first = message('x'), ...rest] = Array.from({ length: count }, () => message('x'));
      await thread.must({ events: [first, ...rest] });
      if (Math.random() < 0.3)
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
      if (Math.random() < 0.5) cut();
    }
    await expect.poll(() => [...seqs, ...client.heard.seqs].length).toBe(10_000);
    expect([...seqs, ...client.heard.seqs]).toEqual(upTo(10_000));
    await expect.poll(() => steady.heard.seqs.length).toBe(10_000);
    expect(cuts).toBeGreaterThan(10);
  });

  test('a slow reader is told to read anew while others run on', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const topics = ['thread:one', 'threads'];
    const [slow, quick] = [topics, topics].map((all) => joinHub(live.hub, all, 'x.x,one.0'));
    await expect.poll(() => [slow?.heard.seqs, quick?.heard.seqs]).toEqual([[1], [1]]);
    slow?.block(true);
    for (let index = 0; index < 10; index++) await thread.must({ events: [message('x')] });
    await expect.poll(() => quick?.heard.seqs).toEqual(upTo(11));
    // Rows have a pace of their own.
    await expect.poll(() => quick?.heard.rows.get('one')?.seq).toBe(11);
    expect(slow?.heard.seqs).toEqual([1]);
    const before = slow?.heard.resets.length ?? 0;
    slow?.block(false);
    await expect
      .poll(() => slow?.heard.resets.slice(before))
      .toEqual(expect.arrayContaining([{ topic: 'thread:one', after: 1 }, { topic: 'threads' }]));
    await thread.must({ events: [message('x')] });
    await expect.poll(() => slow?.heard.seqs).toEqual([1, 12]);
    expect(quick?.heard.resets.filter(({ topic }) => topic === 'thread:one')).toEqual([]);
  });

  test('who was away for too long reads the journal itself', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    for (let index = 0; index < 21; index++) {
      const [first = message('x'), ...rest] = Array.from({ length: 100 }, () => message('x'));
      await thread.must({ events: [first, ...rest] });
    }
    const { heard } = joinHub(live.hub, ['thread:one'], 'x.x,one.5');
    await expect.poll(() => heard.resets).toEqual([{ topic: 'thread:one', after: 5 }]);
    await thread.must({ events: [message('x')] });
    await expect.poll(() => heard.seqs).toEqual([thread.seq]);
  });

  test('a position of another process is answered with a reset, and events go on by number', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const first = joinHub(live.hub, ['threads', 'approvals', 'thread:one'], 'x.x,one.0');
    await expect.poll(() => first.heard.seqs).toEqual([1]);
    await expect.poll(() => first.heard.position).toContain('one.1');
    await live.hub.close();
    await thread.must({ events: [message('while nobody looked'), message('x')] });
    const next = joinHub(
      live.another(),
      ['threads', 'approvals', 'thread:one'],
      first.heard.position,
    );
    await expect.poll(() => next.heard.seqs).toEqual([2, 3]);
    expect(next.heard.resets).toEqual([{ topic: 'threads' }, { topic: 'approvals' }]);
  });
});

describe('other processes', () => {
  test('their threads are seen as they run', async () => {
    const live = await openLive();
    const { heard } = joinHub(live.hub, ['threads', 'thread:p0'], 'x.x,p0.0');
    const writer = spawnWriter(live.file, 'saturate', 'p', '3', '500');
    await writer.line(1);
    await expect.poll(() => [...heard.rows.keys()].toSorted()).toEqual(['p0', 'p1', 'p2']);
    const before = heard.seqs.length;
    writer.go();
    await expect.poll(() => heard.seqs.length).toBeGreaterThan(before + 10);
    await writer.ended();
    const row = must(await live.store.thread('p0'));
    await expect.poll(() => heard.seqs.at(-1)).toBe(row.seq);
    expect(heard.seqs).toEqual(upTo(row.seq));
    await expect.poll(() => heard.rows.get('p0')?.seq).toBe(row.seq);
  });

  test('a process that was killed is noticed', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'mine');
    await live.store.release(thread, { again: true });
    const { heard } = joinHub(live.hub, ['threads']);
    const writer = spawnWriter(live.file, 'work', 'mine');
    await writer.line(3);
    await writer.kill();
    await expect.poll(() => heard.rows.get('mine')?.status).toBe('interrupted');
  });
});

describe('approvals', () => {
  const asked = (id: string, expires?: number) => ({
    id,
    kind: 'call' as const,
    binding: { operation: `tool ${id}`, arguments: 'x' },
    shown: { operation: 'git/push', question: 'May it?', asked_by: ['rule'] },
    ...(expires === undefined ? {} : { expires }),
  });

  test('what a thread asks and what others decide is told, with its row', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const { heard } = joinHub(live.hub, ['threads', 'approvals']);
    await expect.poll(() => heard.position).not.toContain('.x');
    await thread.must({ events: [message('x')], ask: [asked('ap1')], status: 'waiting' });
    await expect.poll(() => heard.approvals.get('ap1')?.state).toBe('pending');
    await expect.poll(() => heard.rows.get('one')).toMatchObject({ due: 1, now: 'git/push' });
    expect(heard.totals).toEqual({ waits: 1, at_work: 0, ended: 0, due: 1 });
    const decision = { decision: 'approved', who: 'ann', channel: 'cli', why: '' } as const;
    must(await live.store.decide('ap1', decision));
    await expect
      .poll(() => heard.approvals.get('ap1'))
      .toMatchObject({ state: 'approved', who: 'ann' });
    await expect.poll(() => heard.rows.get('one')?.due).toBe(0);
  });

  test('a question that shows something else from now on is told anew', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const { heard } = joinHub(live.hub, ['approvals']);
    await expect.poll(() => heard.position).not.toContain('.x');
    const wish = asked('ap1');
    await thread.must({ events: [message('x')], ask: [wish], status: 'waiting' });
    await expect.poll(() => heard.approvals.get('ap1')?.state).toBe('pending');
    const before = heard.approvals.get('ap1')?.digest;
    const shown = { ...wish.shown, question: 'May it, over what is there now?' };
    must(await live.store.restate({ id: 'ap1', thread: 'one', shown }));
    await expect.poll(() => heard.approvals.get('ap1')?.shown).toEqual(shown);
    expect(heard.approvals.get('ap1')?.digest).not.toBe(before);
  });

  test('every use of an approval is told', async () => {
    const live = await openLive();
    const thread = await openThread(live, 'one');
    const { heard } = joinHub(live.hub, ['approvals']);
    await expect.poll(() => heard.position).not.toContain('.x');
    const wish = asked('ap1');
    await thread.must({ events: [message('x')], ask: [wish], status: 'waiting' });
    await expect.poll(() => heard.approvals.get('ap1')?.state).toBe('pending');
    const yes = { decision: 'approved', who: 'ann', channel: 'cli', why: '', uses: 2 } as const;
    must(await live.store.decide('ap1', yes));
    await expect.poll(() => heard.approvals.get('ap1')?.state).toBe('approved');
    const use = [{ approval: 'ap1', binding: wish.binding }];
    await thread.must({ use });
    await expect.poll(() => heard.approvals.get('ap1')?.uses).toBe(1);
    await thread.must({ use });
    await expect.poll(() => heard.approvals.get('ap1')).toMatchObject({ state: 'used', uses: 0 });
  });

  test('what is asked outside of threads is told, and what expires', async () => {
    const live = await openLive();
    const { heard } = joinHub(live.hub, ['approvals']);
    await expect.poll(() => heard.position).not.toContain('.x');
    must(await live.store.ask(asked('ap2', systemClock.now() + 1500)));
    await expect.poll(() => heard.approvals.get('ap2')?.state).toBe('pending');
    await expect.poll(() => heard.approvals.get('ap2')?.state).toBe('expired');
  });
});

test('text comes before the events of its flush, and never after its message', async () => {
  const live = await openLive();
  const thread = await openThread(live, 'one');
  const { heard } = joinHub(live.hub, ['thread:one'], 'x.x,one.0');
  await expect.poll(() => heard.seqs).toEqual([1]);
  live.hub.text('one', 'Hel');
  live.hub.text('one', 'lo');
  live.hub.text('two', 'nobody listens');
  await thread.must({ events: [message('x')] });
  await expect.poll(() => heard.seqs).toEqual([1, 2]);
  expect(heard.text).toBe('Hello');
  const kinds = heard.frames.map(({ kind }) => kind);
  expect(kinds.lastIndexOf('text')).toBeLessThan(kinds.lastIndexOf('batch'));
});

test('two hundred may listen, one more may not', async () => {
  const live = await openLive();
  const clients = Array.from({ length: 200 }, () => joinHub(live.hub, ['threads']));
  const refused = live.hub.subscribe({ topics: ['threads'], send: () => true });
  expect(refused).toMatchObject({ ok: false, error: { code: 'unavailable' } });
  expect(live.hub.figures()).toMatchObject({ clients: 200, sockets: 0 });
  clients[0]?.end();
  live.hub.subscribe({ topics: ['threads'], send: () => true, isSocket: true });
  expect(live.hub.figures()).toMatchObject({ clients: 200, sockets: 1 });
});

test('topics can change on the way', async () => {
  const live = await openLive();
  const [one, two] = await Promise.all(['one', 'two'].map((id) => openThread(live, id)));
  const client = joinHub(live.hub, ['thread:one'], 'x.x,one.1');
  await one?.must({ events: [message('x')] });
  await expect.poll(() => client.heard.seqs).toEqual([2]);
  client.change(['thread:two'], 'x.x,two.0');
  await expect.poll(() => client.heard.seqs).toEqual([2, 1]);
  await one?.must({ events: [message('x')] });
  await two?.must({ events: [message('x')] });
  await expect.poll(() => client.heard.seqs).toEqual([2, 1, 2]);
});
