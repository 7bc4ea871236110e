// Forks of threads: a new root continues at a boundary of another journal. The source keeps its journal, its cost and
// its approvals.
import { hash } from 'node:crypto';
import { makePdf } from '@kernmantle/test-support/files';
import {
  answer,
  call,
  directive,
  hook,
  openStage,
  READ,
  read,
  rows,
  type Stage,
  spawn,
} from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { type Json, type JsonObject, plainText } from '../../src/base/index.ts';
import type { ForkOptions } from '../../src/harness/index.ts';
import { readJournal } from '../../src/journal/index.ts';
import type { RuntimeOptions } from '../../src/runtime/index.ts';
import { openSqliteStore, type Store } from '../../src/store/index.ts';

const BY = { who: 'ann', surface: 'library' };
const RIGHTS = `${READ}<execute resource="tool" id="probe/*"/>`;
const EFFECTS: string[] = [];
const TOOLS = [
  {
    id: 'probe/write',
    description: 'Writes',
    effect: 'write' as const,
    parameters: { at: 'string' as const },
    run: ({ at }: JsonObject) => {
      EFFECTS.push(plainText(at));
      return { at: plainText(at) };
    },
  },
];

const fork = async ({ threads }: Stage, id: string, options: Partial<ForkOptions> = {}) =>
  await threads.fork(id, { by: BY, ...options });

async function forked(made: Stage, id: string, options: Partial<ForkOptions> = {}) {
  const done = await fork(made, id, options);
  if (!done.ok) throw new Error(`${done.error.code}: ${done.error.detail.message}`);
  return done.output;
}

async function journal({ threads }: Stage, id: string) {
  const events = await readJournal(threads.store, id);
  if (!events.ok) throw new Error(events.error.detail.message);
  return events.output;
}

/** Number of events, epoch and digest of the journal. */
async function print(made: Stage, id: string) {
  const row = await made.threads.store.thread(id);
  const events = await journal(made, id);
  if (!row.ok) throw new Error(row.error.detail.message);
  return [row.output.seq, row.output.epoch, hash('sha256', JSON.stringify(events))];
}

const isOther = (body: Json): boolean => JSON.stringify(body).includes('sonnet');

test('a fork continues at a boundary with the same prefix and a budget of its own', async () => {
  EFFECTS.length = 0;
  const made = await openStage(
    directive('look', { permissions: RIGHTS, limits: '<turns>4</turns>' }),
    {
      look: [
        { tool_calls: [call('probe/write', { at: 'a' })] },
        read('notes/a.txt'),
        { text: 'it says hello' },
        { text: 'and again' },
      ],
    },
    { tools: TOOLS },
  );
  const done = await made.threads.run({ directive: 'look' });
  if (!done.ok) throw new Error(done.error.detail.message);
  const id = done.output.thread_id;
  const before = await print(made, id);
  const result = await forked(made, id, { at: 'turn:2' });
  expect(result).toMatchObject({ status: 'completed', text: 'it says hello', cost: { turns: 1 } });
  expect(await print(made, id)).toEqual(before);
  expect(EFFECTS).toEqual(['a']);
  const [source, copy] = [await journal(made, id), await journal(made, result.thread_id)];
  const at = copy.findIndex(({ type }) => type === 'fork');
  const plain = (list: typeof source) =>
    list.slice(1, at).map((event) => ({ ...event, thread: '' }));
  expect(plain(copy)).toEqual(plain(source));
  expect(copy.at(at)?.data).toMatchObject({ from: id, at, by: 'ann (library)' });
  const last = made.provider.requests.at(-1);
  expect(JSON.stringify(last?.body)).toContain(
    `[harness] this thread was forked from ${id} at event ${at}; what ${id} did after that is not undone.`,
  );
  const replayed = await made.threads.replay(result.thread_id);
  expect(replayed).toMatchObject({ ok: true, output: { isSame: true } });
  const again = await forked(made, result.thread_id, { message: 'once more' });
  expect(again).toMatchObject({ status: 'completed', text: 'and again', cost: { turns: 1 } });
  expect(await made.threads.replay(again.thread_id)).toMatchObject({ output: { isSame: true } });
});

