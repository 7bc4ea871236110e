// INVARIANT: uses can be taken anywhere in the tree, at once or in turn, by two processes, with one of them lost
// in between. A thread with everything below it never passes the limit of any block above it.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type JsonObject, ok } from '../../base/index.ts';
import type { StoredEvent, ThreadSummary } from '../../store/index.ts';
import { createLiveThreads } from '../thread/live-threads.ts';
import type { UseBudget } from '../thread/thread.ts';
import { takeUse } from './use-budgets.ts';

const TOOL = 'fs/delete_file';
const event = (type: string, data: JsonObject, seq = 1): StoredEvent => ({
  thread: 't',
  seq,
  ts: 0,
  turn: 1,
  type,
  data,
});
const call = (key: string, use?: number, tool = TOOL) =>
  event('tool_call', { call_id: key, key, tool, ...(use !== undefined && { use }) });
const result = (key: string, unused?: true) =>
  event('tool_result', { call_id: key, ...(unused && { unused }) });

const BUDGET = { tool: TOOL, thread: 't', directive: 'd' };

/** True if this many uses would pass a limit, according to the journal. */
async function passes(events: readonly StoredEvent[], max: number): Promise<boolean> {
  const store = {
    query: async () => ok({ rows: [{ id: 't' } as ThreadSummary] }),
    read: async (_: string, range = {}) => ok('after' in range && range.after ? [] : [...events]),
  };
  const threads = { live: createLiveThreads() } as never;
  const journal = { flush: async () => true, lost: () => undefined };
  const taken = await takeUse({ ports: { store, threads }, journal }, [{ ...BUDGET, max }], () =>
    Promise.resolve(ok(null)),
  );
  return !taken.ok;
}

test.each([
  [
    'the same call again is the same use',
    [call('a', 0), call('a', 0), result('a'), call('b', 0)],
    2,
  ],
  ['what never began is there again', [call('c', 0), call('a', 0), result('a', true)], 1],
  ['and is taken again', [call('c', 0), call('a', 0), result('a', true), call('a', 0)], 2],
  ['a call that is done twice is two', [call('a', 0), call('a', 1), result('a')], 2],
  ['of two, one that began', [call('a', 0), call('a', 1), result('a', true)], 1],
  ['other tools do not count', [call('c', 0), call('a', 0, 'fs/read_file'), call('b')], 1],
] as const)('%s', async (_name, events, count) => {
  expect(await passes(events, count)).toBe(false);
  expect(await passes(events, count - 1)).toBe(true);
});

/** Threads by number, each below an earlier one. The first is the root. */
const tree = fc
  .array(fc.nat(), { maxLength: 6 })
  .map((parents) => [-1, ...parents.map((one, at) => one % (at + 1))]);

interface Try {
  readonly thread: number;
  readonly process: 0 | 1;
  /** The process is lost after the intent. */
  readonly isLost: boolean;
}

const ancestorsOf = (parents: readonly number[], thread: number): number[] =>
  thread < 0 ? [] : [thread, ...ancestorsOf(parents, parents[thread] ?? -1)];

test('no tree of threads passes the uses of any of its blocks, however its steps fall', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      tree,
      fc.array(fc.option(fc.integer({ min: 1, max: 3 })), { minLength: 7, maxLength: 7 }),
      fc.array(
        fc.record<Try>({ thread: fc.nat(6), process: fc.constantFrom(0, 1), isLost: fc.boolean() }),
        { minLength: 1, maxLength: 10 },
      ),
      async (scheduler, parents, limits, tries) => {
        const journals = parents.map((): StoredEvent[] => []);
        const within = (thread: number) =>
          parents.map((_, at) => at).filter((at) => ancestorsOf(parents, at).includes(thread));
        const later = <T>(value: () => T) =>
          scheduler.schedule(Promise.resolve()).then(() => ok(value()));
        const store = {
          query: ({ within: id = '0' } = {}) =>
            later(() => ({
              rows: within(Number(id)).map((at) => ({ id: `${at}` }) as ThreadSummary),
            })),
          read: (id: string, range = {}) =>
            later(() => ('after' in range && range.after ? [] : [...(journals[Number(id)] ?? [])])),
        };
        const processes = [createLiveThreads(), createLiveThreads()];
        const passed: number[] = [];
        const one = async ({ thread: wanted, process, isLost }: Try, at: number) => {
          const thread = wanted % parents.length;
          const budgets = ancestorsOf(parents, thread).flatMap((above): UseBudget[] => {
            const max = limits[above];
            return max ? [{ tool: TOOL, max, thread: `${above}`, directive: 'd' }] : [];
          });
          if (budgets.length === 0) return;
          const threads = { live: processes[process] } as never;
          const journal = { flush: async () => true, lost: () => undefined };
          const taken = await takeUse({ ports: { store, threads }, journal }, budgets, () =>
            later(() => {
              journals[thread]?.push(call(`${at}`, 0));
              return null;
            }),
          );
          // The intent is recorded, and its outcome is unknown.
          if (isLost) return;
          if (taken.ok) passed.push(thread);
          else journals[thread]?.push(result(`${at}`, true));
        };
        const all = Promise.all(tries.map(one));
        await scheduler.waitFor(all);
        for (const [thread, max] of limits.entries()) {
          if (max === null || thread >= parents.length) continue;
          const used = passed.filter((at) => ancestorsOf(parents, at).includes(thread));
          expect(used.length).toBeLessThanOrEqual(max);
        }
      },
    ),
    { numRuns: 300 },
  );
});
