// A run whose store answers late writes the journal that it writes without delay.
import { delayAnswers } from '@kernmantle/test-support/late-store';
import { must } from '@kernmantle/test-support/registry';
import {
  answer,
  directiveText,
  execute,
  hook,
  READ,
  run,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { ok } from '../../src/base/index.ts';
import { compareJournals } from '../../src/harness/replay/compare-journals.ts';
import { readRepeated } from '../../src/harness/replay/replay-ports.ts';
import type { Recorded } from '../../src/journal/index.ts';
import { openSqliteStore, type Store } from '../../src/store/index.ts';

const reads = ['notes/a.txt', 'notes/b.txt', 'secret.txt'].map((path) =>
  execute('fs/read_file', { path }),
);

/** Reads that are made at once, a refusal, and a hook. */
async function journalOf(seed?: number): Promise<Recorded[]> {
  let opened: Store | undefined;
  const when = hook('event.name == "error"', 'calm');
  const files = {
    'notes/b.txt': 'there\n',
    '.ai/directives/work.md': directiveText('work', { permissions: READ, hooks: when }),
    '.ai/directives/calm.md': answer('calm', { action: 'continue' }),
  };
  const script = [{ tool_calls: reads }, { tool_calls: reads.slice(0, 2) }, { text: 'done' }];
  const made = await stage(files, script, {
    async openStore(options) {
      const store = await openSqliteStore(options);
      if (!store.ok) return store;
      opened = seed === undefined ? store.output : delayAnswers(store.output, seed);
      return ok(opened);
    },
  });
  const { thread_id, status } = await run(made, 'work', { message: 'please' });
  expect(status).toBe('completed');
  return must(await readRepeated(opened as Store, thread_id));
}

/** Results contain durations, so a slow store makes requests a few bytes longer and dearer. */
const VARIES: ReadonlySet<string> = new Set(['usage', 'spend', 'bytes', 'cost']);
const withoutAmounts = (events: readonly Recorded[]): Recorded[] =>
  JSON.parse(JSON.stringify(events, (key, value) => (VARIES.has(key) ? undefined : value)));

test('a store that answers late changes no journal', async () => {
  const expected = withoutAmounts(await journalOf());
  expect(expected.length).toBeGreaterThan(15);
  for (const seed of [3, 11, 29]) {
    const { isSame, difference } = compareJournals(expected, withoutAmounts(await journalOf(seed)));
    expect(isSame, JSON.stringify(difference)).toBe(true);
  }
});
