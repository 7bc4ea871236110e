// Measures the store: CPU of one commit, and of one turn with one call, with 1, 50 and 200 threads in one process. All
// requests of one tick share a transaction, so many threads are cheaper than one.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Outcome, systemClock } from '@kernmantle/core/base';
import type { Commit, LeasedThread, NewThread, Store } from '../packages/core/src/store/port.ts';
import { openSqliteStore } from '../packages/core/src/store/sqlite/store.ts';
import { type BenchRow, cpuMicros } from './row.ts';

type Durability = 'commit' | 'flush';

const COUNTS = [1, 50, 200] as const;
/** Number of commits or turns of a measurement, over all threads. */
const WORK = 1000;
const ROUNDS = 4;

const data = { tool: 'fs/read_file', call: 'c1', preview: 'the quick brown fox '.repeat(8) };
const event = { type: 'tool_call', turn: 3, data };
const budget = { tokens: 10n ** 15n, spend: 10n ** 15n };
const start = { lease: { owner: 'bench', ttlMs: 600_000 } };

function must<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(outcome.error.detail.message);
  return outcome.output;
}

const aThread = (id: string): NewThread => ({
  id,
  directive: 'deploy',
  version: '1.0.0',
  runner: 'safety',
  project: 'one',
  limits: {},
  inputs: {},
  budget,
  events: [],
  start,
});

interface Writer {
  id: string;
  commit(more: Omit<Commit, 'expect'>): Promise<void>;
}

function writerOf(store: Store, held: LeasedThread): Writer {
  const { thread: id, epoch } = held;
  let { seq } = held.row;
  return {
    id,
    async commit(more) {
      ({ seq } = must(await store.commit(id, { expect: { seq, epoch }, ...more })));
    },
  };
}

/** Creates separate threads (`depth` 1), or the leaves of one tree with a root and one thread between. */
async function makeWriters(store: Store, count: number, depth: 1 | 3): Promise<Writer[]> {
  const ids = Array.from({ length: count }, (_, index) => `t${index}`);
  if (depth === 1) {
    const made = await Promise.all(ids.map((id) => store.createThread(aThread(id))));
    return made.map((held) => writerOf(store, must(held)));
  }
  const root = must(await store.createThread(aThread('root')));
  const children = async (
    parent: LeasedThread,
    names: readonly string[],
  ): Promise<readonly LeasedThread[]> => {
    const expect = { seq: parent.row.seq, epoch: parent.epoch };
    const made = await store.commit(parent.thread, {
      expect,
      events: [event],
      children: names.map(aThread),
    });
    return must(made).children;
  };
  const [mid] = await children(root, ['mid']);
  return (mid ? await children(mid, ids) : []).map((held) => writerOf(store, held));
}

let keys = 0;

/** Commits with a fence, two events, and a reservation or its end. */
async function commits({ commit }: Writer, count: number): Promise<void> {
  for (let index = 0; index < count; index += 2) {
    keys += 1;
    const key = `k${keys}`;
    const reserve = [{ key, amounts: { tokens: 1000n, spend: 5000n } }];
    await commit({ events: [event, event], reserve });
    await commit({ events: [event, event], settle: [{ key, actual: { tokens: 700n } }] });
  }
}

/** Commits of the harness for a turn: the turn, the reply with the intent of its call, and the result. */
async function turns({ commit }: Writer, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    keys += 1;
    const key = `k${keys}`;
    const reserve = [{ key, amounts: { tokens: 1000n, spend: 5000n } }];
    await commit({ events: [event], reserve });
    const settle = [{ key, actual: { tokens: 700n, spend: 3000n } }];
    await commit({ events: [event, event], settle, cost: { turns: index } });
    await commit({ events: [event] });
  }
}

type Work = (writer: Writer, count: number) => Promise<void>;

/** Returns the least CPU of some rounds for one commit or turn, in microseconds. */
async function measure(
  dir: string,
  work: Work,
  { threads, durability, depth }: { threads: number; durability: Durability; depth: 1 | 3 },
): Promise<number> {
  const file = join(dir, `${work.name}-${threads}-${durability}-${depth}.db`);
  const store = must(await openSqliteStore({ file, clock: systemClock, durability }));
  const writers = await makeWriters(store, threads, depth);
  const each = Math.max(2, Math.round(WORK / threads / 2) * 2);
  const round = () => Promise.all(writers.map((writer) => work(writer, each)));
  let best = Number.POSITIVE_INFINITY;
  for (let index = 0; index <= ROUNDS; index++) {
    const micros = await cpuMicros(round);
    // The first round only warms up.
    if (index > 0) best = Math.min(best, micros / (each * threads));
  }
  await store.close();
  return best;
}

interface Subject {
  name: string;
  work: Work;
  depth: 1 | 3;
  durability: Durability;
  /** Maximum CPU of one commit or turn with 1, 50 and 200 threads, in microseconds. */
  most: readonly [number, number, number];
}

const SUBJECTS: readonly Subject[] = [
  { name: 'commit', work: commits, depth: 1, durability: 'commit', most: [170, 80, 75] },
  { name: 'commit, flushed', work: commits, depth: 1, durability: 'flush', most: [450, 80, 75] },
  { name: 'turn', work: turns, depth: 1, durability: 'commit', most: [380, 200, 180] },
  { name: 'turn, depth 3', work: turns, depth: 3, durability: 'commit', most: [430, 230, 210] },
  { name: 'turn, flushed', work: turns, depth: 1, durability: 'flush', most: [1150, 200, 180] },
];

async function rowsOf(dir: string, subject: Subject): Promise<BenchRow[]> {
  const { name, work, depth, durability, most } = subject;
  const rows: BenchRow[] = [];
  for (const [index, threads] of COUNTS.entries()) {
    const ours = await measure(dir, work, { threads, durability, depth });
    const max = most[index] ?? 0;
    const target = `under ${max} µs of CPU`;
    const label = `${name}, ${threads} ${threads === 1 ? 'thread' : 'threads'}`;
    rows.push({ name: label, ours, base: 1, ratio: ours, unit: 'µs', target, ok: ours < max });
  }
  return rows;
}

export async function bench(): Promise<BenchRow[]> {
  const dir = mkdtempSync(join(tmpdir(), 'km-bench-port-'));
  try {
    const rows: BenchRow[] = [];
    for (const subject of SUBJECTS) rows.push(...(await rowsOf(dir, subject)));
    return rows;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
