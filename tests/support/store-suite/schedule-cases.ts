// Cases of the port for schedules: a tick is fired at most once, together with its thread.
import type { Outcome } from '@kernmantle/core/base';
import { expect, test } from 'vitest';

import type { AuditEntry, ScheduleRow, Store } from '../../../packages/core/src/store/port.ts';
import { staged } from './journal-cases.ts';
import { aThread, codeOf, must, type OpenStage, writerOf } from './stage.ts';

const MINUTE = 60_000;
const audit: AuditEntry = {
  surface: 'cli',
  caller: 'ada',
  subject: 'person',
  operation: 'schedule add',
  target: 'nightly',
  decision: 'allowed',
  reason: '',
};

const aSchedule = (more: Partial<ScheduleRow> = {}): ScheduleRow => ({
  id: 'sch_1',
  tenant: '',
  project: 'one',
  name: 'nightly',
  body: '{}',
  signature: 'sig',
  next: 1_700_000_000_000,
  stamp: '',
  open: [],
  waiting: null,
  last: null,
  outcome: null,
  paused: null,
  refused: 0,
  ...more,
});

const add = (store: Store, row: ScheduleRow) => store.fire({ row, set: {}, audit });

async function only(store: Store, name = 'nightly'): Promise<ScheduleRow> {
  const page = must(await store.schedules({ project: 'one', name }));
  const [row] = page.rows;
  if (!row) throw new Error(`no schedule ${name}`);
  return row;
}

const queued = (id: string) => aThread(id, { start: { queue: {} }, budget: { spend: 500n } });

function fireOnce(store: Store, row: ScheduleRow, thread: string): Promise<Outcome<unknown>> {
  return store.fire({
    row,
    set: { next: row.next + MINUTE, last: row.next, outcome: 'started' },
    fires: [{ tick: row.next, outcome: 'started', reason: '', thread }],
    thread: queued(thread),
  });
}

