// A registry of which single texts are damaged: what is whole is read, and what is not is named.
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { readJournal } from '../../src/harness/index.ts';
import { directiveText, READ, read, run, stage } from '../support/thread-project.ts';

test.each(['{"torn', '', 'null', '[1]', '"text"'])(
  'one event or one cost that is `%s` hides neither the journal nor the list',
  async (odd) => {
    const look = { '.ai/directives/look.md': directiveText('look', { permissions: READ }) };
    const made = await stage(look, [read('notes/a.txt'), { text: 'done' }, { text: 'two' }]);
    const { thread_id: id } = await run(made, 'look');
    await run(made, 'look');
    const database = new DatabaseSync(join(made.fixture.root, '.ai/threads/registry.db'));
    database
      .prepare(
        `UPDATE thread_events SET data = ? WHERE place =
          (SELECT max(place) FROM thread_events WHERE type = 'tool_result')`,
      )
      .run(odd);
    database.prepare('UPDATE threads SET cost = ? WHERE id = ?').run(odd, id);
    database.close();
    const { store } = made.threads;
    const page = await store.query({ limit: 10 });
    const titles = (page.ok ? page.output.rows : []).map((row) => row.title ?? '');
    expect([
      titles.length,
      titles.filter((title) => title.includes('its cost cannot be read')).length,
    ]).toEqual([2, 1]);
    const journals = await Promise.all(
      (page.ok ? page.output.rows : []).map((row) => readJournal(store, row.id)),
    );
    expect(journals.find((one) => !one.ok)).toMatchObject({
      error: { code: 'journal_unreadable', detail: { type: 'tool_result' } },
    });
    expect((await store.read(id)).ok).toBe(true);
  },
);
