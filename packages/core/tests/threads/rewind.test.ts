// `threads resume --from`: back to a snapshot, with everything that was used since still counted.
import { runCommand } from '@kernmantle/test-support/command-line';
import { budgetOf } from '@kernmantle/test-support/registry-reads';
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
import type { ProgramTool } from '../../src/kernel/index.ts';
import type { ScriptedReply, ScriptedRequest } from '../../src/llm/index.ts';

const checkpoint: ScriptedReply = {
  tool_calls: [{ name: 'help', arguments: { action: 'checkpoint', reason: 'half way' } }],
};
const LEAVE = '<execute resource="tool" id="probe/leave"/>';
const LOOK = { '.ai/directives/look.md': directiveText('look', { permissions: READ + LEAVE }) };

let leaving: AbortController;
/** Ends the process in its own way. */
const leave: ProgramTool = {
  id: 'probe/leave',
  description: 'Leaves in the middle',
  effect: 'read',
  run() {
    leaving.abort();
    return 'left';
  },
};

/** What the model was shown in the last request. */
const shownIn = ({ body }: ScriptedRequest): string => JSON.stringify(body.messages);

/** A thread with a snapshot, and everything that any model is shown afterwards. */
async function withSnapshot(after: readonly ScriptedReply[]) {
  const replies = [read('notes/a.txt'), checkpoint, read('notes/late.txt'), ...after];
  const shown: string[] = [];
  leaving = new AbortController();
  const say = (request: ScriptedRequest) => {
    shown.push(shownIn(request));
    return replies.shift();
  };
  const made = await stage(LOOK, say, { tools: [leave] });
  const first = await run(made, 'look');
  const events = await made.threads.store.read(first.thread_id);
  const all = events.ok ? events.output : [];
  const snapshot = all.find(({ type }) => type === 'snapshot')?.seq ?? 0;
  return { made, shown, id: first.thread_id, snapshot, first };
}

const rowOf = async ({ threads }: Stage, id: string) => {
  const row = await threads.store.thread(id);
  if (!row.ok) throw new Error(row.error.detail.message);
  return row.output;
};

test('a thread goes back: what came after is not said again, what it cost still counts', async () => {
  const { made, shown, id, snapshot } = await withSnapshot([
    { text: 'a dead end' },
    { text: 'a better end' },
  ]);
  const before = await rowOf(made, id);
  expect(before.status).toBe('completed');
  const done = await made.threads.resume(id, undefined, { from: snapshot });
  expect(done).toMatchObject({ ok: true, output: { status: 'completed', text: 'a better end' } });
  const last = shown.at(-1) ?? '';
  expect(last).toContain('notes/a.txt');
  expect(last).toContain(`went back to snapshot ${snapshot}`);
  expect(last).not.toContain('late.txt');
  expect(last).not.toContain('a dead end');
  const row = await rowOf(made, id);
  expect(row.cost.turns).toBe(Number(before.cost.turns) + 1);
  expect(row.seq).toBeGreaterThan(before.seq);
  const budget = await budgetOf(made.threads.store, id);
  expect(budget.ok && budget.output.used.tokens).toBe(BigInt(row.cost.tokens as number));
});

test('words are said with it, and a thread that goes back twice stays back', async () => {
  const { made, shown, id } = await withSnapshot([
    { text: 'one' },
    read('notes/second.txt'),
    { text: 'two' },
    { text: 'three' },
  ]);
  const words = { text: 'try the other way', by: 'me' };
  await made.threads.resume(id, undefined, { from: 'last', words });
  expect(shown.at(-1)).toContain('try the other way');
  expect(shown.at(-1)).toContain('second.txt');
  const done = await made.threads.resume(id, undefined, { from: 'last' });
  expect(done).toMatchObject({ ok: true, output: { text: 'three' } });
  expect(shown.at(-1)).not.toContain('second.txt');
  expect(shown.at(-1)).not.toContain('late.txt');
});

test('one that was left in the middle after it went back goes on from there', async () => {
  const { made, shown, id } = await withSnapshot([
    { text: 'one' },
    { tool_calls: [execute('probe/leave', {})] },
    { text: 'two' },
  ]);
  const left = await made.threads.resume(id, leaving.signal, { from: 'last' });
  expect(left).toMatchObject({ ok: true, output: { status: 'interrupted' } });
  const done = await made.threads.resume(id);
  expect(done).toMatchObject({ ok: true, output: { status: 'completed', text: 'two' } });
  expect(shown.at(-1)).toContain('probe/leave');
  expect(shown.at(-1)).not.toContain('late.txt');
});

test('a snapshot that is not there is refused with those that are, and nothing is changed', async () => {
  const { made, id, snapshot } = await withSnapshot([{ text: 'done' }]);
  const before = await rowOf(made, id);
  const refused = await made.threads.resume(id, undefined, { from: 3 });
  expect(refused).toMatchObject({
    ok: false,
    error: { code: 'not_found', detail: { snapshots: [snapshot] } },
  });
  expect(await rowOf(made, id)).toEqual(before);
  const cli = (...words: string[]) =>
    runCommand(['threads', 'resume', id, ...words], made.fixture.root, made.fixture.env);
  expect(await cli('--from', 'soon')).toMatchObject({ code: 2 });
  const unknown = await cli('--from', '3');
  expect(unknown.code).toBe(1);
  expect(unknown.output).toContain(`it has ${snapshot} (half way)`);
  // Without a snapshot what has ended stays ended.
  expect(await made.threads.resume(id)).toMatchObject({ error: { code: 'thread_ended' } });
});

test('the command line goes back too', async () => {
  const { made, id, snapshot, shown } = await withSnapshot([{ text: 'one' }, { text: 'two' }]);
  const done = await runCommand(
    ['threads', 'resume', id, '--from', String(snapshot), '-m', 'once more'],
    made.fixture.root,
    made.fixture.env,
  );
  expect(done, done.output).toMatchObject({ code: 0 });
  expect(done.output).toContain('two');
  expect(shown.at(-1)).toContain('once more');
});
