import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { JOURNAL_FORMATS } from '../src/postgres/schema.ts';
import { createSharedDatabase, type SharedDatabase } from './support/shared-database.ts';

const url = inject('postgres');
const skipped = url === '' ? ' (skipped: no server can be started here)' : '';
const DAY = 86_400_000;
const NOON = 20_000 * DAY + DAY / 2;

describe.skipIf(url === '')(`limits that machines share${skipped}`, () => {
  let shared: SharedDatabase;
  beforeAll(async () => {
    shared = await createSharedDatabase(url);
  });
  afterAll(async () => await shared?.drop());
  beforeEach(async () => {
    await shared.query(
      'TRUNCATE workers, shared_limits, places, rate_buckets, day_spend, waiting, label_rows, label_heads, threads',
    );
    await shared.setClock(NOON);
  });

  const enter = async (more: Partial<Parameters<SharedDatabase['fleet']['enter']>[0]> = {}) => {
    const ask = { provider: 'p', tenant: '', owner: 'w1', tokens: 10, spend: 5n, ttlMs: 20_000 };
    const answer = await shared.fleet.enter({ ...ask, ...more });
    if (!answer.ok) return answer.error.code;
    return 'place' in answer.output ? answer.output.place : answer.output;
  };
  type Entered = Awaited<ReturnType<typeof enter>>;
  const nameOf = (entered: Entered): string => (typeof entered === 'string' ? entered : 'none');
  const exit = (place: Entered, tokens = 10, spend = 5n) =>
    shared.fleet.exit(nameOf(place), { tokens, spend });
  const isIn = (answer: unknown): boolean => typeof answer === 'string' && /^\d+$/.test(answer);
  const limit = (scope: string, figures: object) => shared.fleet.setLimit({ scope, ...figures });

  test('without a limit nobody is counted, and nothing is written', async () => {
    expect(await enter()).toBe('');
    expect(await exit('')).toEqual({ ok: true, output: null });
    expect(await shared.query('SELECT * FROM places')).toEqual([]);
  });

  test('limits are set, read, changed and taken away; what is none is refused', async () => {
    const all = { concurrent: 50, requests_per_minute: 1000, tokens_per_minute: 2_000_000 };
    await limit('provider:anthropic', all);
    await limit('tenant:acme', { spend_per_day: 12_000_000_000_000_000_001n });
    await limit('provider:gone', { concurrent: 1 });
    await limit('provider:gone', {});
    expect(await shared.fleet.limits()).toEqual({
      ok: true,
      output: [
        { scope: 'provider:anthropic', ...all },
        { scope: 'tenant:acme', spend_per_day: 12_000_000_000_000_000_001n },
      ],
    });
    for (const [scope, figures] of [
      ['acme', { concurrent: 1 }],
      ['provider:', { concurrent: 1 }],
      ['provider:x', { concurrent: 1.5 }],
      ['provider:x', { requests_per_minute: -1 }],
      ['provider:x', { spend_per_day: -1n }],
    ] as const) {
      expect(await limit(scope, figures)).toMatchObject({ error: { code: 'invalid_input' } });
    }
  });

  test('of 200 that ask at once over many connections exactly as many as may are let in', async () => {
    await limit('provider:p', { concurrent: 7 });
    await limit('tenant:-', { concurrent: 5 });
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, at) => enter({ owner: `w${at}` })),
    );
    expect(answers.filter(isIn)).toHaveLength(5);
    expect(await enter({ tenant: 'other', owner: 'x' })).toSatisfy(isIn);
    expect(await enter({ tenant: 'other', owner: 'x' })).toSatisfy(isIn);
    expect(await enter({ tenant: 'other', owner: 'x' })).toMatchObject({
      scope: 'provider:p',
      limit: 'concurrent',
    });
  });

  test('a place is free when it was given back, and only once', async () => {
    await limit('provider:p', { concurrent: 1 });
    const first = await enter();
    expect(await enter()).toMatchObject({ limit: 'concurrent' });
    await exit(first);
    await exit(first);
    const second = await enter();
    expect(second).toSatisfy(isIn);
    await exit(first);
    expect(await enter({ owner: 'w2' })).toMatchObject({ limit: 'concurrent' });
  });

  test('whoever waits is not overtaken', async () => {
    await limit('provider:p', { concurrent: 2 });
    const [first, second] = [await enter(), await enter()];
    await enter({ owner: 'waits 1' });
    await enter({ owner: 'waits 2' });
    await exit(first);
    expect(await enter({ owner: 'late' })).toMatchObject({ limit: 'concurrent' });
    expect(await enter({ owner: 'waits 2' })).toMatchObject({ limit: 'concurrent' });
    expect(await enter({ owner: 'waits 1' })).toSatisfy(isIn);
    expect(await enter({ owner: 'late' })).toMatchObject({ limit: 'concurrent' });
    await exit(second);
    expect(await enter({ owner: 'waits 2' })).toSatisfy(isIn);
  });

  test('nobody waits for one who waits no more', async () => {
    await limit('provider:p', { concurrent: 1 });
    const first = await enter();
    await enter({ owner: 'gave up' });
    await exit(first);
    expect(await enter()).toMatchObject({ limit: 'concurrent' });
    await shared.setClock(NOON + 5_000);
    expect(await enter()).toSatisfy(isIn);
  });

  test('a place that nobody renews is lost only with the connection of its holder', async () => {
    await limit('provider:p', { concurrent: 1 });
    const place = await enter({ ttlMs: 1000 });
    await shared.setClock(NOON + 10_000);
    // Its holder stands still: connected, and able to end nothing.
    expect(await enter({ owner: 'w2' })).toMatchObject({ limit: 'concurrent' });
    expect(await shared.fleet.stay([nameOf(place)], 1000)).toEqual({ ok: true, output: [place] });
    await shared.query(`UPDATE places SET backend_since = backend_since - interval '1 second'`);
    expect(await enter({ owner: 'w2' })).toMatchObject({ limit: 'concurrent' });
    await shared.setClock(NOON + 20_000);
    expect(await enter({ owner: 'w2' })).toSatisfy(isIn);
    expect(await shared.fleet.stay([nameOf(place)], 1000)).toEqual({ ok: true, output: [] });
  });

  test('tokens are counted at worst, then as they were used', async () => {
    await limit('provider:p', { tokens_per_minute: 100 });
    const place = await enter({ tokens: 90 });
    expect(await enter({ tokens: 20 })).toMatchObject({ limit: 'tokens_per_minute' });
    await exit(place, 30);
    expect(await enter({ tokens: 70 })).toSatisfy(isIn);
    expect(await enter({ tokens: 1 })).toMatchObject({ limit: 'tokens_per_minute' });
    expect(await enter({ tokens: 101 })).toBe('shared_limit');
  });

  test('spend of a day is reserved, settled and over at midnight UTC', async () => {
    await limit('tenant:acme', { spend_per_day: 100n });
    const mine = { tenant: 'acme' };
    const place = await enter({ ...mine, spend: 80n });
    expect(await enter({ ...mine, spend: 30n })).toMatchObject({ limit: 'spend_per_day' });
    expect(await enter({ tenant: 'other', spend: 500n })).toBe('');
    await exit(place, 1, 71n);
    expect(await enter({ ...mine, spend: 30n })).toBe('shared_limit');
    const late = await enter({ ...mine, spend: 29n });
    await shared.setClock(NOON + DAY / 2);
    expect(await enter({ ...mine, spend: 100n })).toSatisfy(isIn);
    // It belongs to the day in which it began.
    await exit(late, 1, 0n);
    expect(await enter({ ...mine, spend: 1n })).toMatchObject({ limit: 'spend_per_day' });
  });

  test('what a holder that is gone had reserved stays spent', async () => {
    await limit('tenant:-', { spend_per_day: 100n, concurrent: 1 });
    await enter({ spend: 80n, ttlMs: 1 });
    await shared.query('UPDATE places SET backend = 0');
    await shared.setClock(NOON + 10);
    expect(await enter({ spend: 30n })).toBe('shared_limit');
    expect(await enter({ spend: 20n })).toSatisfy(isIn);
  });

  test('a model without a price is refused where spend is limited', async () => {
    await limit('tenant:-', { spend_per_day: 100n });
    const answer = await shared.fleet.enter({
      provider: 'p',
      tenant: '',
      owner: 'w',
      tokens: 1,
      ttlMs: 1000,
    });
    expect(answer).toMatchObject({ error: { code: 'shared_limit' } });
  });

  test('no 60 seconds see more requests than a minute may, wherever they begin', async () => {
    const most = 6;
    const step = fc.record({
      wait: fc.integer({ min: 0, max: 9000 }),
      way: fc.integer({ min: 0, max: 5000 }),
      answered: fc.integer({ min: 0, max: 20_000 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 40 }), async (steps) => {
        await shared.query('TRUNCATE shared_limits, places, rate_buckets, day_spend, waiting');
        await limit('provider:p', { requests_per_minute: most });
        let now = NOON + 137;
        const arrivals: number[] = [];
        let open: { place: string; at: number }[] = [];
        for (const { wait, way, answered } of steps) {
          now += wait;
          for (const one of open.filter(({ at }) => at <= now)) {
            await shared.setClock(one.at);
            await exit(one.place);
          }
          open = open.filter(({ at }) => at > now);
          await shared.setClock(now);
          const place = await enter();
          if (!isIn(place)) continue;
          arrivals.push(now + way);
          open.push({ place: nameOf(place), at: now + way + answered });
        }
        expect(arrivals.length).toBeGreaterThanOrEqual(Math.min(most, steps.length));
        for (const from of arrivals) {
          const within = arrivals.filter((at) => at >= from && at < from + 60_000);
          expect(within.length).toBeLessThanOrEqual(most);
        }
      }),
      { numRuns: 12 },
    );
  });

  test('workers are known while they are heard of, and queues say who serves them', async () => {
    const { fleet } = shared;
    const worker = (id: string, items: string, draining = false) => ({
      id,
      host: 'here',
      version: '1',
      journal: Math.max(...JOURNAL_FORMATS),
      slots: 4,
      busy: 1,
      memory: 5,
      draining,
      tenants: ['', 'acme'],
      projects: [{ project: 'prj_1', items }],
    });
    await fleet.announce(worker('a', 'sha256:1'));
    await shared.setClock(NOON + 1000);
    await fleet.announce(worker('b', 'sha256:2'));
    await fleet.announce(worker('c', 'sha256:1', true));
    const insert = (id: string, tenant: string | null, queued: number) =>
      shared.query(
        `INSERT INTO threads (id, root, chain, depth, kind, directive, version, runner, tenant, project,
           items, detached, status, seq, epoch, attempt, queued, created, updated)
         VALUES ($1, $1, ARRAY[$1], 0, 'thread', 'd', '1', '', $2, 'prj_1', 'sha256:1', false,
           'spawning', 1, 0, 1, $3, 1, 1)`,
        id,
        tenant,
        queued,
      );
    await insert('t1', null, NOON);
    await insert('t2', null, NOON + 500);
    await insert('t3', null, NOON + 5000);
    await insert('t4', 'other', NOON + 1);
    const about = { project: 'prj_1', items: 'sha256:1' };
    expect(await fleet.queues()).toEqual({
      ok: true,
      output: [
        { tenant: '', ...about, ready: 2, later: 1, oldest: NOON, served_by: 1 },
        { tenant: 'other', ...about, ready: 1, later: 0, oldest: NOON + 1, served_by: 0 },
      ],
    });
    const known = await fleet.workers();
    expect(
      known.ok && known.output.map(({ id, started, heartbeat }) => [id, started, heartbeat]),
    ).toEqual([
      ['a', NOON, NOON],
      ['b', NOON + 1000, NOON + 1000],
      ['c', NOON + 1000, NOON + 1000],
    ]);
    await fleet.leave('b');
    await shared.setClock(NOON + 15_500);
    const left = await fleet.workers();
    expect(left.ok && left.output.map(({ id }) => id)).toEqual(['c']);
  });

  test('label rows are numbered without a gap in the order in which they are seen', async () => {
    const { fleet } = shared;
    await Promise.all(
      Array.from({ length: 40 }, (_, at) => fleet.addLabelRows('prj_1', [`${at} a`, `${at} b`])),
    );
    await fleet.addLabelRows('prj_2', ['x']);
    const rows = await fleet.labelRows('prj_1', 0);
    const found = rows.ok ? rows.output : [];
    expect(found.map(({ number }) => number)).toEqual(
      Array.from({ length: 80 }, (_, at) => at + 1),
    );
    expect(
      found.filter((row, at) => at % 2 === 1 && row.text !== found[at - 1]?.text.replace('a', 'b')),
    ).toEqual([]);
    expect(await fleet.labelRows('prj_1', 79)).toMatchObject({ output: [{ number: 80 }] });
  });
});
