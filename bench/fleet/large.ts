// Measures a registry with 10,000 queued threads and 1,000,000 events: a claim of 50, a status, a page of a list.
import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { writeAccount } from '../../packages/core/src/store/account.ts';
import type { Store } from '../../packages/core/src/store/port.ts';
import { JOURNAL_FORMATS } from '../../packages/fleet/src/postgres/schema.ts';
import { must, openAt, TTL_MS } from './holder.ts';
import { prepare } from './prepare.ts';
import { percentile } from './processes.ts';
import { atMost, type FleetRow, type FleetRun, told } from './row.ts';
import { benchThread, PROJECT } from './work.ts';

const [THREADS, EVENTS] = [10_000, 1_000_000];
const SCHEMA = 'b_large';
const QUIET = { migrate: false, supervise: false, schedule: false } as const;

/** Copies the first thread, which the store itself creates, thousands of times in one statement. */
async function fill(store: Store, url: string): Promise<void> {
  must(await store.createThread(benchThread('q0', { steps: 1 })));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`SET search_path = ${SCHEMA}`);
  const { budget, events, inputs, limits, ...row } = benchThread('q', { steps: 1 });
  const { directive, version, runner, project, items } = row;
  const like = {
    directive,
    version,
    runner,
    project,
    items,
    kind: 'thread',
    detached: false,
    format: Math.max(...JOURNAL_FORMATS),
    events: events.map(({ type, data }) => ({ type, turn: 0, text: JSON.stringify(data) })),
    limits: JSON.stringify(limits),
    inputs: JSON.stringify(inputs),
    account: writeAccount({ thread: '', limits: budget, used: {}, reserved: {}, open: [] }),
  };
  await client.query(
    `SELECT count(km_create((jsonb_build_object('id', 'q' || n) || $1::jsonb), 'b' || n))
     FROM generate_series(1, $2::int) n`,
    [JSON.stringify(like), THREADS - 1],
  );
  const { rows } = await client.query<{ o_thread: string; o_job: string }>(
    `SELECT o_thread, o_job FROM km_follow(ARRAY(SELECT id FROM threads WHERE id <> 'q0'))`,
  );
  const boss = new PgBoss({ connectionString: url, schema: `${SCHEMA}_jobs`, ...QUIET });
  boss.on('error', () => undefined);
  await boss.start();
  const [queue] = await boss.getQueues();
  for (let at = 0; at < rows.length; at += 1000) {
    const jobs = rows.slice(at, at + 1000).map(({ o_thread: thread, o_job: id }) => ({
      id,
      data: { thread },
      singletonKey: thread,
    }));
    await boss.insert(queue?.name ?? '', jobs);
  }
  await boss.stop({ graceful: false });
  const each = EVENTS / THREADS;
  await client.query(
    `INSERT INTO thread_events (thread, seq, ts, turn, type, data)
     SELECT t.number, n, t.created, 1, 'logged', json_build_object('preview', repeat('fox ', 40))::text
     FROM threads t, generate_series(t.seq + 1, $1::int) n`,
    [each],
  );
  await client.query('UPDATE threads SET seq = $1', [each]);
  await client.query('VACUUM ANALYZE');
  await client.end();
}

async function timed(times: number, act: (index: number) => Promise<unknown>): Promise<number[]> {
  const taken: number[] = [];
  for (let index = 0; index < times; index++) {
    const before = performance.now();
    await act(index);
    taken.push(performance.now() - before);
  }
  // The first call creates connections and plans, so it does not count.
  return taken.slice(1);
}

export async function run({ url, say }: FleetRun): Promise<FleetRow[]> {
  const address = await prepare(url, SCHEMA);
  const store = await openAt(address);
  const before = performance.now();
  say(`  filling ${THREADS} threads and ${EVENTS} events …`);
  await fill(store, url);
  const fillSeconds = (performance.now() - before) / 1000;
  const status = await timed(200, async (index) => must(await store.thread(`q${index * 37}`)));
  const page = await timed(100, async () => must(await store.query({ limit: 50 })));
  const waiting = await timed(100, async () =>
    must(await store.query({ status: 'spawning', project: PROJECT, limit: 50 })),
  );
  const owner = { owner: 'bench', ttlMs: TTL_MS };
  const claim = await timed(40, async () => {
    const taken = must(await store.take(owner, { count: 50, projects: [PROJECT] }));
    if (taken.length !== 50) throw new Error(`took ${taken.length} of 50`);
  });
  await store.close();
  return [
    told('filling the registry', fillSeconds, 's'),
    atMost('claim of 50, median', percentile(claim, 0.5), 20, 'ms'),
    told('claim of 50, best', percentile(claim, 0), 'ms'),
    told('claim of 50, p95', percentile(claim, 0.95), 'ms'),
    atMost('status of a thread, median', percentile(status, 0.5), 2, 'ms'),
    told('status of a thread, best', percentile(status, 0), 'ms'),
    told('status of a thread, p95', percentile(status, 0.95), 'ms'),
    atMost('a page of the list, median', percentile(page, 0.5), 5, 'ms'),
    told('a page of the list, best', percentile(page, 0), 'ms'),
    told('a page of the list, p95', percentile(page, 0.95), 'ms'),
    atMost('a page of one status and project, median', percentile(waiting, 0.5), 5, 'ms'),
  ];
}
