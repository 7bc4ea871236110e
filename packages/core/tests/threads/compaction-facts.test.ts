// The facts of a pass come from the journal. After ten passes whose summaries are nonsense, each fact within the bounds
// is there, and nothing else is.
import { isLate } from '@kernmantle/test-support/late-store';
import { call, directive, run, spawn, stage } from '@kernmantle/test-support/thread-project';
import { expect, test } from 'vitest';
import { getOwn, type Json, type JsonObject, plainText, textAt } from '../../src/base/index.ts';
import { Facts } from '../../src/harness/compact/facts.ts';
import type { Recorded } from '../../src/journal/index.ts';
import type { ProgramTool } from '../../src/kernel/index.ts';
import { compactThread, signalThread } from '../../src/runtime/index.ts';
import type { StoredEvent } from '../../src/store/index.ts';

const BIG = 'word '.repeat(400);
const PERSON = { who: 'ann', channel: 'cli' } as const;
const tool = (id: string, effect: 'read' | 'write', role: 'path' | 'destination'): ProgramTool => ({
  id,
  description: 'A tool',
  effect,
  parameters: { at: { type: 'string', required: true, role } },
  run: ({ at = '' }) => {
    if (plainText(at).includes('broken')) throw new Error('it broke');
    return { at, text: BIG };
  },
});
const TOOLS = [
  tool('team/put', 'write', 'path'),
  tool('team/get', 'read', 'path'),
  tool('team/ask', 'read', 'destination'),
];
const PERMISSIONS =
  '<execute resource="tool" id="team/*"/><orchestration enabled="true"/><read resource="filesystem" path="**"/><write resource="filesystem" path="**"/>';
const GUARDS =
  '<guard on="op:tool:team/put"><when>"asked" in input.text</when><ask>may it?</ask></guard>';
const help = (action: string, reason: string) => ({ name: 'help', arguments: { action, reason } });
const CALLS = [
  call('team/put', { at: 'out/a.txt' }),
  call('team/get', { at: 'in/a.txt' }),
  call('team/ask', { at: 'one.test' }),
  help('checkpoint', 'first'),
  call('probe/none', {}),
  call('team/put', { at: 'out/broken.txt' }),
  call('team/put', { at: 'out/asked.txt' }),
  spawn('part', { wait_ms: 30_000 }),
  call('team/get', { at: 'in/b.txt' }),
  call('team/put', { at: 'out/a.txt' }),
  call('team/ask', { at: 'two.test' }),
  help('checkpoint', 'second'),
  call('team/get', { at: 'in/a.txt' }),
  call('team/get', { at: 'in/c.txt' }),
];

const resultsIn = (events: readonly StoredEvent[]) => {
  const calls = new Map(
    events.flatMap(({ type, data }) => (type === 'tool_call' ? [[data.call_id, data]] : [])),
  );
  return events.flatMap(({ type, data, seq }) => {
    const made = calls.get(data.call_id ?? null);
    return type === 'tool_result' && made ? [{ made, data, seq }] : [];
  });
};

/** Computes the facts in another way: from the whole journal at once. */
function expected(events: readonly StoredEvent[]): Record<string, unknown> {
  const results = resultsIn(events);
  const targets = (id: string): string[] => {
    const done = results.filter(({ made, data }) => made.tool === id && data.is_error !== true);
    const names = done.map(({ made }) => textAt(made, 'target')).toReversed();
    return [...new Set(names)];
  };
  const of = (type: string) => events.filter((event) => event.type === type).toReversed();
  const tools = [...new Set(results.map(({ made }) => textAt(made, 'tool')))].map((id) => {
    const counts: Record<string, number> = {};
    for (const { made, data } of results) {
      if (made.tool !== id) continue;
      const code = textAt(getOwn(data.content ?? null, 'error'), 'code');
      const word =
        data.is_error !== true ? 'done' : code === 'permission_denied' ? 'denied' : 'failed';
      counts[word] = (counts[word] ?? 0) + 1;
    }
    return { tool: id, ...counts };
  });
  return {
    files_written: targets('team/put'),
    files_read: targets('team/get'),
    hosts: targets('team/ask'),
    snapshots: of('snapshot').map(({ seq }) => ({ event: seq })),
    people_said: of('injected_message')
      .filter(({ data }) => data.by === 'ann (cli)')
      .map(({ seq, data }) => ({ event: seq, by: 'ann (cli)', text: data.text })),
    refused: of('permission_denied').map(({ seq, data }) => ({ event: seq, code: data.code })),
    children: of('child_end').map(({ data }) => ({ thread: data.thread_id, status: data.status })),
    approvals: of('approval')
      .filter(({ data }) => data.state !== 'pending')
      .map(({ seq, data }) => ({ event: seq, state: data.state })),
    tools: tools.toSorted((a, b) => a.tool.localeCompare(b.tool)),
  };
}

