// A registry of which single texts are damaged: what is whole is read, and what is not is named.
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import {
  type DamageRow,
  expectDamagedApproval,
  expectDamagedSignal,
  ODD_TEXTS,
  TORN_TEXTS,
} from '@kernmantle/test-support/store-suite/damaged-rows';
import {
  directiveText,
  READ,
  read,
  run,
  type Stage,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { readJournal } from '../../src/journal/index.ts';

const damageOf =
  ({ fixture }: Stage): DamageRow =>
  async (table, column, where, text) => {
    const database = new DatabaseSync(join(fixture.root, '.ai/threads/registry.db'));
    database.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${where}`).run(text);
    database.close();
  };

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

test('one approval or signal that is damaged hides no other, and decides nothing', async () => {
  const made = await stage({}, []);
  const { store } = made.threads;
  const damage = damageOf(made);
  for (const [at, odd] of ODD_TEXTS.entries()) {
    await expectDamagedApproval(store, `bound_${at}`, damage, 'binding', odd);
    await expectDamagedApproval(store, `shown_${at}`, damage, 'shown', odd);
  }
  for (const [at, odd] of TORN_TEXTS.entries()) {
    await expectDamagedApproval(store, `answer_${at}`, damage, 'answer', odd);
    await expectDamagedSignal(store, `signal_${at}`, damage, odd);
  }
});

const ASKS = {
  '.ai/policy.yaml': 'labels:\n  src:llm: { ask: ["op:tool:fs/read_file"] }\n',
  '.ai/directives/look.md': directiveText('look', { permissions: READ }),
};
const results = async ({ threads }: Stage, id: string) => {
  const journal = await readJournal(threads.store, id);
  return (journal.ok ? journal.output : []).flatMap(({ type, data }) =>
    type === 'tool_result' && data.tool === 'fs/read_file' ? [JSON.stringify(data.content)] : [],
  );
};

// Without its binding the approval is for nothing, so the person is asked again.
test.each([
  ['', 'completed'],
  ['binding', 'waiting'],
  ['shown', 'completed'],
])(
  'a call is made after its approval, and not when `%s` of the approval is damaged: %s',
  async (column, then) => {
    const made = await stage(ASKS, [read('notes/a.txt'), { text: 'done' }]);
    const { thread_id: id, status } = await run(made, 'look');
    expect(status).toBe('waiting');
    const { store } = made.threads;
    const asked = await store.approvals({ thread: id });
    const [approval = ''] = asked.ok ? asked.output.map((row) => row.id) : [];
    const yes = { decision: 'approved', who: 'me', channel: 'cli', why: '' } as const;
    expect(await store.decide(approval, yes)).toMatchObject({ output: { state: 'approved' } });
    if (column !== '') await damageOf(made)('approvals', column, `id = '${approval}'`, '{"torn');
    expect(await made.threads.resume(id)).toMatchObject({ output: { status: then } });
    const isRead = (await results(made, id)).some((text) => text.includes('hello'));
    expect(isRead).toBe(column === '');
  },
);

test('a signal that is damaged is obeyed, and the journal names it', async () => {
  const made = await stage(ASKS, [read('notes/a.txt'), { text: 'done' }]);
  const { thread_id: thread } = await run(made, 'look');
  const { store } = made.threads;
  const words = { kind: 'inject', payload: { content: 'hello' }, by: 'me' };
  for (const key of ['a', 'b']) await store.signal({ thread, key, ...words });
  await damageOf(made)('signals', 'payload', `thread = '${thread}' AND key = 'a'`, '{"torn');
  const resumed = await made.threads.resume(thread);
  expect(resumed.ok).toBe(true);
  const journal = await readJournal(store, thread);
  const heard = (journal.ok ? journal.output : []).flatMap(({ type, data }) =>
    type === 'signal' && data.kind === 'inject' ? [data.reason ?? ''] : [],
  );
  expect(heard).toEqual(['signal 1 (`inject`) is damaged: its payload is not JSON', '']);
});
