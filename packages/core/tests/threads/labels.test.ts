// What is read of a thread carries everything that its journal has read.
import { stage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';

const OWNER = { owner: 'test', ttlMs: 30_000 };

test('what is read of a long journal carries the labels of all of it', async () => {
  const made = await stage({}, []);
  const { store } = made.threads;
  const said = (at: number, labels: string[] = []) => ({
    type: 'user_message',
    data: { text: `${at}`, marks: { labels, taint: [], sources: [] } },
  });
  const events = Array.from({ length: 10_400 }, (_, at) =>
    said(at, at === 10_200 ? ['confidential'] : []),
  );
  const held = await store.createThread({
    id: 'long',
    directive: 'look',
    version: '1.0.0',
    runner: 'safety',
    project: made.runtime.project,
    limits: {},
    budget: {},
    inputs: {},
    events,
    start: { lease: OWNER },
  });
  if (!held.ok) throw new Error(held.error.detail.message);
  await store.release(held.output);
  const read = await made.runtime.kernel.execute(
    { item_type: 'tool', item_id: 'threads/read_transcript', parameters: { thread_id: 'long' } },
    made.runtime.caller(),
  );
  expect(read.ok && read.output.meta.descriptor.labels).toContain('confidential');
});