export function scheduleCases(open: OpenStage): void {
  const inStage = staged(open);

  test(
    'a schedule is added once, listed by name, and due at its time',
    inStage(async ({ store, clock }) => {
      const now = clock.now();
      must(await add(store, aSchedule({ next: now + MINUTE })));
      const again = await add(store, aSchedule({ id: 'sch_2' }));
      expect(codeOf(again)).toBe('conflict');
      must(await add(store, aSchedule({ id: 'sch_3', project: 'two' })));
      const page = must(await store.schedules({ project: 'one', tenant: '', due: true }));
      expect(page).toEqual({ rows: [], now, soonest: now + MINUTE });
      clock.pass(MINUTE);
      const due = must(await store.schedules({ project: 'one', tenant: '', due: true }));
      expect(due.rows).toMatchObject([{ name: 'nightly', waiting: null, refused: 0, open: [] }]);
      expect(must(await store.schedules({ project: 'one', tenant: 'x', due: true })).rows).toEqual(
        [],
      );
      const rows = must(await store.auditRows({ limit: 10 }));
      expect(rows.filter(({ operation }) => operation === 'schedule add')).toHaveLength(2);
    }),
  );

  test(
    'of two processes with the same tick, one fires it and creates its thread',
    inStage(async ({ store, another }) => {
      const other = await another();
      must(await add(store, aSchedule()));
      const row = await only(store);
      const both = await Promise.all([fireOnce(store, row, 't_a'), fireOnce(other, row, 't_b')]);
      expect(both.map(codeOf).toSorted()).toEqual(['conflict', 'ok']);
      const threads = must(await store.query({})).rows;
      expect(threads).toHaveLength(1);
      const fires = must(await store.fires(row.id, { since: 0 }));
      expect(fires).toMatchObject([{ tick: row.next, thread: threads[0]?.id, bound: 500n }]);
      expect((await only(other)).next).toBe(row.next + MINUTE);
    }),
  );

  test(
    'a tick with a row never gets another, also with a fresh row of the schedule',
    inStage(async ({ store }) => {
      must(await add(store, aSchedule()));
      const row = await only(store);
      must(await fireOnce(store, row, 't_a'));
      const fresh = { ...(await only(store)), next: row.next };
      expect(codeOf(await fireOnce(store, fresh, 't_b'))).toBe('conflict');
      expect(must(await store.query({})).rows).toHaveLength(1);
    }),
  );

  test(
    'a thread that cannot be created leaves the schedule unchanged',
    inStage(async ({ store }) => {
      must(await add(store, aSchedule()));
      must(await store.createThread(queued('t_a')));
      const row = await only(store);
      expect(codeOf(await fireOnce(store, row, 't_a'))).toBe('thread_exists');
      expect(await only(store)).toEqual(row);
      expect(must(await store.fires(row.id, { since: 0 }))).toEqual([]);
    }),
  );

  test(
    'a fire whose answer is lost is written once, one whose request is lost is repeated',
    inStage(async ({ store, faults }) => {
      must(await add(store, aSchedule()));
      faults.loseAnswer();
      must(await fireOnce(store, await only(store), 't_a'));
      faults.loseRequest();
      must(await fireOnce(store, await only(store), 't_b'));
      expect(must(await store.query({})).rows).toHaveLength(2);
      const row = await only(store);
      expect(must(await store.fires(row.id, { since: 0 }))).toHaveLength(2);
    }),
  );

  test(
    'a waiting tick becomes a run, and its row names the schedule of the thread',
    inStage(async ({ store }) => {
      must(await add(store, aSchedule()));
      const row = await only(store);
      const wait = { tick: row.next, outcome: 'waiting' as const, reason: '' };
      const next = row.next + MINUTE;
      must(await store.fire({ row, set: { next, waiting: row.next }, fires: [wait] }));
      const waiting = await only(store);
      expect(must(await store.schedules({ project: 'one', due: true })).rows).toEqual([waiting]);
      const run = { ...wait, outcome: 'started' as const, thread: 't_a' };
      must(
        await store.fire({
          row: waiting,
          set: { waiting: null },
          fires: [run],
          thread: queued('t_a'),
        }),
      );
      expect(must(await store.fires(row.id, { since: 0 }))).toMatchObject([{ outcome: 'started' }]);
      expect(must(await store.scheduleOf('t_a'))).toBe('nightly');
      expect(must(await store.scheduleOf('t_x'))).toBe('');
    }),
  );

  test(
    'an ended run counts what it used, a pruned one too, and old fires go with a prune',
    inStage(async ({ store, clock }) => {
      must(await add(store, aSchedule({ next: clock.now() })));
      const row = await only(store);
      must(await fireOnce(store, row, 't_a'));
      const [leased] = must(
        await store.take({ owner: 'here', ttlMs: MINUTE }, { count: 1, projects: ['one'] }),
      );
      if (!leased) throw new Error('nothing was queued');
      const writer = writerOf(store, leased);
      await writer.must({ status: 'running', charge: { spend: 120n } });
      const running = must(await store.fires(row.id, { since: 0 }));
      expect(running).toMatchObject([{ used: 120n, bound: 500n, status: 'running' }]);
      await writer.must({ status: 'completed', release: true });
      const ended = must(await store.fires(row.id, { since: 0 }));
      expect(ended).toMatchObject([{ used: 120n, bound: 120n, status: 'completed' }]);
      clock.pass(1);
      must(await store.prune({ before: clock.now() }));
      expect(must(await store.fires(row.id, { since: 0 }))).toMatchObject([{ bound: 120n }]);
      clock.pass(3 * 24 * 60 * MINUTE);
      must(await store.prune({ before: clock.now(), project: 'two' }));
      expect(must(await store.fires(row.id, { since: 0 }))).toHaveLength(1);
      must(await store.prune({ before: clock.now(), project: 'one' }));
      expect(must(await store.fires(row.id, { since: 0 }))).toEqual([]);
    }),
  );

  test(
    'a removed schedule is gone, and a name that is added again is another schedule',
    inStage(async ({ store }) => {
      must(await add(store, aSchedule()));
      const row = await only(store);
      must(await store.fire({ row, set: {}, remove: true, audit }));
      expect(codeOf(await store.fire({ row, set: {}, remove: true }))).toBe('not_found');
      must(await add(store, aSchedule({ id: 'sch_2' })));
      expect(codeOf(await fireOnce(store, row, 't_a'))).toBe('not_found');
      must(await fireOnce(store, await only(store), 't_a'));
    }),
  );
}
