// Threads from a program: what it streams, how it steers and decides, and that no callback of its own
// breaks a run.
import { join } from 'node:path';
import { createRuntime } from '@kernmantle/kernmantle';
import { defineTool } from '@kernmantle/test-support/define-tool';
import { isLate } from '@kernmantle/test-support/late-store';
import {
  call,
  directive,
  openStage,
  type Play,
  READ,
  read,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, onTestFinished, test } from 'vitest';
import type { ProgramRuntime as Runtime } from '../../../kernmantle/src/program.ts';
import type { ThreadEvent } from '../../../kernmantle/src/thread-run.ts';
import { type RuntimeOptions, signFiles } from '../../src/runtime/index.ts';
import type { ThreadStatus } from '../../src/store/index.ts';

async function open(
  files: Record<string, string>,
  play: Play,
  options: RuntimeOptions = {},
): Promise<Stage & { program: Runtime }> {
  const stage = await openStage(files, play);
  const { root: project, env } = stage.fixture;
  const opened = await createRuntime({ project, env: { ...env, USER: 'ann' }, ...options });
  if (!opened.ok) throw new Error(opened.error.detail.message);
  onTestFinished(() => opened.output.close());
  return { ...stage, program: opened.output };
}

async function all(run: AsyncIterable<ThreadEvent>): Promise<ThreadEvent[]> {
  const events: ThreadEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

const LOOK = directive('look', { permissions: READ });
const LOOKS: Play = { look: [read('notes/a.txt'), { text: 'it says hello' }] };

test('a loop over a run sees its text, its calls and what it costs, and then its result', async () => {
  const { program } = await open(LOOK, LOOKS);
  const run = program.threads.start({ directive: 'look' });
  let [text, spend] = ['', ''];
  const calls: string[] = [];
  for await (const event of run) {
    if (event.type === 'text') text += event.data.text;
    if (event.type === 'tool_call') calls.push(event.data.tool);
    if (event.type === 'cost') ({ spend } = event.data);
  }
  const done = await run.result;
  if (!done.ok) throw new Error(done.error.detail.message);
  expect(done.output).toMatchObject({ status: 'completed', text: 'it says hello' });
  expect([text, calls, spend]).toEqual(['it says hello', ['fs/read_file'], done.output.cost.spend]);
  expect(await run.id).toEqual({ ok: true, output: done.output.thread_id });
});

test('children and hooks are in the loop too, each under its own name', async () => {
  const permissions = '<orchestration enabled="true"/><execute resource="tool" id="threads/*"/>';
  const { program } = await open(
    { ...directive('lead', { permissions }), ...directive('part') },
    { lead: [{ tool_calls: [spawn('part')] }, { text: 'led' }], part: [{ text: 'parted' }] },
  );
  const events = await all(program.threads.start({ directive: 'lead' }));
  const ends = events.filter(({ type }) => type === 'thread_end').map(({ thread }) => thread);
  expect(ends).toHaveLength(2);
  expect(new Set(ends).size).toBe(2);
  const costs = events.flatMap((event) => (event.type === 'cost' ? [event.data.turns] : []));
  expect(costs).toEqual([1, 2, 3]);
});

test('who leaves the loop leaves the thread at work; who never looks holds nothing up', async () => {
  const { program } = await open(LOOK, LOOKS);
  const left = program.threads.start({ directive: 'look' });
  for await (const _ of left) break;
  expect(await left.result).toMatchObject({ output: { status: 'completed' } });
  expect(await all(left)).toEqual([]);
  const unseen = program.threads.start({ directive: 'look' });
  expect(await unseen.result).toMatchObject({ output: { status: 'completed' } });
  expect((await all(unseen)).at(-1)?.type).toBe('thread_end');
});

test('a run that is refused has no events and says why', async () => {
  const { program } = await open(LOOK, LOOKS);
  const run = program.threads.start({ directive: 'lok' });
  expect(await all(run)).toEqual([]);
  expect(await run.result).toMatchObject({ ok: false, error: { code: 'not_found' } });
  expect(await run.id).toEqual(await run.result);
});

test('a thread is paused, listed, shown and resumed with a message', async () => {
  const { program, provider } = await open(LOOK, LOOKS, {});
  const { threads } = program;
  const run = threads.start({ directive: 'look' });
  for await (const event of run) {
    if (event.type === 'turn_start') {
      expect(await threads.pause(event.thread)).toMatchObject({ output: { kind: 'pause' } });
      break;
    }
  }
  const paused = await run.result;
  if (!paused.ok) throw new Error(paused.error.detail.message);
  const { thread_id: id } = paused.output;
  expect(paused.output.status).toBe('paused');
  expect(await threads.list({ status: 'paused' })).toMatchObject({ output: { rows: [{ id }] } });
  expect(await threads.wait(id)).toMatchObject({ output: { id, status: 'paused' } });
  const again = threads.resume(id, { message: 'go on, please' });
  expect((await all(again)).map(({ type }) => type)).toContain('injected_message');
  expect(await again.result).toMatchObject({ output: { status: 'completed', thread_id: id } });
  expect(JSON.stringify(provider.requests.at(-1)?.body)).toContain('go on, please');
  const shown = await threads.show(id);
  if (!shown.ok) throw new Error(shown.error.detail.message);
  expect(shown.output.thread).toMatchObject({ status: 'completed', cost: { turns: 2 } });
  const said = shown.output.events.flatMap((event) =>
    event.type === 'injected_message' ? [event.data.by] : [],
  );
  expect(said).toEqual(['ann (library)']);
  expect(await threads.replay(id)).toMatchObject({ ok: true });
});

test('a conversation of five messages is one thread, with raised limits and another model', async () => {
  const { program, provider } = await open(directive('talk', { limits: '<turns>2</turns>' }), {
    talk: ['one', 'two', 'three', 'four', 'five'].map((text) => ({ text })),
  });
  const { threads } = program;
  const first = await threads.start({ directive: 'talk', message: 'say 1' }).result;
  if (!first.ok) throw new Error(first.error.detail.message);
  const { thread_id: id, text } = first.output;
  const said = [text];
  const models: unknown[] = [];
  for (const [number, more] of [
    [2, {}],
    [3, { limits: { turns: 4 } }],
    [4, { model: 'claude-sonnet-4-6' }],
    [5, { limits: { turns: 9, spend: '5.00' } }],
  ] as const) {
    const done = await threads.resume(id, { message: `say ${number}`, ...more }).result;
    if (!done.ok) throw new Error(done.error.detail.message);
    expect(done.output).toMatchObject({ thread_id: id, status: 'completed' });
    said.push(done.output.text);
    models.push(provider.requests.at(-1)?.body.model);
  }
  expect(said).toEqual(['one', 'two', 'three', 'four', 'five']);
  expect(models.map((model) => String(model).includes('sonnet'))).toEqual([
    false,
    false,
    true,
    true,
  ]);
  const body = JSON.stringify(provider.requests.at(-1)?.body);
  for (const number of [1, 2, 3, 4, 5]) expect(body).toContain(`say ${number}`);
  expect(await threads.show(id)).toMatchObject({ output: { thread: { cost: { turns: 5 } } } });
  expect(await threads.replay(id)).toMatchObject({ output: { isSame: true } });
});

test('what ended at a limit, failed, was stopped or interrupted goes on; what is final says so', async () => {
  const { program } = await open(
    { ...directive('talk', { limits: '<turns>1</turns>', permissions: READ }), ...LOOK },
    { talk: [read('notes/a.txt'), { text: 'done' }], look: LOOKS.look ?? [] },
  );
  const { threads } = program;
  const limited = await threads.start({ directive: 'talk' }).result;
  if (!limited.ok) throw new Error(limited.error.detail.message);
  const { thread_id: id, status } = limited.output;
  expect(status).toBe('limit');
  // Without more it ends where it had ended.
  expect(await threads.resume(id).result).toMatchObject({ output: { status: 'limit' } });
  const more = threads.resume(id, { message: 'go on', limits: { turns: 3 } });
  expect(await more.result).toMatchObject({ output: { status: 'completed', text: 'done' } });
  const less = await threads.resume(id, { message: 'x', limits: { turns: 1 } }).result;
  expect(less).toMatchObject({ error: { code: 'invalid_input' } });
  const silent = await threads.resume(id).result;
  expect(silent).toMatchObject({ error: { code: 'thread_ended' } });
  expect(silent.ok || silent.error.detail.message).toMatch(
    /has ended: completed; resume it with a message/,
  );
  const stopping = threads.start({ directive: 'look' });
  for await (const { type, thread } of stopping)
    if (type === 'turn_start') await threads.stop(thread);
  const stopped = await stopping.result;
  const again = stopped.ok ? stopped.output.thread_id : '';
  expect(stopped).toMatchObject({ output: { status: 'terminated' } });
  const gone = threads.resume(again, { message: 'after all' });
  expect(await gone.result).toMatchObject({ output: { status: 'completed' } });
  const killing = threads.start({ directive: 'look' });
  for await (const { type, thread } of killing)
    if (type === 'turn_start') await threads.kill(thread);
  const killed = await killing.result;
  const final = await threads.resume(killed.ok ? killed.output.thread_id : '', { message: 'x' })
    .result;
  expect(final.ok || final.error).toMatchObject({ code: 'thread_ended' });
  expect(final.ok || final.error.detail.message).toMatch(/which is final; start a new run/);
});

const WAIT = directive('wait', { permissions: '<execute resource="tool" id="mine/wait"/>' });
test.each(['stop', 'kill'] as const)('%s ends a thread that runs', async (how) => {
  const said = Promise.withResolvers<string>();
  const slow = defineTool({
    id: 'mine/wait',
    description: 'Waits until the thread was spoken to',
    effect: 'read',
    run: () => said.promise,
  });
  const { program } = await open(
    WAIT,
    { wait: [{ tool_calls: [call('mine/wait')] }, { text: 'on' }] },
    { tools: [slow] },
  );
  const run = program.threads.start({ directive: 'wait' });
  for await (const event of run) {
    if (event.type !== 'tool_call') continue;
    await program.threads[how](event.thread);
    said.resolve('spoken to');
  }
  const ended: ThreadStatus = how === 'stop' ? 'terminated' : 'killed';
  const id = await run.id;
  const thread = id.ok ? id.output : '';
  expect(await program.threads.wait(thread)).toMatchObject({ output: { status: ended } });
  expect(await program.threads[how](thread)).toMatchObject({ error: { code: 'thread_ended' } });
});

test('a signal ends the run and leaves a thread that can be resumed', async () => {
  const { program } = await open(LOOK, LOOKS);
  const controller = new AbortController();
  const run = program.threads.start({ directive: 'look' }, { signal: controller.signal });
  for await (const event of run) if (event.type === 'turn_start') controller.abort();
  const done = await run.result;
  expect(done).toMatchObject({ output: { status: 'interrupted' } });
  const again = program.threads.resume(done.ok ? done.output.thread_id : '');
  expect(await again.result).toMatchObject({ output: { status: 'completed' } });
});

const asks = { name: 'help', arguments: { action: 'escalate', reason: 'which colour?' } };

test('a question waits in the list, is answered once, and the thread goes on with the answer', async () => {
  const { program, provider, runtime } = await open(directive('ask'), {
    ask: [{ tool_calls: [asks] }, { text: 'thanks' }],
  });
  const { threads, approvals } = program;
  const waiting = await program.run({ directive: 'ask' });
  const id = waiting.ok ? waiting.output.thread_id : '';
  const list = await approvals.list({ thread: id });
  const question = list.ok ? (list.output[0]?.id ?? '') : '';
  expect(list).toMatchObject({ output: [{ kind: 'question', state: 'pending', thread: id }] });
  expect(await approvals.answer(question, 'blue', { why: 'I like it' })).toMatchObject({
    output: { state: 'approved', who: 'ann (library)', why: 'I like it', channel: 'library' },
  });
  expect(await approvals.list()).toEqual({ ok: true, output: [] });
  expect(await approvals.deny(question)).toMatchObject({ ok: false });
  expect(await approvals.approve('nobody')).toMatchObject({ error: { code: 'not_found' } });
  expect(await threads.resume(id).result).toMatchObject({ output: { status: 'completed' } });
  expect(JSON.stringify(provider.requests.at(-1)?.body)).toContain('blue');
  // Two runtimes of one process share no registry there.
  if (isLate) return;
  const rows = await runtime.audit.read({ limit: 9, surface: 'library' });
  expect(
    rows.ok && rows.output.map((row) => `${row.caller} ${row.operation} ${row.decision}`),
  ).toEqual([
    'ann run allowed',
    `ann answer:${question} allowed`,
    `ann deny:${question} failed`,
    'ann approve:nobody failed',
    'ann resume allowed',
  ]);
});

test('a right beyond the directive takes a word more than yes, and is no question', async () => {
  const capability = { ...asks.arguments, capability: 'fs.write', scope: { path: 'out/a.md' } };
  const { program } = await open(directive('ask'), {
    ask: [{ tool_calls: [{ ...asks, arguments: capability }] }, { text: 'thanks' }],
  });
  await program.run({ directive: 'ask' });
  const { approvals } = program;
  const list = await approvals.list();
  const id = list.ok ? (list.output[0]?.id ?? '') : '';
  expect(await approvals.approve(id)).toMatchObject({ error: { code: 'invalid_input' } });
  expect(await approvals.answer(id, 'yes')).toMatchObject({ error: { code: 'invalid_input' } });
  expect(await approvals.approve(id, { beyond: true, uses: 2, who: 'bo' })).toMatchObject({
    output: { state: 'approved', uses: 2, who: 'bo' },
  });
});

const BREAKS: [string, () => unknown][] = [
  [
    'throws',
    () => {
      throw new Error('mine');
    },
  ],
  ['rejects', () => Promise.reject(new Error('mine'))],
  [
    'throws what has no words',
    () => {
      throw Object.create(null);
    },
  ],
];

test.each(BREAKS)('a callback that %s breaks no run, and is reported once', async (_, broken) => {
  const { runtime, provider } = await openStage(LOOK, LOOKS);
  const live = { onText: () => broken() as void, onEvent: () => broken() as void };
  const threads = await runtime.threads(live);
  if (!threads.ok) throw new Error(threads.error.detail.message);
  const done = await threads.output.run({ directive: 'look' });
  expect(done).toMatchObject({ output: { status: 'completed', text: 'it says hello' } });
  expect(provider.count()).toBe(2);
  const audit = await runtime.audit.read({ limit: 100 });
  const told = (audit.ok ? audit.output : []).filter(({ reason }) =>
    reason.includes('of the program failed'),
  );
  const names = new Set(told.map(({ reason }) => reason.split('`')[1]));
  expect([told.length, names]).toEqual([2, new Set(['onEvent', 'onText'])]);
});

test.each(BREAKS)('an `onEffect` that %s breaks no script', async (_, broken) => {
  const { program } = await open(LOOK, LOOKS);
  const onEffect = () => broken() as void;
  expect(await program.script({ text: 'show `a`\nshow `b`', onEffect })).toMatchObject({
    output: { text: 'a\nb\n' },
  });
});

test('a status, a code or an event that there is not does not compile', async () => {
  const { program } = await open(LOOK, LOOKS);
  const run = program.threads.start({ directive: 'look' });
  for await (const event of run) {
    // @ts-expect-error there is no such event
    expect(event.type === 'tool_cal').toBe(false);
    // @ts-expect-error what an event holds depends on its type
    expect(event.data.tool ?? '').toBeDefined();
  }
  const done = await run.result;
  // @ts-expect-error there is no such status
  expect(done.ok && done.output.status === 'complete').toBe(false);
  // @ts-expect-error there is no such status
  await program.threads.list({ status: 'complete' });
  // @ts-expect-error the registry itself is not for programs
  expect(program.threads.store).toBeUndefined();
});

test('a program reads, endorses and forgets memory in the name of its user', async () => {
  const rights = ['read', 'write'].map((verb) => `<${verb} resource="memory" id="project"/>`);
  const permissions = `<execute resource="tool" id="memory/*"/>${rights.join('')}`;
  const keep = call('memory/write', { text: 'the release is on friday' });
  const play = { keep: [{ tool_calls: [keep] }, { text: 'kept' }] };
  const { program, runtime } = await open(directive('keep', { permissions }), play);
  const { memory } = program;
  expect(await memory.list()).toEqual({ ok: true, output: [] });
  await program.run({ directive: 'keep' });
  const listed = await memory.list({ scope: 'project' });
  const [row] = listed.ok ? listed.output : [];
  expect(row).toMatchObject({ text: 'the release is on friday', standing: 'note' });
  const { id = '', hash = '' } = row ?? {};
  expect(await memory.endorse(id, 'another')).toMatchObject({ error: { code: 'conflict' } });
  expect(await memory.endorse(id, hash)).toMatchObject({ ok: true });
  expect(await memory.list({ id })).toMatchObject({ output: [{ standing: 'confirmed' }] });
  expect(await memory.forget(id)).toMatchObject({ output: { id } });
  expect(await memory.forget(id)).toMatchObject({ error: { code: 'not_found' } });
  if (isLate) return;
  const rows = await runtime.audit.read({ limit: 9, surface: 'library' });
  const acts = rows.ok ? rows.output.filter(({ operation }) => operation !== 'run') : [];
  expect(acts.map((act) => `${act.caller} ${act.operation} ${act.decision}`)).toEqual([
    'ann memory:endorse allowed',
    'ann memory:endorse failed',
    'ann memory:endorse allowed',
    'ann memory:forget allowed',
    'ann memory:forget allowed',
    'ann memory:forget failed',
  ]);
});

test('a program adds a schedule, and acts on it, in the name of its user', async () => {
  const { program, runtime, threads } = await open(LOOK, {});
  const { schedules } = program;
  const nightly = { name: 'nightly', directive: 'look', cron: '15 3 * * *', tz: 'UTC' };
  expect(await schedules.add(nightly)).toMatchObject({ error: { code: 'permission_denied' } });
  const file = join(runtime.project, '.ai/directives/look.md');
  expect(signFiles(runtime, [file], { who: 'ann', channel: 'library' })).toMatchObject({
    ok: true,
  });
  expect(await schedules.add(nightly)).toMatchObject({ output: { schedule: { by: 'ann' } } });
  const run = await schedules.run('nightly');
  const { thread_id = '' } = run.ok ? run.output : {};
  expect(await threads.store.thread(thread_id)).toMatchObject({ output: { directive: 'look' } });
  expect(await schedules.pause('nightly')).toMatchObject({ ok: true });
  expect(await schedules.list()).toMatchObject({ output: [{ state: 'paused' }] });
  expect(await schedules.resume('nightly')).toMatchObject({ ok: true });
  const shown = await schedules.show('nightly');
  expect(shown).toMatchObject({ output: { state: 'active', fires: [{ outcome: 'manual' }] } });
  expect(await schedules.remove('nightly')).toMatchObject({ ok: true });
  expect(await schedules.show('nightly')).toMatchObject({ error: { code: 'not_found' } });
});
