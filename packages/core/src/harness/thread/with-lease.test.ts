import { expect, test } from 'vitest';
import { fail, ok } from '../../base/index.ts';
import type { Commit, LeasedThread, ThreadStatus } from '../../store/index.ts';
import { withLease } from './with-lease.ts';

/** What a store is asked, in order. */
function listening() {
  const asked: string[] = [];
  const held = { thread: 't', epoch: 2, row: { seq: 4 } } as unknown as LeasedThread;
  return {
    asked,
    store: {
      claim: async () => (asked.push('claim'), ok(held)),
      async commit(_thread: string, { events, release }: Commit) {
        const types = events.map(({ type }) => type).join();
        asked.push(`commit ${types}${release ? ' and release' : ''}`);
        return ok({ seq: 4 + events.length }) as never;
      },
      release: async () => (asked.push('release'), ok(null)),
    },
  };
}

const end = (status: ThreadStatus) => () =>
  ok({
    events: [{ type: 'logged' as const, data: { event_type: 'x', data: {}, by: 'me' } }] as never,
    status,
  });

test('what has ended is let go when its transcript is written', async () => {
  const { asked, store } = listening();
  await withLease(store, 't', { owner: 'me' }, end('terminated'), async (events, firstSeq) => {
    await Promise.resolve();
    asked.push(`transcript of ${events.length} from ${firstSeq}`);
  });
  expect(asked).toEqual(['claim', 'commit status,logged', 'transcript of 2 from 5', 'release']);
});

test('what goes on, or has no transcript here, is let go with what was written', async () => {
  for (const [status, tells] of [
    ['paused', true],
    ['killed', false],
  ] as const) {
    const { asked, store } = listening();
    await withLease(store, 't', { owner: 'me' }, end(status), tells ? () => {} : undefined);
    expect(asked).toEqual(['claim', 'commit status,logged and release']);
  }
});

test('an event that its reader would refuse is not written, and the thread is let go', async () => {
  const { asked, store } = listening();
  const work = () => ok({ events: [{ type: 'logged', data: { event_type: 'x' } }] as never });
  expect(await withLease(store, 't', { owner: 'me' }, work)).toMatchObject({
    error: { code: 'internal_error', detail: { type: 'logged', field: 'data' } },
  });
  expect(asked).toEqual(['claim', 'release']);
});

test('work that fails writes nothing, and the thread is let go', async () => {
  const { asked, store } = listening();
  const failed = fail('store_error', 'a page cannot be read');
  expect(await withLease(store, 't', { owner: 'me' }, () => failed)).toBe(failed);
  expect(asked).toEqual(['claim', 'release']);
});
