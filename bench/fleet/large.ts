// A registry with 10,000 queued threads and 1,000,000 events: a claim of 50, a status, a page of a list.
import pg from 'pg';
import type { Store } from '../../src/store/port.ts';
import { must, openAt, TTL_MS } from './holder.ts';
import { prepare } from './prepare.ts';
import { percentile } from './processes.ts';
import { atMost, type FleetRow, type FleetRun, told } from './row.ts';
import { benchThread, PROJECT } from './work.ts';

const [THREADS, EVENTS] = [10_000, 1_000_000];
const SCHEMA = 'b_large';

async function fill(store: Store, url: string): Promise<void> {
  let next = 0;
  const lanes = Array.from({ length: 10 }, async () => {
    while (next < THREADS) {
      const id = `q${next}`;
      next += 1;
      must(await store.createThread(benchThread(id, { steps: 1 })));
    }
  });
  await Promise.all(lanes);
  const each = EVENTS / THREADS;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`SET search_path = ${SCHEMA}`);
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
  // The first finds connections and plans that are not there yet.
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
    told('claim of 50, p95', percentile(claim, 0.95), 'ms'),
    atMost('status of a thread, median', percentile(status, 0.5), 2, 'ms'),
    told('status of a thread, p95', percentile(status, 0.95), 'ms'),
    atMost('a page of the list, median', percentile(page, 0.5), 5, 'ms'),
    told('a page of the list, p95', percentile(page, 0.95), 'ms'),
    atMost('a page of one status and project, median', percentile(waiting, 0.5), 5, 'ms'),
  ];
}
