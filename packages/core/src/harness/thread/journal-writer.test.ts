import { openMemoryStore } from '@kernmantle/test-support/late-store';
import { makeClock, must } from '@kernmantle/test-support/registry';
import { beforeEach, expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import { decodeAll, type JournalEvent } from '../../journal/index.ts';
import type { Store } from '../../store/index.ts';
import { JournalWriter } from './journal-writer.ts';

const ID = 'one';
const OWNER = { owner: 'me', ttlMs: 30_000 };
let store: Store;
let journal: JournalWriter;
let told: string[];
let alarms: number;
let commits: number;
let now: number;

async function open(more: Partial<Store> = {}): Promise<void> {
  const held = must(
    await store.createThread({
      id: ID,
      directive: 'd',
      version: '1.0.0',
      runner: 'safety',
      project: '/project',
      limits: {},
      budget: { tokens: 100n },
      inputs: {},
      events: [],
      start: { lease: OWNER },
    }),
  );
  journal = new JournalWriter(held, 0, 0, {
    store: {
      ...store,
      ...more,
      async commit(...given) {
        commits += 1;
        return await (more.commit ?? store.commit)(...given);
      },
    },
    now: () => now,
    transcribe(events, first) {
      for (const [at, { type }] of events.entries()) told.push(`${first + at} ${type}`);
    },
    alarmed() {
      alarms += 1;
    },
    wrong({ error }) {
      told.push(`wrong ${error.detail.message}`);
    },
    unwritten(rows) {
      for (const { operation } of rows) told.push(`unwritten ${operation}`);
    },
  });
}

beforeEach(async () => {
  store = await openMemoryStore({ clock: makeClock() }, 7);
  [told, alarms, commits, now] = [[], 0, 0, 0];
});

const said = (text: string): JournalEvent => ({
  type: 'user_message',
  data: { text, marks: { labels: [], taint: [], sources: [] } },
});
const TURN: JournalEvent = {
  type: 'turn_start',
  data: { max_tokens: 1, model: 'm', provider: 'p', key: 'k' },
};
/** Without its birth. */
const written = async (): Promise<string[]> =>
  must(await store.read(ID))
    .slice(1)
    .map(({ type, data }) => `${type} ${JSON.stringify(data.text ?? data.status ?? '')}`);
const reserve = (key: string, tokens: bigint) => ({ reserve: [{ key, amounts: { tokens } }] });

test('what is noted meanwhile goes as one commit, in order, and is told when it is there', async () => {
  await open();
  journal.note(said('a'));
  journal.note(said('b'), { cost: { of: 'b' } });
  expect(journal.seq()).toBe(3);
  const flushing = journal.flush();
  for (const text of ['c', 'd', 'e']) journal.note(said(text));
  expect(told).toEqual([]);
  await flushing;
  expect(await written()).toEqual(['a', 'b', 'c', 'd', 'e'].map((x) => `user_message "${x}"`));
  expect(told).toEqual([2, 3, 4, 5, 6].map((seq) => `${seq} user_message`));
  expect(commits).toBe(2);
  expect(must(await store.thread(ID)).cost).toEqual({ of: 'b' });
});

test('with nothing after it, it is written by the end of the round', async () => {
  await open();
  journal.note(said('a'));
  await expect.poll(async () => (await written()).length).toBe(1);
});

test('a refusal takes nothing along, and the thread is not lost', async () => {
  await open();
  journal.note(said('before'));
  const asked = journal.commit(TURN, reserve('k', 200n));
  journal.note(said('after'));
  expect(await asked).toMatchObject({ ok: false, error: { code: 'tokens_exceeded' } });
  expect(await journal.flush()).toBe(true);
  expect(await written()).toEqual(['user_message "before"', 'user_message "after"']);
  expect(journal.lost()).toBeUndefined();
});

test('what was used is charged before more is set aside, in one commit', async () => {
  await open();
  must(await journal.commit(TURN, reserve('first', 90n)));
  journal.note(said('reply'), { settle: [{ key: 'first', actual: { tokens: 10n } }] });
  must(await journal.commit(TURN, reserve('second', 90n)));
  expect(commits).toBe(2);
  const [budget] = must(await store.budgets([ID]));
  expect(budget).toMatchObject({ used: { tokens: 10n }, reserved: { tokens: 90n } });
});

test('a change of status is an event', async () => {
  await open();
  journal.note(said('a'), { status: 'paused' });
  await journal.flush();
  expect(await written()).toEqual(['status "paused"', 'user_message "a"']);
});

test('whoever lost the thread writes nothing more, and everybody who waits is told', async () => {
  await open();
  must(await store.claim(ID, { owner: 'another', ttlMs: 30_000 }, { force: true }));
  journal.note(said('late'));
  const asked = journal.commit(TURN, reserve('k', 1n));
  expect(await journal.flush()).toBe(false);
  expect(await asked).toMatchObject({ ok: false, error: { code: 'stale_epoch' } });
  expect(journal.lost()?.error.code).toBe('stale_epoch');
  expect(journal.hasLease()).toBe(false);
  expect(alarms).toBeGreaterThan(0);
  journal.note(said('never'));
  expect(await written()).toEqual([]);
});

test('the lease is a local deadline; before an effect an old answer is asked for again', async () => {
  await open();
  now = 29_999;
  expect(journal.hasLease()).toBe(true);
  now = 30_000;
  expect(journal.hasLease()).toBe(false);
  now = 1000;
  expect(await journal.confirm()).toBe(true);
  now = 1100;
  must(await store.claim(ID, { owner: 'another', ttlMs: 30_000 }, { force: true }));
  // Young enough to be believed; the fence would refuse what comes of it.
  expect(await journal.confirm()).toBe(true);
  now = 1300;
  expect(await journal.confirm()).toBe(false);
});

test('signals come with the answer, wait until they are obeyed, and come once', async () => {
  await open();
  const message = { thread: ID, kind: 'message', payload: {}, by: 'me' };
  must(await store.signal({ ...message, key: 'a' }));
  journal.note(said('a'));
  await journal.flush();
  expect(journal.signals().map(({ key }) => key)).toEqual(['a']);
  must(await store.signal({ ...message, key: 'b' }));
  await journal.listen();
  expect(journal.signals().map(({ key }) => key)).toEqual(['a', 'b']);
  journal.acknowledge(1);
  journal.note(said('b'));
  await journal.flush();
  expect(journal.signals().map(({ key }) => key)).toEqual(['b']);
});

test('a park that something crosses is refused with it, and the next one holds', async () => {
  await open();
  await store.signal({ thread: ID, kind: 'message', payload: {}, key: 'a', by: 'me' });
  const park = { status: 'waiting', release: true, quiet: true } as const;
  const crossed = await journal.commit([], park);
  expect(crossed).toMatchObject({ ok: false, error: { code: 'signalled' } });
  expect(journal.signals()).toHaveLength(1);
  journal.acknowledge(1);
  must(await journal.commit([], park));
  expect(must(await store.thread(ID)).status).toBe('waiting');
});

test('what was rolled back is sent again while the lease lasts', async () => {
  let busy = 2;
  const slow: Store['commit'] = async (...given) => {
    busy -= 1;
    return busy >= 0
      ? { ok: false, error: { code: 'store_busy', detail: { message: 'busy' } } }
      : await store.commit(...given);
  };
  await open({ commit: slow });
  journal.note(said('a'));
  expect(await journal.flush()).toBe(true);
  expect(await written()).toEqual(['user_message "a"']);
  expect(ok(commits)).toEqual(ok(3));
});

test('a commit that finds no room is given up, also while the lease is renewed', async () => {
  const full = fail('disk_full', 'the disk is full');
  await open({
    async commit(...given) {
      now += 10_000;
      journal.renewed({ lease_ms: 30_000, signals: [] }, now);
      return now > 100_000 ? await store.commit(...given) : full;
    },
  });
  expect(await journal.commit(said('a'), {})).toEqual(full);
  expect(journal.lost()).toEqual(full);
  expect(commits).toBe(3);
});

test('a lease that ran out because nothing could be written is lost for that reason', async () => {
  const full = fail('disk_full', 'the disk is full');
  const answers = [full, fail('lease_expired', 'the lease ran out')];
  await open({ commit: async () => answers.shift() ?? full });
  expect(await journal.commit(said('a'), {})).toEqual(full);
  expect(journal.lost()).toEqual(full);
  expect(commits).toBe(2);
});

const row = (operation: string) => ({
  surface: 'thread',
  caller: 't',
  subject: 'token:1',
  operation,
  target: '',
  decision: 'allowed' as const,
  reason: '',
});
const rows = async (): Promise<string[]> =>
  must(await store.auditRows({ limit: 9 })).map(({ operation }) => operation);

test('rows of the audit ride with the next commit, also when what may be refused was', async () => {
  await open();
  journal.audit(row('first'));
  expect(commits).toBe(0);
  const refused = journal.commit(said('no room'), {
    reserve: [{ key: 'k', amounts: { tokens: 1000n } }],
  });
  expect((await refused).ok).toBe(false);
  journal.audit(row('second'));
  journal.note(said('more'));
  await journal.flush();
  expect(await rows()).toEqual(['first', 'second']);
});

test('rows that nobody can commit any more are handed on, once', async () => {
  await open({ commit: async () => fail('stale_epoch', 'held by somebody else') });
  journal.audit(row('done'));
  journal.note(said('more'));
  expect(await journal.flush()).toBe(false);
  expect(journal.audit(row('late'))).toBe(false);
  expect(told).toEqual(['unwritten done']);
  expect(await rows()).toEqual([]);
});

test('an event that its reader would refuse is not written: an error is in its place', async () => {
  await open();
  const odd = { type: 'limit', data: { name: 'limit', code: 'spend_exceeded', limit: 'spend' } };
  const nan = { ...odd, data: { ...odd.data, current: Number.NaN, max: 1 } } as JournalEvent;
  const unknown = { type: 'nothing', data: {} } as unknown as JournalEvent;
  journal.note([said('a'), nan]);
  const refused = await journal.commit([TURN, unknown], reserve('k', 1n));
  expect(refused).toMatchObject({ ok: false, error: { code: 'internal_error' } });
  expect((await journal.commit(said('b'), {})).ok).toBe(true);
  const stored = must(await store.read(ID));
  const events = decodeAll(stored);
  expect(events.ok && events.output.slice(1).map(({ type }) => type)).toEqual([
    'user_message',
    'error',
    'turn_start',
    'error',
    'user_message',
  ]);
  expect(told.filter((one) => one.startsWith('wrong'))).toEqual([
    'wrong event `limit` cannot be recorded: field `current` is invalid',
    'wrong event `nothing` cannot be recorded: field `type` is invalid',
  ]);
});
