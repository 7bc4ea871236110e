// What the provider sent, event by event, for whoever asked for it.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { directiveText, READ, read, run, type Stage, stage } from '../support/thread-project.ts';

const FILES = { '.ai/directives/look.md': directiveText('look', { permissions: READ }) };
const fileOf = ({ fixture }: Stage, id: string) =>
  join(fixture.root, '.ai/threads', id, 'stream.jsonl');
const linesOf = (made: Stage, id: string) =>
  readFileSync(fileOf(made, id), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { turn: number; event: string; data: { type: string } });

test('a run that asks for it keeps the stream, also after it was resumed', async () => {
  const ask = { tool_calls: [{ name: 'help', arguments: { action: 'stuck', reason: 'ok?' } }] };
  const made = await stage(FILES, [read('notes/a.txt'), ask, { text: 'the end' }]);
  const { thread_id } = await run(made, 'look', { stream: true });
  const before = linesOf(made, thread_id);
  expect([...new Set(before.map(({ turn }) => turn))]).toEqual([1, 2]);
  expect(before.filter(({ event }) => event === 'message_start')).toHaveLength(2);
  expect(JSON.stringify(before)).toContain('fs/read_file');
  const [open] = ((await made.threads.store.approvals({})) as { output: { id: string }[] }).output;
  const said = { decision: 'approved' as const, who: 'ann', channel: 'cli' as const, why: '' };
  await made.threads.store.decide(open?.id ?? '', { ...said, answer: 'yes' });
  await made.threads.resume(thread_id);
  const after = linesOf(made, thread_id).slice(before.length);
  expect([...new Set(after.map(({ turn }) => turn))]).toEqual([3]);
  expect(after.at(-1)?.event).toBe('end');
});

test('a run that does not ask leaves none', async () => {
  const made = await stage(FILES, [{ text: 'the end' }]);
  const { thread_id } = await run(made, 'look');
  expect(existsSync(fileOf(made, thread_id))).toBe(false);
});

test('no secret of the run is in it', async () => {
  const secret = 'k3y-9f8e7d6c5b4a3210';
  const made = await stage(
    {
      '.ai/directives/look.md': directiveText('look', { permissions: READ }).replace(
        '<process>',
        '<inputs><input name="api_key" type="string" required="true">k</input></inputs><process>',
      ),
    },
    [{ text: `it is ${secret}, he said` }],
  );
  const { thread_id } = await run(made, 'look', { stream: true, inputs: { api_key: secret } });
  const text = readFileSync(fileOf(made, thread_id), 'utf8');
  expect(text).toContain('message_start');
  expect(text).not.toContain(secret);
});
