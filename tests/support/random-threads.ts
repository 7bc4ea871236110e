// Runs threads with random calls, approvals, children, rewinds and secrets, and forks each one at every boundary. The
// tests of both stores use it.
import { hash } from 'node:crypto';
import { type Json, type JsonObject, plainText } from '@kernmantle/core/base';
import { boundariesOf, type Recorded, readJournal } from '@kernmantle/core/journal';
import type { Threads } from '@kernmantle/core/runtime';
import { isEnded } from '@kernmantle/core/store';
import { expect } from 'vitest';
import {
  call,
  directive,
  type Play,
  READ,
  read,
  type Say,
  type Stage,
  spawn,
} from './thread-project.ts';

/** Effects of the tool `probe/write`, in order. */
export const EFFECTS: string[] = [];

export const EFFECT_TOOLS = [
  {
    id: 'probe/write',
    description: 'Writes',
    effect: 'write' as const,
    parameters: { at: 'string' as const },
    run: ({ at }: JsonObject) => {
      EFFECTS.push(plainText(at));
      return { at: plainText(at) };
    },
  },
];

const RIGHTS = `${READ}<execute resource="tool" id="probe/*"/><execute resource="kernmantle" action="*"/><orchestration enabled="true"/>`;
const LIMITS = '<turns>40</turns><spawns>20</spawns><depth>2</depth>';
const ASKS = '<guard on="op:tool:probe/write"><ask>may it?</ask></guard>';

export const RANDOM_FILES: Record<string, string> = {
  ...directive('free', { permissions: RIGHTS, limits: LIMITS }),
  ...directive('asks', { permissions: RIGHTS, limits: LIMITS, guards: ASKS }),
  ...directive('refs', { permissions: RIGHTS, limits: LIMITS, untrusted: 'reference' }),
  ...directive('kid', { permissions: RIGHTS }),
  'notes/long.txt': 'a long line of notes\n'.repeat(5000),
};

/** Returns numbers below a limit, decided by the seed alone. */
function numbers(seed: number): (limit: number) => number {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  return (limit) => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5;
    return ((state >>> 8) >>> 0) % limit;
  };
}

const CALLS: { name: string; arguments: Json }[] = [
  ...read('notes/a.txt').tool_calls,
  ...read('notes/none.txt').tool_calls,
  ...read('notes/long.txt').tool_calls,
  call('probe/write', { at: 'a' }),
  spawn('kid', { wait_ms: 10_000 }),
  { name: 'help', arguments: { action: 'checkpoint', reason: 'here' } },
  { name: 'search', arguments: { query: 'read', item_type: 'tool' } },
];

/** The reply depends on the seed in the first message and on the number of the turn alone. */
const reply: Say = ({ body, assistant_messages: turn }) => {
  const text = JSON.stringify(body);
  const seed = Number(/seed (\d+)/.exec(text)?.[1] ?? 0);
  const next = numbers(seed * 1000 + turn);
  if (next(100) < 10 + 15 * Math.max(0, turn - 2)) return { text: `done ${turn}` };
  const tool_calls = Array.from({ length: 1 + next(3) }, () => CALLS[next(CALLS.length)]);
  return { tool_calls: tool_calls.filter((one) => one !== undefined) };
};

export const RANDOM_PLAY: Play = {
  free: [reply],
  asks: [reply],
  refs: [reply],
  kid: [{ text: 'kid done' }],
};

export interface ForkStage {
  readonly threads: Threads;
  /** Runs a thread until it rests, on this store. */
  rest(start: () => ReturnType<Threads['run']>): Promise<string>;
}

async function journalOf({ store }: Threads, id: string): Promise<Recorded[]> {
  const events = await readJournal(store, id);
  if (!events.ok) throw new Error(events.error.detail.message);
  return events.output;
}

/** Returns the number of events, the epoch and the digest of a thread. */
export async function printOf({ store }: Threads, id: string) {
  const [row, events] = [await store.thread(id), await store.read(id)];
  if (!row.ok || !events.ok) throw new Error('the thread is gone');
  return [row.output.seq, row.output.epoch, hash('sha256', JSON.stringify(events.output))];
}

/** Answers pending requests and goes on, until the thread has ended. */
async function toEnd({ threads, rest }: ForkStage, id: string): Promise<void> {
  for (let tries = 0; tries < 50; tries++) {
    const row = await threads.store.thread(id);
    if (!row.ok || isEnded(row.output.status)) return;
    const open = await threads.store.approvals({ thread: id, state: 'pending' });
    for (const { id: request } of open.ok ? open.output : []) {
      const who = { who: 'ann', channel: 'cli' as const, why: '' };
      await threads.store.decide(request, {
        decision: tries % 3 === 2 ? 'denied' : 'approved',
        ...who,
      });
    }
    await rest(() => threads.resume(id));
  }
}

const withoutThread = (events: readonly Recorded[]) =>
  events.map((event) => ({ ...event, thread: '' }));

const KINDS = ['free', 'asks', 'refs'] as const;

/** Runs the thread of a seed, forks it at every boundary and checks what must hold. Returns the number of forks. */
export async function forkEverywhere(stage: ForkStage, seed: number): Promise<number> {
  const { threads, rest } = stage;
  const message = `seed ${seed} of the forks`;
  const source = await rest(() =>
    threads.run({ directive: KINDS[seed % KINDS.length] ?? 'free', message }),
  );
  await toEnd(stage, source);
  const history = await journalOf(threads, source);
  const [before, effects] = [await printOf(threads, source), EFFECTS.length];
  const boundaries = boundariesOf(history);
  expect(boundaries.length).toBeGreaterThan(1);
  for (const { seq } of boundaries) {
    const count = EFFECTS.length;
    const made = await threads.enqueueFork(source, {
      at: seq,
      message: 'go on',
      by: { who: 'ann', surface: 'cli' },
    });
    if (!made.ok) throw new Error(`${seq}: ${made.error.detail.message}`);
    const { thread } = made.output;
    const copy = await journalOf(threads, thread);
    expect(withoutThread(copy.slice(1, seq))).toEqual(withoutThread(history.slice(1, seq)));
    expect(copy.map((event) => event.seq)).toEqual(copy.map((_, at) => at + 1));
    expect(EFFECTS.length).toBe(count);
    await rest(() => threads.resume(thread));
    await toEnd(stage, thread);
    const report = await threads.replay(thread);
    const why = report.ok ? report.output.difference : report.error;
    expect(why, `fork of ${source} (seed ${seed}) at ${seq}: ${thread}`).toBeUndefined();
    // The fork runs what its own model says: nothing of the prefix again.
    const own = (await journalOf(threads, thread)).slice(copy.length);
    const written = own.filter(
      ({ type, data }) => type === 'tool_result' && data.tool === 'probe/write' && !data.is_error,
    );
    expect(EFFECTS.length).toBe(count + written.length);
  }
  expect(EFFECTS.length).toBeGreaterThanOrEqual(effects);
  expect(await printOf(threads, source)).toEqual(before);
  return boundaries.length;
}

/** `KERNMANTLE_FIGURES=1` prints how many threads were forked how often. */
export function printForks(threads: number, forks: number): void {
  if (process.env.KERNMANTLE_FIGURES) {
    process.stderr.write(`${threads} random threads, ${forks} forks\n`);
  }
}

export const fileStage = ({ threads }: Pick<Stage, 'threads'>): ForkStage => ({
  threads,
  async rest(start) {
    const done = await start();
    if (!done.ok) throw new Error(`${done.error.code}: ${done.error.detail.message}`);
    return done.output.thread_id;
  },
});