const failureOf = async (made: Stage, id: string, options: Partial<ForkOptions> = {}) => {
  const done = await fork(made, id, options);
  if (done.ok) throw new Error('the fork was made');
  return done.error;
};

test('a fork asks again for what was approved, and values that were approved vouch for nothing', async () => {
  EFFECTS.length = 0;
  const asks = '<guard on="op:tool:probe/write"><ask>may it?</ask></guard>';
  const write = { tool_calls: [call('probe/write', { at: 'a' })] };
  const made = await openStage(
    directive('look', { permissions: RIGHTS, guards: asks }),
    { look: [write, { text: 'done' }, write, { text: 'done' }] },
    { tools: TOOLS },
  );
  const first = await made.threads.run({ directive: 'look' });
  if (!first.ok) throw new Error(first.error.detail.message);
  const { thread_id: id } = first.output;
  const decide = async (thread: string) => {
    const open = await made.threads.store.approvals({ thread, state: 'pending' });
    const [one] = open.ok ? open.output : [];
    const by = { who: 'ann', channel: 'library' as const, why: '' };
    await made.threads.store.decide(one?.id ?? '', { decision: 'approved', ...by });
    return one;
  };
  await decide(id);
  expect(await made.threads.resume(id)).toMatchObject({ output: { status: 'completed' } });
  expect(EFFECTS).toEqual(['a']);
  const result = await forked(made, id, { message: 'again' });
  expect(result.status).toBe('waiting');
  expect(EFFECTS).toEqual(['a']);
  expect(await decide(result.thread_id)).toMatchObject({ thread: result.thread_id });
  const end = await made.threads.resume(result.thread_id);
  expect(end).toMatchObject({ output: { status: 'completed', cost: { turns: 2 } } });
  expect(EFFECTS).toEqual(['a', 'a']);
  expect(await made.threads.replay(result.thread_id)).toMatchObject({ output: { isSame: true } });
  // An open question stays with the source.
  const between = (await journal(made, id)).find(({ type }) => type === 'turn_start');
  expect(await failureOf(made, id, { at: between?.seq ?? 0 })).toMatchObject({
    code: 'invalid_input',
    detail: {
      message: expect.stringMatching(
        /is no boundary of thread .*; fork at \d+ \(opening\) or \d+ \(turn:1\)/,
      ),
    },
  });
  // The next reply of the script is a write again, and a second fork asks as well.
  const opening = await forked(made, id, { at: 'turn:0' });
  expect(opening.status).toBe('waiting');
});

test('uses that the source and its children took count in the fork', async () => {
  EFFECTS.length = 0;
  const counted =
    '<execute resource="tool" id="probe/write" uses="2"/><orchestration enabled="true"/>';
  const write = { tool_calls: [call('probe/write', { at: 'a' })] };
  const made = await openStage(
    {
      ...directive('look', { permissions: counted, limits: '<spawns>3</spawns><depth>2</depth>' }),
      ...directive('kid', { permissions: '<execute resource="tool" id="probe/write"/>' }),
    },
    {
      look: [
        write,
        { tool_calls: [spawn('kid', { wait_ms: 10_000 })] },
        { text: 'done' },
        write,
        { text: 'no use left' },
      ],
      kid: [write, { text: 'done' }],
    },
    { tools: TOOLS },
  );
  const done = await made.threads.run({ directive: 'look' });
  if (!done.ok) throw new Error(done.error.detail.message);
  expect(EFFECTS).toEqual(['a', 'a']);
  const result = await forked(made, done.output.thread_id, { message: 'write again' });
  expect(result).toMatchObject({ status: 'completed', text: 'no use left' });
  expect(EFFECTS).toEqual(['a', 'a']);
  const events = await journal(made, result.thread_id);
  expect(events.find(({ type }) => type === 'fork')?.data).toMatchObject({
    uses: { 'probe/write': 1 },
  });
  expect(events.findLast(({ type }) => type === 'permission_denied')?.data).toMatchObject({
    detail: { rule: 'uses' },
  });
});