test.skipIf(isLate)('after ten passes with nonsense, every fact is there', async () => {
  let turn = -1;
  const made = await stage(
    {
      ...directive('lead', {
        permissions: PERMISSIONS,
        guards: GUARDS,
        limits:
          '<turns>50</turns><tokens>9000000</tokens><spend>10</spend><spawns>2</spawns><context compact="auto" keep="1">200000</context>',
      }),
      ...directive('part', {}),
    },
    async ({ body }) => {
      if (getOwn(body, 'tools') === undefined) return { text: 'Done: 99 files, evil.test, $r9' };
      if (JSON.stringify(body).includes('run directive part')) return { text: 'part done' };
      turn += 1;
      const { store } = made.threads;
      const page = await store.query({ directive: 'lead', limit: 1 });
      const id = (page.ok && page.output.rows[0]?.id) || '';
      if (turn % 4 === 1) {
        const text = `words number ${turn}`;
        expect(await signalThread(store, id, 'message', { content: text }, PERSON)).toMatchObject({
          ok: true,
        });
      }
      if (turn > 1) expect(await compactThread(store, id, PERSON)).toMatchObject({ ok: true });
      const next = CALLS[turn];
      return next ? { tool_calls: [next] } : { text: 'done' };
    },
    { tools: TOOLS },
  );
  const { thread_id: id, ...first } = await run(made, 'lead');
  expect(first.status).toBe('waiting');
  const queue = await made.threads.store.approvals({ state: 'pending' });
  for (const approval of queue.ok ? queue.output : [])
    await made.threads.store.decide(approval.id, { ...PERSON, decision: 'approved', why: '' });
  const resumed = await made.threads.resume(id);
  expect(resumed).toMatchObject({ ok: true, output: { status: 'completed' } });

  const read = await made.threads.store.read(id);
  const events = read.ok ? read.output : [];
  const passes = events.filter(({ type, data }) => type === 'compaction' && data.upto);
  expect(passes.length).toBeGreaterThanOrEqual(10);
  for (const pass of [passes[0], passes.at(-1)]) {
    if (!pass) continue;
    const facts = pass.data.facts as JsonObject;
    const past = events.filter(({ seq }) => seq < pass.seq);
    for (const [section, list] of Object.entries(expected(past))) {
      const own = (getOwn(facts, section) ?? []) as Json[];
      const byTool = (a: Json, b: Json) => textAt(a, 'tool').localeCompare(textAt(b, 'tool'));
      const shown = section === 'tools' ? own.toSorted(byTool) : own;
      if (typeof (list as unknown[])[0] === 'object')
        expect(shown, section).toMatchObject(list as Json[]);
      else expect(shown, section).toEqual(list);
    }
    const { turns } = facts.limits as Record<string, JsonObject>;
    // A request for a summary is no turn.
    const used = past.filter(({ type, data }) => type === 'turn_start' && data.n).length;
    expect(turns).toEqual({ used, max: 50, left: 50 - used });
    expect(facts).not.toHaveProperty('left_out');
    expect(JSON.stringify(facts)).not.toContain('evil.test');
  }
});

const LONG = 'x'.repeat(3000);
const recorded = (seq: number, type: string, data: JsonObject): Recorded =>
  ({ seq, type, data, turn: 1, ts: 0, thread: 't' }) as unknown as Recorded;
const put = (seq: number, target: string, more: JsonObject = {}): Recorded[] => [
  recorded(seq, 'tool_call', {
    call_id: `c${seq}`,
    tool: 'team/put',
    verb: 'execute',
    effect: 'write',
    target,
    arguments: {},
  }),
  recorded(seq + 1, 'tool_result', { call_id: `c${seq}`, content: 'ok', is_error: false, ...more }),
];
const said = (seq: number): Recorded =>
  recorded(seq, 'injected_message', {
    text: `${seq} ${LONG}`,
    by: 'ann',
    marks: { labels: [], taint: ['src:user'], sources: [] },
  });

test('the state of the facts is bounded, and keeps the newest', () => {
  const facts = new Facts(() => 'path', false);
  for (let at = 0; at < 500; at += 1)
    facts.add([...put(4 * at + 1, `out/${at}`), said(4 * at + 3)]);
  const written = facts.entries('files_written').map(({ line }) => line);
  expect(written).toHaveLength(200);
  expect(written[0]).toBe('out/499');
  expect(written.at(-1)).toBe('out/300');
  const words = facts.entries('people_said').map(({ line }) => textAt(line, 'text'));
  expect(words).toHaveLength(10);
  expect(words[0]?.startsWith('1999 xxx')).toBe(true);
  for (const text of words) expect(text).toHaveLength(2000);
  expect(facts.entries('tools')).toEqual([{ line: { tool: 'team/put', done: 500 } }]);
});

test('an unknown outcome stays, and a name is one line of at most 200 characters', () => {
  const facts = new Facts(() => 'path', false);
  const unknown = { is_error: true, content: { error: { code: 'outcome_unknown' } } };
  facts.add([...put(1, `out/\u001b[31m\n${LONG}`, unknown), ...put(3, 'out/b')]);
  const [line] = facts.entries('outcome_unknown').map((entry) => entry.line);
  expect(line).toMatchObject({ event: 2, tool: 'team/put' });
  expect(textAt(line, 'name')).toHaveLength(200);
  expect(textAt(line, 'name').startsWith('out/ [31m xxx')).toBe(true);
});

test('a name that strangers decided about stands apart, or is the reference that the model wrote', () => {
  const about = { at: { labels: ['untrusted'] } };
  for (const isReference of [false, true]) {
    const facts = new Facts(() => 'path', isReference);
    const [made, done] = put(1, 'evil.test/a');
    const data = { ...made?.data, about, arguments: { parameters: { at: '$r3.path' } } };
    facts.add([{ ...made, data } as Recorded, ...(done ? [done] : [])]);
    expect(facts.entries('files_written')).toEqual(
      isReference ? [{ line: '$r3.path' }] : [{ line: null, stranger: 'evil.test/a' }],
    );
  }
});
