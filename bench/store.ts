// The registry against what it is made of: plain inserts into SQLite, and a raw file that is flushed.
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type Outcome, ok, systemClock } from '../src/base/index.ts';
import { type NewEvent, openStore, type Store } from '../src/store/index.ts';
import { type BenchRow, race } from './row.ts';
import { portRows } from './store-port.ts';

const APPENDS = 2000;
const GROUPS = 40;
const A_GROUP = 50;
const THREADS = 10_000;
const LOOKUPS = 1000;

const data = { tool: 'fs/read_file', call: 'c1', preview: 'the quick brown fox '.repeat(8) };
const event: NewEvent = { type: 'intent', turn: 3, data };
const group = Array.from({ length: A_GROUP }, () => event);

function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.error.detail.message);
  return outcome.output;
}

const open = (dir: string, name: string, durability: 'commit' | 'flush' = 'commit'): Store =>
  must(openStore({ file: join(dir, `${name}.db`), clock: systemClock, durability }));

function addThread(store: Store, id: string): void {
  const budget = { tokens: 10n ** 12n, spend: 10n ** 12n };
  const about = { directive: 'deploy', version: '1.0.0', runner: 'safety', project: '/project' };
  must(store.createThread({ id, ...about, limits: { turns: 10 }, budget, inputs: {} }));
}

/** Appends `count` times, `events` each, and goes on where it stopped. */
function appender(store: Store, id: string, events: readonly NewEvent[]): (count: number) => void {
  addThread(store, id);
  const { epoch } = must(store.claim(id, 'bench', 600_000));
  let seq = 0;
  return (count) => {
    for (let index = 0; index < count; index++)
      ({ seq } = must(store.append(id, seq, epoch, events)));
  };
}

function plainInserts(dir: string): { insert: (count: number) => void; close(): void } {
  const plain = new DatabaseSync(join(dir, 'plain.db'));
  plain.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE events (thread TEXT, seq INTEGER, ts INTEGER, turn INTEGER, type TEXT, data TEXT);
    CREATE UNIQUE INDEX by_thread ON events (thread, seq)`);
  const statement = plain.prepare('INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)');
  let seq = 0;
  const insert = (count: number): void => {
    for (let index = 0; index < count; index++) {
      seq += 1;
      statement.run('deploy_1', seq, Date.now(), event.turn ?? 0, event.type, JSON.stringify(data));
    }
  };
  return { insert, close: () => plain.close() };
}

async function appends(dir: string): Promise<BenchRow> {
  const [store, plain] = [open(dir, 'appends'), plainInserts(dir)];
  const append = appender(store, 'deploy_1', [event]);
  const micros = await race({
    plain: () => plain.insert(APPENDS),
    ours: () => append(APPENDS),
  });
  store.close();
  plain.close();
  const [ours, base] = [(micros['ours'] ?? 0) / APPENDS, (micros['plain'] ?? 0) / APPENDS];
  const ratio = base / ours;
  const target = 'at least 0.6 of the speed of plain inserts';
  return { name: 'journal append', ours, base, ratio, unit: 'µs', target, ok: ratio >= 0.6 };
}

/** Time by the clock: a flush is waiting for the disk, not work. */
async function flushed(dir: string): Promise<BenchRow> {
  const store = open(dir, 'flushed', 'flush');
  const append = appender(store, 'deploy_1', group);
  const file = openSync(join(dir, 'raw.jsonl'), 'a');
  const best = { ours: Number.POSITIVE_INFINITY, base: Number.POSITIVE_INFINITY };
  const time = (work: () => void): number => {
    const start = performance.now();
    work();
    return (performance.now() - start) / GROUPS;
  };
  const raw = (): void => {
    for (let index = 0; index < GROUPS; index++) {
      writeSync(file, group.map((item) => `${JSON.stringify(item)}\n`).join(''));
      fsyncSync(file);
    }
  };
  for (let round = 0; round < 6; round++) {
    best.base = Math.min(best.base, time(raw));
    best.ours = Math.min(
      best.ours,
      time(() => append(GROUPS)),
    );
  }
  closeSync(file);
  store.close();
  const ratio = best.base / best.ours;
  const target = 'at least 0.5 of the speed of a raw file, flushed as often';
  return { name: 'fifty events, flushed', ...best, ratio, unit: 'ms', target, ok: ratio >= 0.5 };
}

async function lookups(dir: string): Promise<BenchRow[]> {
  const store = open(dir, 'many');
  must(
    store.together(() => {
      for (let index = 0; index < THREADS; index++) addThread(store, `deploy_${index}`);
      return ok(null);
    }),
  );
  const micros = await race({
    status: () => {
      for (let index = 0; index < LOOKUPS; index++) must(store.thread(`deploy_${index * 7}`));
    },
    page: () => {
      for (let index = 0; index < 20; index++) must(store.query({ status: 'spawning', limit: 50 }));
    },
  });
  store.close();
  const status = (micros['status'] ?? 0) / LOOKUPS / 1000;
  const page = (micros['page'] ?? 0) / 20 / 1000;
  const target = (limit: number) => `under ${limit} ms with ${THREADS} threads`;
  const row = { base: 1, unit: 'ms' };
  return [
    {
      name: 'status by id',
      ours: status,
      ratio: status,
      ...row,
      target: target(1),
      ok: status < 1,
    },
    { name: 'page of 50', ours: page, ratio: page, ...row, target: target(20), ok: page < 20 },
  ];
}

async function growth(dir: string): Promise<BenchRow> {
  const store = open(dir, 'growth');
  let run = 0;
  const grow = (count: number) => () => appender(store, `grow_${run++}`, [event])(count);
  const micros = await race({ small: grow(500), large: grow(5000) }, 4);
  store.close();
  const [ours, base] = [(micros['large'] ?? 0) / 1000, (micros['small'] ?? 0) / 1000];
  const ratio = ours / base;
  const target = 'ten times the events under 12 times the time';
  return {
    name: 'appends to a long thread',
    ours,
    base,
    ratio,
    unit: 'ms',
    target,
    ok: ratio < 12,
  };
}

async function budgets(dir: string): Promise<BenchRow> {
  const store = open(dir, 'budgets');
  const chain = ['leaf', 'mid', 'root'];
  for (const [index, id] of chain.toReversed().entries()) {
    const parent = index === 0 ? {} : { parent: chain[chain.length - index] as string };
    const about = { directive: 'd', version: '1.0.0', runner: 'safety', project: '/project' };
    const budget = { tokens: 10n ** 15n, spend: 10n ** 15n };
    must(store.createThread({ id, ...about, ...parent, limits: {}, budget, inputs: {} }));
  }
  let key = 0;
  const micros = await race({
    ours: () => {
      for (let index = 0; index < 500; index++) {
        key += 1;
        must(store.reserve(chain, { tokens: 1000n, spend: 5000n }, `k${key}`));
        must(store.settle(`k${key}`, { tokens: 700n, spend: 3000n }));
      }
    },
  });
  store.close();
  const ours = (micros['ours'] ?? 0) / 500;
  const row = { base: 1, unit: 'µs', target: 'two commits along three threads, under 500 µs' };
  return { name: 'reserve and settle', ours, ratio: ours, ...row, ok: ours < 500 };
}

export async function bench(): Promise<BenchRow[]> {
  const dir = mkdtempSync(join(tmpdir(), 'km-bench-store-'));
  try {
    return [
      await appends(dir),
      await flushed(dir),
      ...(await lookups(dir)),
      await growth(dir),
      await budgets(dir),
      ...(await portRows()),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
