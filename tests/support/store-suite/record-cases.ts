// Cases 39-43 and 45 of the port: watching, lists, data beside the journal, and the removal of threads.
import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Head, StoredEvent, ThreadSummary } from '../../../packages/core/src/store/port.ts';
import { type InStage, staged } from './journal-cases.ts';
import { aThread, bear, begin, codeOf, event, must, type OpenStage, owner } from './stage.ts';

const hashOf = (bytes: Uint8Array): string => `sha256:${hash('sha256', bytes)}`;

async function collect<T>(list: AsyncIterable<T>, into: T[]): Promise<void> {
  for await (const one of list) into.push(one);
}

async function until(isSo: () => boolean): Promise<void> {
  await expect.poll(isSo, { interval: 2 }).toBe(true);
}

function watching(inStage: InStage): void {
  test(
    'a watcher sees every event once, from the start and from the middle, from every process',
    inStage(async ({ store, another }) => {
      const other = await another();
      const writer = await begin(store, 't');
      for (let index = 0; index < 300; index++) {
        await writer.must({ events: [event(`${index}`), event('more')] });
      }
      const stop = new AbortController();
      const seen: StoredEvent[][] = [[], [], []];
      const watches = [
        collect(store.watch({ thread: 't', seq: 0 }, stop.signal), seen[0] ?? []),
        collect(other.watch({ thread: 't', seq: 400 }, stop.signal), seen[1] ?? []),
        collect(other.watch({ thread: 'unborn', seq: 0 }, stop.signal), seen[2] ?? []),
      ];
      await writer.must();
      must(await store.createThread(aThread('unborn')));
      await until(
        () => seen[0]?.length === 602 && seen[1]?.length === 202 && seen[2]?.length === 1,
      );
      for (let index = 0; index < 20; index++) await writer.must();
      await until(() => seen[0]?.length === 622 && seen[1]?.length === 222);
      stop.abort();
      await Promise.all(watches);
      expect(seen[0]?.map(({ seq }) => seq)).toEqual(
        Array.from({ length: 622 }, (_, at) => at + 1),
      );
      expect(seen[1]?.map(({ seq }) => seq)).toEqual(
        Array.from({ length: 222 }, (_, at) => at + 401),
      );
      expect(seen[0]).toEqual(must(await store.read('t')));
    }),
  );

  test(
    'a watch ends with the store, and a slow one holds nobody up',
    inStage(async ({ store, another }) => {
      const other = await another();
      const writer = await begin(store, 't');
      const never = new AbortController();
      const slow = other.watch({ thread: 't', seq: 0 }, never.signal)[Symbol.asyncIterator]();
      expect((await slow.next()).value).toMatchObject({ seq: 1 });
      for (let index = 0; index < 50; index++) await writer.must();
      const rest: StoredEvent[] = [];
      const watched = collect({ [Symbol.asyncIterator]: () => slow }, rest);
      await until(() => rest.length === 50);
      await other.close();
      await watched;
      const [late]: [StoredEvent[]] = [[]];
      await collect(other.watch({ thread: 't', seq: 0 }, never.signal), late);
      expect(late).toEqual([]);
    }),
  );

  test(
    'the last state of every thread that moves arrives',
    inStage(async ({ store, another }) => {
      const other = await another();
      const writers = await Promise.all(['a', 'b', 'c'].map((id) => begin(store, id)));
      const stop = new AbortController();
      const [all, some, here]: [Head[], Head[], Head[]] = [[], [], []];
      const watches = [
        collect(other.changes({}, stop.signal), all),
        collect(other.changes({ threads: ['b'] }, stop.signal), some),
        collect(store.changes({ threads: ['a', 'b'] }, stop.signal), here),
      ];
      for (const writer of writers) {
        for (let index = 0; index < 10; index++) await writer.must();
        await writer.must({ status: 'completed', release: true });
      }
      const last = (heads: readonly Head[], id: string) =>
        heads.findLast(({ thread }) => thread === id);
      const end = { seq: 12, status: 'completed' };
      await until(() => ['a', 'b', 'c'].every((id) => last(all, id)?.seq === 12));
      await until(() => last(some, 'b')?.seq === 12 && last(here, 'a')?.seq === 12);
      stop.abort();
      await Promise.all(watches);
      for (const id of ['a', 'b', 'c']) expect(last(all, id)).toEqual({ thread: id, ...end });
      expect(new Set(some.map(({ thread }) => thread))).toEqual(new Set(['b']));
      expect(last(here, 'c')).toBe(undefined);
    }),
  );
}