test('what cannot be forked is refused before anything is made', async () => {
  const made = await openStage(
    {
      ...directive('look', {
        permissions: `${RIGHTS}<orchestration enabled="true"/>`,
        limits: '<spawns>3</spawns><depth>2</depth>',
      }),
      ...directive('kid', {}),
      '.ai/directives/fixed.md': answer('fixed', { action: 'continue' }),
    },
    {
      look: [{ tool_calls: [spawn('kid', { wait_ms: 10_000 })] }, { text: 'done' }],
      kid: [{ text: 'done' }],
    },
  );
  const done = await made.threads.run({ directive: 'look' });
  if (!done.ok) throw new Error(done.error.detail.message);
  const { thread_id: id } = done.output;
  const script = await made.threads.run({ directive: 'fixed' });
  if (!script.ok) throw new Error(script.error.detail.message);
  const all = async () => (await rows(made)).length;
  const before = await all();
  const [, child = ''] = (await rows(made)).map((row) => row.id);
  const refused: readonly [string, Partial<ForkOptions>, RegExp][] = [
    [id, {}, /had ended its work at event \d+; say what is next/],
    [id, { at: 0 }, /`0` is no boundary of thread .*; fork at \d+ \(opening\)/],
    [id, { at: 9999 }, /`9999` is no boundary of thread .*; fork at \d+ \(turn:2\)/],
    [id, { at: 'turn:7' }, /`turn:7` is no boundary/],
    [
      child,
      {},
      new RegExp(`is a child, whose rights depend on its parent; fork its root \`${id}\``),
    ],
    [script.output.thread_id, { message: 'go on' }, /runs a script or a plan/],
  ];
  for (const [thread, options, message] of refused) {
    const { code, detail } = await failureOf(made, thread, options);
    expect([code, detail.message]).toEqual(['invalid_input', expect.stringMatching(message)]);
  }
  expect((await failureOf(made, 'none')).code).toBe('not_found');
  expect(await all()).toBe(before);
});

test('hooks, plans, programs and sources over the bounds are refused with what they are', async () => {
  let changes: object = {};
  const openChanged: RuntimeOptions['openStore'] = async (options) => {
    const opened = await openSqliteStore(options);
    if (!opened.ok) return opened;
    const { thread } = opened.output;
    const changed: typeof thread = async (id) => {
      const row = await thread(id);
      return row.ok ? { ok: true, output: { ...row.output, ...changes } } : row;
    };
    return { ok: true, output: { ...opened.output, thread: changed } };
  };
  const plan = 'return { done: true }';
  const outputs = '<done type="boolean">x</done>';
  const made = await openStage(
    {
      ...directive('look', {
        permissions: READ,
        hooks: hook('event.name == "limit"', 'cook'),
        limits: '<turns>1</turns>',
      }),
      ...directive('cook', { outputs: '<action type="string">continue</action>' }),
      ...directive('job', { outputs }),
    },
    {
      look: [read('notes/a.txt')],
      cook: [{ text: '{"action": "fail"}' }],
      job: [{ text: plan }],
    },
    { openStore: openChanged },
  );
  const idOf = async (request: Parameters<Stage['threads']['run']>[0]) => {
    const done = await made.threads.run(request);
    if (!done.ok) throw new Error(done.error.detail.message);
    return done.output.thread_id;
  };
  const files = [1, 2, 3].map((at) => ({ data: makePdf(1, { bytes: 12e6 + at }), name: 'a.pdf' }));
  const large = await idOf({ directive: 'look', attach: files });
  const hooks = await made.threads.store.query({ kind: 'hook', limit: 1 });
  const hookId = hooks.ok ? hooks.output.rows[0]?.id : undefined;
  const planned = await idOf({ directive: 'job', plan: true });
  /** Returns the message for a source whose row differs. */
  const withRow = async (change: object) => {
    changes = change;
    const error = await failureOf(made, planned);
    changes = {};
    return error.detail.message;
  };
  const message = async (id: string) =>
    (await failureOf(made, id, { message: 'on' })).detail.message;
  expect(await message(hookId ?? '')).toContain(
    `is a hook, whose rights depend on its parent; fork its root \`${large}\``,
  );
  expect(await message(planned)).toContain('runs a script or a plan');
  expect(await withRow({ runner: 'mine' })).toContain('ran on `mine`');
  expect(await withRow({ project: 'prj_other' })).toContain(
    'belongs to `prj_other`; fork it there',
  );
  expect(await withRow({ seq: 20_001 })).toContain('has 20001 events; a fork copies at most 20000');
  expect(await message(large)).toContain('more than 33554432 bytes before this boundary');
});

