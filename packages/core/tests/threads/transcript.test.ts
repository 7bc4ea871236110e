// The registry is the truth: a transcript that was lost or damaged is written again from it.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { runCommand } from '@kernmantle/test-support/command-line';
import {
  directiveText,
  execute,
  READ,
  read,
  run,
  type Stage,
  stage,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';

const LOOK = { '.ai/directives/look.md': directiveText('look', { permissions: READ }) };

const fileOf = ({ fixture }: Stage, id: string): string =>
  join(fixture.root, '.ai', 'threads', id, 'transcript.jsonl');

async function finished(more: { text: string }[] = []) {
  const made = await stage(LOOK, [read('notes/a.txt'), { text: 'done' }, ...more]);
  const { thread_id: id } = await run(made, 'look');
  const file = fileOf(made, id);
  const km = (...words: string[]) =>
    runCommand(['threads', ...words], made.fixture.root, made.fixture.env);
  return { made, id, file, whole: readFileSync(file, 'utf8'), km };
}

/** What every line says, whenever it was written. */
const said = (text: string): unknown[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => {
      const { seq, type, data } = JSON.parse(line);
      return { seq, type, data };
    });

const DAMAGES: Record<string, (text: string, file: string) => void> = {
  lost: (_, file) => rmSync(file),
  'lost with its folder': (_, file) => rmSync(join(file, '..'), { recursive: true }),
  torn: (text, file) => writeFileSync(file, text.slice(0, -20)),
  'with half a line more': (text, file) => writeFileSync(file, `${text}{"ts":"20`),
  'too short': (text, file) => writeFileSync(file, text.split('\n').slice(0, 3).join('\n')),
  empty: (_, file) => writeFileSync(file, ''),
  'with a line of garbage': (text, file) => writeFileSync(file, text.replace('\n', '\nno line\n')),
  'with a line twice': (text, file) => writeFileSync(file, `${text.split('\n')[0]}\n${text}`),
};

test.each(Object.keys(DAMAGES))('a transcript that is %s is whole after a look', async (name) => {
  const { id, file, whole, km } = await finished();
  for (const command of ['show', 'tail']) {
    DAMAGES[name]?.(whole, file);
    expect(await km(command, id)).toMatchObject({ code: 0 });
    expect(existsSync(file)).toBe(true);
    expect(said(readFileSync(file, 'utf8')), command).toEqual(said(whole));
  }
});

test('whoever goes on with a thread writes what was lost first', async () => {
  const { made, id, file, whole } = await finished([{ text: 'again' }]);
  writeFileSync(file, whole.replace('\n', '\nno line\n').slice(0, -9));
  const done = await made.threads.resume(id, undefined, { words: { text: 'more', by: 'me' } });
  expect(done).toMatchObject({ output: { status: 'completed' } });
  const lines = said(readFileSync(file, 'utf8'));
  const before = said(whole);
  expect(lines.slice(0, before.length)).toEqual(before);
  expect(lines.length).toBeGreaterThan(before.length);
});

test('looking at a whole transcript leaves the file alone', async () => {
  const { id, file, whole, km } = await finished();
  await km('show', id);
  expect(readFileSync(file, 'utf8')).toBe(whole);
});

/** A thread left in the middle of its second write, whose registry then forgot its last events. */
async function forgetful(kept: (types: string[]) => number) {
  const done: string[] = [];
  const leaving = new AbortController();
  const write = (name: string) => ({
    id: `probe/${name}`,
    description: name,
    effect: 'write' as const,
    run() {
      done.push(name);
      if (name === 'two') leaving.abort();
      return name;
    },
  });
  const files = {
    '.ai/directives/look.md': directiveText('look', {
      permissions:
        '<execute resource="tool" id="probe/one"/><execute resource="tool" id="probe/two"/>',
    }),
  };
  const calls = ['one', 'two'].map((name) => ({ tool_calls: [execute(`probe/${name}`, {})] }));
  const made = await stage(files, [...calls, { text: 'looked' }], {
    tools: [write('one'), write('two')],
  });
  const left = await made.threads.run({ directive: 'look' }, leaving.signal);
  if (!left.ok) throw new Error(left.error.detail.message);
  const id = left.output.thread_id;
  const events = await made.threads.store.read(id);
  const types = (events.ok ? events.output : []).map(({ type }) => type);
  const seq = kept(types);
  const database = new DatabaseSync(join(made.fixture.root, '.ai/threads/registry.db'));
  const number = `(SELECT number FROM threads WHERE id = '${id}')`;
  database.exec(`DELETE FROM thread_events WHERE place > ${number} * ${2 ** 24} + ${seq};
    UPDATE threads SET seq = ${seq}, cost = json_set(cost, '$.tool_calls', 1) WHERE id = '${id}'`);
  database.close();
  const resumed = await made.threads.resume(id);
  return { made, id, done, resumed, shown: JSON.stringify(made.provider.requests.at(-1)?.body) };
}

test('a write that only the transcript remembers is not made again: its outcome is unknown', async () => {
  // Up to the second reply: its call is there, that it had begun is not.
  const { made, id, done, resumed, shown } = await forgetful(
    (types) => types.lastIndexOf('assistant_message') + 1,
  );
  expect(resumed).toMatchObject({ output: { status: 'completed', text: 'looked' } });
  expect(done).toEqual(['one', 'two']);
  expect(shown).toContain('outcome_unknown');
  const lines = said(readFileSync(fileOf(made, id), 'utf8')) as { seq: number }[];
  expect(lines.map(({ seq }) => seq)).toEqual(lines.map((_, at) => at + 1));
  const report = await made.threads.replay(id);
  expect(report.ok && report.output.difference).toBeUndefined();
});

test('when the reply that asked for it is lost too, the model is told what may have been done', async () => {
  const { resumed, shown } = await forgetful((types) => types.indexOf('tool_result', 6) + 1);
  expect(resumed).toMatchObject({ output: { status: 'completed' } });
  expect(shown).toContain('outcome_unknown');
  expect(shown).toContain('probe/two');
});