function lists(inStage: InStage): void {
  test(
    'pages have no doubles while rows are added, and what is given is only ever a value',
    inStage(async ({ store, clock }) => {
      const root = await begin(store, 'root');
      for (let index = 0; index < 12; index++) {
        clock.pass(index % 3);
        await bear(store, root, `c${index}`, { project: index % 2 ? 'two' : 'one' });
      }
      const seen: ThreadSummary[] = [];
      let cursor: string | undefined;
      do {
        const page = must(
          await store.query({ parent: 'root', limit: 5, ...(cursor && { cursor }) }),
        );
        seen.push(...page.rows);
        cursor = page.next_cursor;
        clock.pass(1);
        await bear(store, root, `new${seen.length}`);
      } while (cursor !== undefined);
      expect(seen).toHaveLength(12);
      expect(new Set(seen.map(({ id }) => id)).size).toBe(12);
      expect(seen[0]?.id).toBe('c11');
      const ids = async (filter: Parameters<typeof store.query>[0]) =>
        must(await store.query(filter)).rows.map(({ id }) => id);
      expect(await ids({ project: 'two', direction: 'asc', limit: 3 })).toEqual(['c1', 'c3', 'c5']);
      expect(await ids({ within: 'c3' })).toEqual(['c3']);
      expect(await ids({ root: 'root', status: ['completed', 'failed'] })).toEqual([]);
      expect(await ids({ directive: "x' OR '1' = '1" })).toEqual([]);
      expect(await ids({ parent: "root'; DROP TABLE threads; --" })).toEqual([]);
      const wrong = [{ status: 'strange' as never }, { status: [] }, { cursor: 'nonsense' }];
      for (const filter of wrong) expect(codeOf(await store.query(filter))).toBe('invalid_input');
      await root.must();
      expect((await ids({ order_by: 'updated', limit: 1 }))[0]).toBe('root');
      const [row] = must(await store.query({ within: 'c3' })).rows;
      expect(Object.keys(row ?? {})).not.toContain('inputs');
    }),
  );
}