test('a source that was sealed with another key is refused', async () => {
  let isForeign = false;
  const openForeign: RuntimeOptions['openStore'] = async (options) => {
    const opened = await openSqliteStore(options);
    if (!opened.ok) return opened;
    const secrets: Store['secrets'] = async (thread) => {
      const rows = await opened.output.secrets(thread);
      if (!rows.ok || !isForeign) return rows;
      // The tag of another key differs.
      const output = rows.output.map((row) => ({
        ...row,
        sealed: row.sealed.map((byte) => byte ^ 1),
      }));
      return { ok: true, output };
    };
    return { ok: true, output: { ...opened.output, secrets } };
  };
  const made = await openStage(
    directive('look', { permissions: READ }),
    { look: [read('notes/a.txt'), { text: 'done' }] },
    { openStore: openForeign },
  );
  made.fixture.write('notes/a.txt', 'cnry-of-the-file-1f9c');
  Object.assign(made.fixture.env, { SOME_TOKEN: 'cnry-of-the-file-1f9c' });
  const runtime = await made.fixture.open({ openStore: openForeign });
  const opened = await runtime.threads();
  if (!opened.ok) throw new Error(opened.error.detail.message);
  const done = await opened.output.run({ directive: 'look' });
  await runtime.close();
  const id = done.ok ? done.output.thread_id : '';
  isForeign = true;
  const error = await failureOf(made, id, { message: 'go on' });
  expect(error).toMatchObject({ code: 'permission_denied' });
  expect(error.detail.message).toContain('were sealed with another key');
  isForeign = false;
  expect(await forked(made, id, { message: 'go on' })).toMatchObject({ status: 'completed' });
});

test('the calls of another model are compared, charged and never executed', async () => {
  EFFECTS.length = 0;
  const write = { tool_calls: [call('probe/write', { at: 'a' })] };
  const made = await openStage(
    directive('look', { permissions: RIGHTS, limits: '<turns>6</turns><spend>1.00</spend>' }),
    {
      look: [
        ({ body }) => (isOther(body) ? read('notes/b.txt') : read('notes/a.txt')),
        write,
        { text: 'done' },
      ],
    },
    { tools: TOOLS },
  );
  const done = await made.threads.run({ directive: 'look' });
  if (!done.ok) throw new Error(done.error.detail.message);
  const { thread_id: id } = done.output;
  const before = await print(made, id);
  const limits = { spend: '0.50' };
  const options = { model: 'claude-sonnet-4-5', limits, by: BY };
  const compared = await made.threads.compare(id, options);
  if (!compared.ok) throw new Error(compared.error.detail.message);
  expect(compared.output).toMatchObject({
    status: 'completed',
    outputs: {
      same: 2,
      different: 1,
      turns: [
        {
          turn: 1,
          same: false,
          recorded: [{ tool: 'fs/read_file', arguments: { parameters: { path: 'notes/a.txt' } } }],
          answered: [{ tool: 'fs/read_file', arguments: { parameters: { path: 'notes/b.txt' } } }],
        },
        { turn: 2, same: true, recorded: [{ tool: 'probe/write' }] },
        { turn: 3, same: true, recorded: [], answered: [] },
      ],
    },
    cost: { turns: 3, tool_calls: 0 },
  });
  expect(Number(compared.output.cost.spend)).toBeGreaterThan(0);
  expect(EFFECTS).toEqual(['a']);
  expect(await print(made, id)).toEqual(before);
  const row = await made.threads.store.thread(compared.output.thread_id);
  expect(row).toMatchObject({ output: { runner: 'compare', depth: 0 } });
  const one = await made.threads.compare(id, { ...options, from: 2, to: 2 });
  expect(one).toMatchObject({ output: { outputs: { same: 1, different: 0 } } });
  const poor = await made.threads.compare(id, { ...options, limits: { spend: '0.00001' } });
  expect(poor).toMatchObject({ output: { status: 'limit', code: 'spend_exceeded' } });
  // The record of a comparison is no conversation that could continue.
  expect(await failureOf(made, compared.output.thread_id)).toMatchObject({ code: 'invalid_input' });
});