function records(inStage: InStage): void {
  test(
    'artifacts are found by their hash, by their own thread only',
    inStage(async ({ store }) => {
      await begin(store, 'one');
      await begin(store, 'two');
      const bytes = Buffer.from('a large result');
      const secrets = [{ number: 1, sealed: Buffer.from('sealed') }];
      const hash = must(await store.putArtifact('one', bytes, secrets));
      expect(hash).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(must(await store.putArtifact('one', bytes, secrets))).toBe(hash);
      expect(Buffer.from(must(await store.artifact('one', hash))).toString()).toBe(
        'a large result',
      );
      expect(codeOf(await store.artifact('two', hash))).toBe('not_found');
      expect(codeOf(await store.putArtifact('nobody', bytes))).toBe('not_found');
      expect(must(await store.secrets('one'))).toHaveLength(1);
      const other = [{ number: 1, sealed: Buffer.from('other') }];
      expect(codeOf(await store.putArtifact('one', Buffer.from('b'), other))).toBe('conflict');
    }),
  );

  test(
    'a thread is created with its artifacts, or without both',
    inStage(async ({ store }) => {
      const files = ['one file', 'another'].map((text) => Buffer.from(text));
      const artifacts = new Map(files.map((bytes) => [hashOf(bytes), bytes]));
      must(await store.createThread(aThread('one'), artifacts));
      for (const [name, bytes] of artifacts) {
        expect(Buffer.from(must(await store.artifact('one', name)))).toEqual(bytes);
      }
      const late = Buffer.from('too late');
      const again = await store.createThread(aThread('one'), new Map([[hashOf(late), late]]));
      expect(codeOf(again)).toBe('thread_exists');
      expect(codeOf(await store.artifact('one', hashOf(late)))).toBe('not_found');
      const large = Buffer.alloc(64 * 1024 * 1024 + 1);
      const refused = await store.createThread(aThread('two'), new Map([['large', large]]));
      expect(codeOf(refused)).toBe('invalid_input');
      expect(codeOf(await store.thread('two'))).toBe('not_found');
    }),
  );

  test(
    'secrets are kept only when their commit was',
    inStage(async ({ store }) => {
      const writer = await begin(store, 't', { budget: { tokens: 1n } });
      const secrets = [
        { number: 2, sealed: Buffer.from('two') },
        { number: 1, sealed: Buffer.from('one') },
      ];
      expect(codeOf(await writer.commit({ secrets, charge: { tokens: 2n } }))).toBe(
        'tokens_exceeded',
      );
      expect(must(await store.secrets('t'))).toEqual([]);
      await writer.must({ secrets });
      const kept = must(await store.secrets('t'));
      expect(kept.map(({ number, sealed }) => [number, Buffer.from(sealed).toString()])).toEqual([
        [1, 'one'],
        [2, 'two'],
      ]);
    }),
  );

  test(
    'audit rows are kept in their order, and found by their decision',
    inStage(async ({ store }) => {
      const row = {
        surface: 'cli',
        caller: 'me',
        subject: 'x',
        operation: 'o',
        target: 'z'.repeat(600),
        reason: 'r',
      };
      must(await store.audit([{ ...row, decision: 'allowed' }]));
      must(await store.audit([{ ...row, decision: 'denied', operation: 'y'.repeat(600) }]));
      must(await store.audit([{ ...row, decision: 'allowed', reason: 'last' }]));
      const all = must(await store.auditRows({ limit: 2 }));
      expect(all.map(({ decision }) => decision)).toEqual(['denied', 'allowed']);
      expect(all[0]?.operation).toHaveLength(501);
      expect(all[0]?.target).toHaveLength(501);
      expect(all[0]?.time).toMatch(/^20\d\d-/);
      const allowed = must(await store.auditRows({ limit: 9, decision: 'allowed' }));
      expect(allowed.map(({ reason }) => reason)).toEqual(['r', 'last']);
    }),
  );

  test(
    'audit rows are found by thread, tool, surface and time, and by all of them at once',
    inStage(async ({ store, clock }) => {
      const row = {
        surface: 'thread',
        caller: 't1',
        subject: 'token:1',
        operation: 'tool:fs/write_file',
        target: 'a.txt',
        decision: 'allowed' as const,
        reason: '',
      };
      must(await store.audit([row]));
      must(await store.audit([{ ...row, operation: 'load:tool:fs/write_file', caller: 't2' }]));
      clock.pass(1000);
      const since = new Date(clock.now()).toISOString();
      must(await store.audit([{ ...row, operation: 'tool:other_write_file', decision: 'failed' }]));
      must(await store.audit([{ ...row, surface: 'cli', caller: 'ada', target: 't1' }]));
      const found = async (filter: object): Promise<string[]> =>
        must(await store.auditRows({ limit: 9, ...filter })).map(
          ({ caller, operation }) => `${caller} ${operation}`,
        );
      const [mine, adas] = ['t1 tool:fs/write_file', 'ada tool:fs/write_file'];
      expect(await found({ tool: 'fs/write_file' })).toEqual([mine, adas]);
      expect(await found({ tool: 'write_file' })).toEqual([mine, adas]);
      expect(await found({ tool: 'e_file' })).toEqual([]);
      expect(await found({ thread: 't1' })).toEqual([mine, 't1 tool:other_write_file', adas]);
      expect(await found({ surface: 'cli' })).toEqual([adas]);
      expect(await found({ since })).toEqual(['t1 tool:other_write_file', adas]);
      expect(await found({ since, decision: 'failed', thread: 't1' })).toEqual([
        't1 tool:other_write_file',
      ]);
      expect(await found({ thread: "t1' OR 1" })).toEqual([]);
    }),
  );

  test(
    'what a person says and its row are one: neither is there without the other',
    inStage(async ({ store }) => {
      const row = {
        surface: 'cli',
        caller: 'ada',
        subject: 'person',
        operation: 'pause',
        target: 't',
        decision: 'allowed' as const,
        reason: '',
      };
      const word = { thread: 't', kind: 'pause', payload: {}, key: 'k', by: 'ada (cli)' };
      expect(codeOf(await store.signal(word, row))).toBe('not_found');
      const writer = await begin(store, 't');
      must(await store.signal(word, row));
      const ask = [{ id: 'ap_1', kind: 'question' as const, binding: { q: 1 }, shown: {} }];
      await writer.must({ ask });
      const given = { decision: 'denied', who: 'ada', channel: 'cli', why: '' } as const;
      must(await store.decide('ap_1', given, { ...row, operation: 'deny' }));
      expect(codeOf(await store.decide('ap_1', given, { ...row, operation: 'deny' }))).toBe(
        'conflict',
      );
      const rows = must(await store.auditRows({ limit: 9 }));
      expect(rows.map(({ operation }) => operation)).toEqual(['pause', 'deny']);
    }),
  );
}

function ends(inStage: InStage): void {
  test(
    'old trees go whole; budgets and audit stay, and ids are not given again',
    inStage(async ({ store, clock }) => {
      const audit = [
        {
          surface: 's',
          caller: 'c',
          subject: 's',
          operation: 'o',
          target: '',
          decision: 'denied' as const,
          reason: 'r',
        },
      ];
      const end = { status: 'completed' as const, release: true as const };
      for (const [id, status] of [
        ['old', 'completed'],
        ['failed', 'failed'],
      ] as const) {
        const root = await begin(store, id, { budget: { tokens: 5n } });
        const child = await bear(store, root, `${id}_child`);
        await child.must(end);
        await root.must({ charge: { tokens: 3n }, audit, ...end, status });
      }
      must(await store.putArtifact('old', Buffer.from('x')));
      const living = await begin(store, 'living');
      await (await bear(store, living, 'living_child')).must(end);
      clock.pass(1000);
      const young = await begin(store, 'young');
      await young.must(end);
      const { removed } = must(await store.prune({ before: clock.now(), keepFailed: true }));
      expect(removed.sort()).toEqual(['old', 'old_child']);
      expect(codeOf(await store.thread('old'))).toBe('not_found');
      expect(must(await store.read('old'))).toEqual([]);
      expect(must(await store.budgets(['old']))).toMatchObject([{ used: { tokens: 3n } }]);
      expect(must(await store.auditRows({ limit: 9 }))).toHaveLength(2);
      expect(codeOf(await store.createThread(aThread('old')))).toBe('thread_exists');
      expect(codeOf(await living.commit({ children: [aThread('old_child')] }))).toBe(
        'thread_exists',
      );
      for (const id of ['living', 'living_child', 'young', 'failed']) must(await store.thread(id));
      expect(must(await store.prune({ before: clock.now(), trees: 0 })).removed).toEqual([]);
      const other = { before: clock.now(), project: 'other' };
      expect(must(await store.prune(other)).removed).toEqual([]);
      const rest = must(await store.prune({ before: clock.now(), project: 'one' })).removed;
      expect(rest.sort()).toEqual(['failed', 'failed_child']);
    }),
  );

  test(
    'trees of one project go, and those that began in another stay',
    inStage(async ({ store, clock }) => {
      const end = { status: 'completed' as const, release: true as const };
      for (const project of ['one', 'other']) {
        const root = await begin(store, project, { project });
        await (await bear(store, root, `${project}_child`, { project: 'one' })).must(end);
        await root.must(end);
      }
      clock.pass(1000);
      const { removed } = must(await store.prune({ before: clock.now(), project: 'one' }));
      expect(removed.sort()).toEqual(['one', 'one_child']);
      for (const id of ['other', 'other_child']) must(await store.thread(id));
    }),
  );

  test(
    'no name, however odd, keeps a row out of the audit or a commit from being made',
    inStage(async ({ store }) => {
      const odd = 'a\0b\ud800';
      const row = { surface: 's', caller: odd, subject: odd, operation: odd, target: odd };
      const audit = [{ ...row, decision: 'denied' as const, reason: odd }];
      const root = await begin(store, 'a');
      await root.must({ audit });
      must(await store.audit(audit));
      const signal = { thread: 'a', kind: 'message', payload: {}, key: 'k', by: 'b' };
      must(await store.signal(signal, audit[0]));
      const rows = must(await store.auditRows({ limit: 9 }));
      expect(rows.map(({ target }) => target.slice(0, 1))).toEqual(['a', 'a', 'a']);
    }),
  );

  test(
    'whoever asked before the end is answered, whoever asks after it is told',
    inStage(async ({ store }) => {
      const writers = await Promise.all(
        Array.from({ length: 20 }, (_, index) => begin(store, `t${index}`)),
      );
      const asked = writers.map((writer) => writer.commit());
      const taking = store.take(owner(), { count: 1, projects: ['one'], waitMs: 60_000 });
      const sweeping = store.sweep();
      const closing = store.close();
      const late = [writers[0]?.commit(), store.thread('t1'), store.sweep(), store.signals('t1')];
      expect((await Promise.all(asked)).map(codeOf)).toEqual(asked.map(() => 'ok'));
      expect([codeOf(await sweeping), must(await taking)]).toEqual(['ok', []]);
      await closing;
      for (const answer of late) expect(answer && codeOf(await answer)).toBe('store_closed');
      expect(codeOf(await store.createThread(aThread('more')))).toBe('store_closed');
      await store.close();
    }),
  );
}

export function recordCases(open: OpenStage): void {
  const inStage = staged(open);
  watching(inStage);
  lists(inStage);
  records(inStage);
  ends(inStage);
}
